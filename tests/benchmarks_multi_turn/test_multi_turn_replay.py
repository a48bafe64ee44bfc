"""Golden replay of BFCL: the same conversation whatever the model says, with the real APIs behind it."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from benchmarks.bfcl.data import rows
from benchmarks.multi_turn.conversations import MEASURED, WARM_UP
from benchmarks.multi_turn.replay import END_OF_TURN, LEAST_TOKENS, GoldenReplay, replays
from tests.benchmarks_multi_turn.conftest import measured, scripted_endpoint
from tests.e2e.conftest import CommandLine

pytestmark = pytest.mark.bfcl


async def played(row: dict[str, Any], says: str, output_tokens: int | None = None) -> tuple[GoldenReplay, list[Any]]:
    """The script at its end, and what was asked: messages, tools and length of each request."""
    script = GoldenReplay(row, output_tokens)
    asked = []
    while (ask := script.next()) is not None:
        asked.append((list(ask.messages), list(ask.tools), ask.output_tokens))
        await script.answered(says)
    return script, asked


@pytest.mark.asyncio
async def test_every_backend_sees_the_same_load_whatever_its_model_says() -> None:
    [row] = replays("multi_turn_base", 1, 0)
    _, one = await played(row, "I would rather not.")
    _, other = await played(row, '{"name": "rm"}' * 50)
    assert one == other
    *_, (messages, tools, _) = one
    assert [m["content"] for m in messages if m["role"] == "user"] == [q["content"] for t in row["question"] for q in t]
    assert len(tools) > 10
    calls = sum(len(turn) for turn in row["ground_truth"])
    assert len(one) == calls + len(row["question"]), "a request for each golden call, and one that ends each turn"


@pytest.mark.asyncio
async def test_golden_calls_are_made_on_the_real_apis_and_answered_under_their_ids() -> None:
    row = next(row for row in rows("multi_turn_base") if row["id"] == "multi_turn_base_0")
    script, asked = await played(row, "")
    *_, (messages, _, _) = asked
    for before, message in pairwise(messages):
        if message["role"] == "tool":
            assert message["tool_call_id"] == before["tool_calls"][0]["id"]
    results = [message["content"] for message in messages if message["role"] == "tool"]
    assert any("moved to 'temp/final_report.pdf'" in result for result in results)
    assert not any("Error during execution" in result for result in results)
    assert sum(m.get("content") == END_OF_TURN for m in messages) == len(row["question"]) - 1
    assert script.tools_s > 0


@pytest.mark.asyncio
async def test_a_missing_function_is_offered_from_its_turn_on() -> None:
    [row] = replays("multi_turn_miss_func", 1, 0)
    _, asked = await played(row, "")
    assert len(asked[0][1]) < len(asked[-1][1])


@pytest.mark.asyncio
async def test_replies_have_the_length_of_the_golden_message_or_the_one_given() -> None:
    [row] = replays("multi_turn_base", 1, 0)
    _, golden = await played(row, "")
    _, given = await played(row, "", output_tokens=17)
    assert all(tokens >= LEAST_TOKENS for _, _, tokens in golden)
    assert {tokens for _, _, tokens in given} == {17}


def test_the_first_ones_warm_up_and_more_than_there_are_is_refused() -> None:
    parts = [row["part"] for row in replays("multi_turn_base", 3, 2)]
    assert parts == [WARM_UP] * 2 + [MEASURED] * 3
    assert len(replays("multi_turn_base", None, 32)) == 200
    for conversations, warm_up in ((199, 2), (None, 200)):
        with pytest.raises(Exception, match="multi_turn_base has 200 conversations"):
            replays("multi_turn_base", conversations, warm_up)


def test_through_the_whole_of_agentflow_turns_calls_and_lengths_are_the_golden_ones(multi_turn: CommandLine) -> None:
    with scripted_endpoint() as url:
        done = multi_turn(
            "bfcl", "--clients", "4", "--warmup", "2", "--conversations", "6", "--base-url", url, "trial_name=t"
        )
    assert done.code == 0, done.out + done.err
    m = measured(multi_turn.cwd / "runs" / "agentflow" / "t")
    golden = rows("multi_turn_base")[2:8]
    turns = sum(len(row["question"]) for row in golden)
    assert m.whole is not None
    assert (m.whole.episodes, m.whole.turns, m.whole.errors) == (6, turns, 0)
    assert m.whole.requests == turns + sum(len(turn) for row in golden for turn in row["ground_truth"])
    assert m.turns[0].requests == 6 + sum(len(row["ground_truth"][0]) for row in golden)
    assert m.whole.lengths is not None
    assert m.whole.lengths.output == m.whole.lengths.output_asked
    assert m.times is not None
    assert m.times.tools
    assert "conversations may begin alike" in m.cache[-1]
