"""Which conversations are held: the same for the same seed, of the lengths asked for, in vLLM's own files too."""

from __future__ import annotations

import json
import math
import re
from itertools import pairwise
from pathlib import Path
from random import Random
from statistics import mean
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentflow.errors import UsageError
from benchmarks.multi_turn.conversations import MEASURED, WARM_UP, conversation_of, rounds
from benchmarks.multi_turn.distributions import (
    LEAST_TOKENS,
    Distribution,
    Generator,
    Lognormal,
    Poisson,
    Uniform,
    Zipf,
    generate,
    read_generator,
)
from benchmarks.multi_turn.scripts import Synthetic, said
from benchmarks.multi_turn.words import PROBE_WORDS, text, tokens_per_word

EXAMPLE: dict[str, Any] = {
    "filetype": "generate_conversations",
    "num_conversations": 24,
    "text_files": ["pg1184.txt"],
    "print_stats": False,
    "prompt_input": {
        "num_turns": {"distribution": "uniform", "min": 12, "max": 18},
        "common_prefix_num_tokens": {"distribution": "constant", "value": 500},
        "prefix_num_tokens": {"distribution": "lognormal", "average": 1000, "max": 5000},
        "num_tokens": {"distribution": "uniform", "min": 120, "max": 160},
    },
    "prompt_output": {"num_tokens": {"distribution": "uniform", "min": 80, "max": 120}},
}
SEEDS = st.integers(0, 10_000)


def written(folder: Path, value: Any) -> Path:
    path = folder / "generate_multi_turn.json"
    path.write_text(json.dumps(value))
    return path


def changed(path: str, value: Any, file: Any = EXAMPLE) -> dict[str, Any]:
    """The file with one value at a dotted path set."""
    copy = json.loads(json.dumps(file))
    *way, last = path.split(".")
    at: dict[str, Any] = copy
    for key in way:
        at = at[key]
    at[last] = value
    return dict(copy)


def test_the_first_conversations_warm_up_and_all_are_alike() -> None:
    rows = [conversation_of(row) for row in rounds(5, 2, 3, 512, 64, 100, seed=7)]
    assert [row.part for row in rows] == [WARM_UP] * 2 + [MEASURED] * 5
    assert len({row.id for row in rows}) == 7
    assert {(tuple(row.turns), row.shared_tokens) for row in rows} == {(((rows[0].turns[0],) * 3), 100)}
    assert (rows[0].turns[0].input_tokens, rows[0].turns[0].output_tokens) == (512, 64)


def test_a_row_of_other_data_is_refused_in_a_sentence() -> None:
    with pytest.raises(UsageError, match=r"no conversation to measure.*multi_turn:rounds.*agent multi-turn\."):
        conversation_of({"id": "x", "question": "What is 1 + 1?"})


def test_the_same_seed_says_the_same_and_another_conversation_or_seed_says_something_else() -> None:
    first, second = [conversation_of(row) for row in rounds(2, 0, 4, 50, 8, 0, seed=1)]
    other_seed = conversation_of(rounds(2, 0, 4, 50, 8, 0, seed=2)[0])
    assert said(first, 1.0) == said(first, 1.0)
    beginnings = {said(one, 1.0)[0][:60] for one in (first, second, other_seed)}
    assert len(beginnings) == 3, "an engine must not find one conversation in the cache of another"


def test_what_is_shared_comes_first_and_only_once() -> None:
    first, second = [said(conversation_of(row), 1.0) for row in rounds(2, 0, 2, 20, 8, 30, seed=1)]
    assert first[0].split()[:30] == second[0].split()[:30]
    assert first[0].split()[30:33] != second[0].split()[30:33]
    assert [len(message.split()) for message in first] == [50, 20]


@given(st.integers(1, 2000), st.floats(0.5, 4))
def test_a_text_has_the_words_that_come_to_the_tokens(tokens: int, per_word: float) -> None:
    words = len(text(Random(1), tokens, per_word).split())
    assert words >= 1
    assert abs(words * per_word - tokens) <= max(per_word, 0.5 * per_word + 1e-6)


