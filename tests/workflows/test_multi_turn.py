"""MultiTurnWorkflow: answer, be told, try again."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from agentflow.rewards import exact_match
from agentflow.workflows import MultiTurnWorkflow
from tests.scripted import Answer, Ask, chat, scripted

ROW = {"messages": [{"role": "user", "content": "What is 2 + 2?"}], "answer": "4"}


async def play(workflow: MultiTurnWorkflow, *said: str | None) -> tuple[dict[str, float], list[list[dict[str, Any]]]]:
    """The rewards by call id (``call-0``, ``call-1``, ...) and the conversation of each call."""
    turns = iter(enumerate(said))

    def answer(ask: Ask) -> Answer:
        turn, text = next(turns)
        reply = chat(text, id=f"call-{turn}")
        reply["choices"][0]["message"]["refusal"] = None
        return reply

    async with scripted(answer) as server, httpx2.AsyncClient() as client:
        rewards = await workflow.run(ROW, base_url=server.url, api_key="k", http_client=client)
        return rewards, [ask.body["messages"] for ask in server.asks]


@pytest.mark.asyncio
async def test_after_a_wrong_answer_the_model_is_told_and_asked_again_and_a_later_answer_is_worth_less() -> None:
    workflow = MultiTurnWorkflow(exact_match, max_turns=5, feedback="No.", turn_discount=0.5)
    rewards, conversations = await play(workflow, "3", "5", "4", "never said")
    assert rewards == {"call-0": 0.0, "call-1": 0.0, "call-2": 0.25}
    assert list(rewards) == ["call-0", "call-1", "call-2"]
    assert conversations[2] == [
        *ROW["messages"],
        {"role": "assistant", "content": "3"},
        {"role": "user", "content": "No."},
        {"role": "assistant", "content": "5"},
        {"role": "user", "content": "No."},
    ]


@pytest.mark.asyncio
async def test_it_gives_up_after_max_turns() -> None:
    rewards, conversations = await play(MultiTurnWorkflow(exact_match, max_turns=2), "3", "5", "4")
    assert rewards == {"call-0": 0.0, "call-1": 0.0}
    assert len(conversations) == 2


@pytest.mark.asyncio
async def test_an_answer_without_content_is_sent_back_as_an_empty_one() -> None:
    _, conversations = await play(MultiTurnWorkflow(exact_match, max_turns=2), None, "4")
    assert conversations[1][1] == {"role": "assistant", "content": ""}, "engines refuse a message without content"


@pytest.mark.asyncio
async def test_the_rows_own_messages_stay_as_they_are() -> None:
    await play(MultiTurnWorkflow(exact_match, max_turns=2), "3", "4")
    assert len(ROW["messages"]) == 1


def test_no_turns_are_refused() -> None:
    with pytest.raises(ValueError, match="max_turns is 0"):
        MultiTurnWorkflow(exact_match, max_turns=0)