@given(st.floats(0.8, 3), st.integers(0, 200))
def test_what_the_template_adds_cancels_out_of_the_cost_of_a_word(per_word: float, template: int) -> None:
    short, long = (round(words * per_word) + template for words in PROBE_WORDS)
    assert tokens_per_word(short, long) == pytest.approx(per_word, abs=1 / 300)


def test_an_endpoint_that_counts_nothing_has_no_cost_of_a_word() -> None:
    with pytest.raises(ValueError, match="400 words cost 10 tokens and 100 words 10"):
        tokens_per_word(10, 10)


@pytest.mark.asyncio
async def test_each_request_holds_the_conversation_and_the_replies_that_were_really_given() -> None:
    script = Synthetic(conversation_of(rounds(1, 0, 3, 10, 8, 0, seed=1)[0]), 1.0)
    roles = []
    while (ask := script.next()) is not None:
        assert ask.output_tokens == 8
        roles.append([message["role"] for message in ask.messages])
        await script.answered(f"reply {len(roles)}")
    assert roles == [["user"], ["user", "assistant", "user"], ["user", "assistant", "user", "assistant", "user"]]
    assert script.tools_s == 0


def test_vllms_own_file_is_read_as_it_is_and_gives_the_same_conversations_each_time(tmp_path: Path) -> None:
    generator = read_generator(written(tmp_path, EXAMPLE))
    rows = generate(generator, generator.num_conversations, 2, seed=1)
    assert rows == generate(generator, generator.num_conversations, 2, seed=1)
    assert rows != generate(generator, generator.num_conversations, 2, seed=2)
    found = [conversation_of(row) for row in rows]
    assert len(found) == 26
    for one in found:
        assert 6 <= len(one.turns) <= 9, "12 to 18 messages of both sides"
        assert one.shared_tokens == 500
        first, *later = one.turns
        assert LEAST_TOKENS <= first.input_tokens <= 5000 + LEAST_TOKENS, "the common prefix counts towards num_tokens"
        assert all(120 <= turn.input_tokens <= 160 for turn in later)
        assert all(80 <= turn.output_tokens <= 120 for turn in one.turns)


@pytest.mark.parametrize(
    ("common", "prefix", "message", "first"),
    [(40, 5, 60, 5 + 20), (500, 1000, 120, 1000 + LEAST_TOKENS), (0, 7, 60, 7 + 60)],
)
def test_the_common_prefix_counts_towards_the_first_message_and_the_own_one_does_not(
    tmp_path: Path, common: int, prefix: int, message: int, first: int
) -> None:
    file = EXAMPLE
    values = {"common_prefix_num_tokens": common, "prefix_num_tokens": prefix, "num_tokens": message}
    for key, value in values.items():
        file = changed(f"prompt_input.{key}", {"distribution": "constant", "value": value}, file)
    [row] = generate(read_generator(written(tmp_path, file)), 1, 0, seed=1)
    assert row["shared_tokens"] == common
    assert [turn[0] for turn in row["turns"]][:2] == [first, message]


def test_more_conversations_leave_the_first_ones_as_they_were(tmp_path: Path) -> None:
    generator = read_generator(written(tmp_path, EXAMPLE))
    assert generate(generator, 30, 0, seed=3)[:10] == generate(generator, 10, 0, seed=3)


def test_an_odd_number_of_messages_is_rounded_up_to_pairs_and_there_is_at_least_one(tmp_path: Path) -> None:
    for messages, turns in ((1, 1), (2, 1), (3, 2), (7, 4)):
        value = {"distribution": "constant", "value": messages}
        generator = read_generator(written(tmp_path, changed("prompt_input.num_turns", value)))
        assert len(generate(generator, 1, 0, seed=1)[0]["turns"]) == turns


@pytest.mark.parametrize(
    ("path", "value", "complaint"),
    [
        ("num_clients", 3, "num_clients"),
        ("filetype", "sharegpt", "$.filetype"),
        ("num_conversations", 0, "num_conversations"),
        ("prompt_input.sharing", {}, "sharing"),
        ("prompt_input.num_tokens", {"distribution": "normal", "mean": 3}, "normal"),
        ("prompt_input.num_tokens", {"distribution": "uniform", "min": 5, "max": 2}, "min 5 is more than max 2"),
        ("prompt_input.num_tokens", {"distribution": "uniform", "min": 5, "max": 9, "mean": 7}, "mean"),
        ("prompt_input.num_tokens", {"distribution": "lognormal", "average": 5, "sigma": 1}, "either average"),
        ("prompt_input.num_tokens", {"distribution": "zipf", "alpha": 1.0}, "alpha"),
        ("prompt_output", {}, "num_tokens"),
    ],
)
def test_a_file_with_something_else_in_it_is_refused_and_the_sentence_names_it(
    tmp_path: Path, path: str, value: Any, complaint: str
) -> None:
    with pytest.raises(UsageError, match=r"generate_multi_turn\.json") as refused:
        read_generator(written(tmp_path, changed(path, value)))
    assert complaint in str(refused.value)


def test_the_example_of_the_page_is_of_the_format(tmp_path: Path) -> None:
    page = Path(__file__).parents[2] / "docs" / "serving.md"
    (example,) = re.findall(r"```json\n(.*?)```", page.read_text(), re.DOTALL)
    assert generate(read_generator(written(tmp_path, json.loads(example))), 2, 0, seed=1)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"nowhere\.json cannot be read: No such file"):
        read_generator(tmp_path / "nowhere.json")


@pytest.mark.parametrize(
    ("path", "what"), [("prompt_output.num_tokens", "tokens"), ("prompt_input.num_turns", "messages")]
)
def test_a_tail_that_would_fill_the_memory_is_refused_with_the_way_out(tmp_path: Path, path: str, what: str) -> None:
    value = {"distribution": "constant", "value": 3_000_000}
    generator = read_generator(written(tmp_path, changed(path, value)))
    with pytest.raises(UsageError, match=rf'3,000,000 {what}.*"max"'):
        generate(generator, 1, 0, seed=1)


def parsed(**fields: Any) -> Distribution:
    return msgspec.convert(fields, Distribution)  # type: ignore[arg-type]


@given(SEEDS, st.integers(1, 500), st.integers(0, 500))
def test_uniform_stays_within_its_ends_and_is_whole_between_whole_numbers(seed: int, low: int, more: int) -> None:
    drawn = Uniform(low, low + more).draw(Random(seed))
    assert low <= drawn <= low + more
    assert drawn == int(drawn)


@given(SEEDS, st.sampled_from([Lognormal(average=100, max=60), Zipf(1.1, max=60), Poisson(100, max=60)]))
def test_max_is_never_passed(seed: int, distribution: Distribution) -> None:
    assert distribution.draw(Random(seed)) <= 60


def test_each_distribution_has_the_mean_that_its_parameters_say() -> None:
    random = Random(1)

    def mean_of(distribution: Distribution) -> float:
        return mean(distribution.draw(random) for _ in range(20_000))

    assert mean_of(parsed(distribution="lognormal", average=1000, median_ratio=0.5)) == pytest.approx(1000, rel=0.1)
    assert mean_of(parsed(distribution="lognormal", mean=2.0, sigma=0.5)) == pytest.approx(math.exp(2.125), rel=0.05)
    assert mean_of(parsed(distribution="poisson", alpha=10)) == pytest.approx(10, rel=0.02)
    assert mean_of(parsed(distribution="uniform", min=12, max=18)) == pytest.approx(15, rel=0.02)
    ones = mean(Zipf(2.0).draw(random) == 1 for _ in range(20_000))
    assert ones == pytest.approx(6 / math.pi**2, rel=0.03), "1 by zeta(2)"


def test_zipf_near_one_still_ends() -> None:
    assert all(Zipf(1.0001).draw(Random(seed)) >= 1 for seed in range(200))


def test_lengths_differ_between_turns_of_one_conversation(tmp_path: Path) -> None:
    generator: Generator = read_generator(written(tmp_path, EXAMPLE))
    turns = generate(generator, 1, 0, seed=1)[0]["turns"]
    assert any(one != other for one, other in pairwise(turns[1:]))
