"""What comes back from run(), and what it means."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentflow.agents.adapter import ending_of, episode_seed
from agentflow.agents.failures import ending_of_exception
from agentflow.agents.masking import mask
from agentflow.episode import Call, Episode, Kind, Outcome


def call(id: str) -> Call:
    return Call(id, "/v1/chat/completions", started_at=0.0, latency_s=1.0, status=200)


CALLS = [call("chatcmpl-1"), call("chatcmpl-2"), call("chatcmpl-3")]


class FakeTensor:
    """Speaks as a 0-d tensor does, without torch."""

    ndim = 0

    def __init__(self, value: float) -> None:
        self._value = value

    def item(self) -> float:
        return self._value


@pytest.mark.parametrize(
    ("value", "reward"),
    [
        (0.5, 0.5),
        (1, 1.0),
        (True, 1.0),
        (False, 0.0),
        (np.float32(0.25), 0.25),
        (np.int64(3), 3.0),
        (np.bool_(True), 1.0),
        (np.array(0.75), 0.75),
        (FakeTensor(0.5), 0.5),
        (Fraction(1, 2), 0.5),
        (Decimal("0.5"), 0.5),
    ],
)
def test_anything_that_holds_one_number_is_a_reward(value: object, reward: float) -> None:
    ending = ending_of(value, [])
    assert (ending.outcome, ending.reward) == (Outcome.SCORED, reward)
    assert type(ending.reward) is float


def test_none_rejects_the_episode() -> None:
    assert ending_of(None, CALLS).outcome is Outcome.REJECTED


async def _forgotten() -> float:
    return 1.0


class BadRepr:
    def __repr__(self) -> str:
        raise RuntimeError("no repr")


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: math.nan, "nan (float)"),
        (lambda: math.inf, "inf (float)"),
        (lambda: np.float32("nan"), "nan"),
        (lambda: "1.0", "'1.0' (str); a reward is one number, a dict of numbers, or None"),
        (lambda: np.array([1.0, 2.0]), "array([1., 2.]) (ndarray)"),
        (lambda: (1.0, {}), "(1.0, {}) (tuple)"),
        (dict, "an empty dict"),
        (lambda: {"a": math.nan}, "a dict whose 'a' is nan"),
        (lambda: {"a": "b"}, "a dict whose 'a' is 'b' (str)"),
        (lambda: {1: 1.0}, "a dict with the key 1 (int)"),
        (lambda: 10**400, "no float"),
        (lambda: {"x" * 400: 1.0}, "a dict with the key 'xxxxx"),
        (lambda: {"\udcff": 1.0}, "a dict with the key '\\udcff' (str)"),
        (lambda: {f"m{i}": 1.0 for i in range(1001)}, "a dict of 1001 metrics; 1000 are the most"),
        (lambda: 1j, "1j (complex)"),
        (BadRepr, "<BadRepr instance at"),
    ],
)
def test_anything_else_is_an_invalid_reward_and_says_what_came_back(make: Callable[[], object], said: str) -> None:
    ending = ending_of(make(), CALLS)
    assert (ending.outcome, ending.kind, ending.reward) == (Outcome.FAILED, Kind.INVALID_REWARD, None)
    assert said in ending.error
    assert not ending.fatal


def test_a_forgotten_await_is_named() -> None:
    coroutine = _forgotten()
    assert "an 'await' is missing" in ending_of(coroutine, []).error
    coroutine.close()


def test_rewards_by_call_id_give_the_last_started_rewarded_call_as_headline() -> None:
    ending = ending_of({"chatcmpl-2": 0.2, "chatcmpl-1": 0.1}, CALLS)
    assert ending.reward == 0.2
    assert ending.call_rewards == {"chatcmpl-1": 0.1, "chatcmpl-2": 0.2}
    assert ending.metrics == {}


@pytest.mark.parametrize(
    ("value", "reward_key", "reward", "metrics"),
    [
        ({"reward": 1.0, "steps": 4}, "", 1.0, {"steps": 4.0}),
        ({"accuracy": 0.5}, "", 0.5, {}),
        ({"accuracy": 0.5, "f1": 0.25}, "f1", 0.25, {"accuracy": 0.5}),
        ({"reward": 1.0, "f1": 0.25}, "f1", 0.25, {"reward": 1.0}),
        ({"reward": 1.0, "f1": 0.25}, "absent", 1.0, {"f1": 0.25}),
    ],
)
def test_named_metrics_have_one_headline(
    value: dict[str, float], reward_key: str, reward: float, metrics: dict[str, float]
) -> None:
    ending = ending_of(value, CALLS, reward_key)
    assert (ending.outcome, ending.reward, ending.metrics) == (Outcome.SCORED, reward, metrics)


@pytest.mark.parametrize(
    ("value", "reward_key", "said"),
    [
        ({"accuracy": 1, "f1": 1}, "", "(accuracy, f1) and none is called 'reward': choose"),
        ({"accuracy": 1, "f1": 1}, "f2", "rollout.reward_key=f2 is not among them"),
        ({"chatcmpl-1": 1, "chatcmpl-9": 1}, "", "only 1 of its 2 keys are ids of recorded calls"),
    ],
)
def test_metrics_without_a_headline_stop_the_run(value: dict[str, float], reward_key: str, said: str) -> None:
    ending = ending_of(value, CALLS, reward_key)
    assert ending.fatal
    assert ending.kind is Kind.INVALID_REWARD
    assert said in ending.error


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner),
    )
)
def test_no_value_at_all_raises_or_brings_nan_into_a_result(value: object) -> None:
    ending = ending_of(value, CALLS)
    json.dumps([ending.reward, dict(ending.metrics), dict(ending.call_rewards)], allow_nan=False)
    assert (ending.reward is not None) == (ending.outcome is Outcome.SCORED)


def test_the_seed_of_an_episode_is_the_same_for_every_attempt_and_no_other_episode() -> None:
    seeds = {episode_seed(Episode("a", i, attempt, seed=1)) for i in range(50) for attempt in range(3)}
    assert len(seeds) == 50
    assert all(0 <= seed < 2**31 for seed in seeds)


class MaxTurnsExceeded(Exception):
    """As openai-agents calls it."""


class OurTurns(MaxTurnsExceeded):
    pass


class GraphRecursionError(RecursionError):
    """As langgraph calls it."""


class GraderError(Exception):
    """As agentflow.rewards calls it."""


def _chained() -> Exception:
    error = RuntimeError("agent gave up")
    error.__cause__ = MaxTurnsExceeded("10")
    return error


@pytest.mark.parametrize(
    ("error", "hint", "kind"),
    [
        (ValueError("x"), None, Kind.EXCEPTION),
        (MaxTurnsExceeded("10"), None, Kind.MAX_TURNS),
        (OurTurns("10"), Kind.SERVER_ERROR, Kind.MAX_TURNS),
        (GraphRecursionError("25"), None, Kind.MAX_TURNS),
        (GraderError("timed out"), None, Kind.GRADER),
        (_chained(), None, Kind.MAX_TURNS),
        (ExceptionGroup("group", [ValueError("x"), MaxTurnsExceeded("10")]), None, Kind.MAX_TURNS),
        (ValueError("400"), Kind.CONTEXT_OVERFLOW, Kind.CONTEXT_OVERFLOW),
        (SystemExit(1), None, Kind.EXCEPTION),
        (asyncio.CancelledError(), None, Kind.EXCEPTION),
    ],
)
def test_an_exception_fails_the_episode_with_its_kind(error: BaseException, hint: Kind | None, kind: Kind) -> None:
    ending = ending_of_exception(error, hint)
    assert (ending.outcome, ending.kind) == (Outcome.FAILED, kind)


def test_openai_agents_own_exception_is_recognised() -> None:
    from agents.exceptions import MaxTurnsExceeded as Real

    assert ending_of_exception(Real("Max turns (10) exceeded")).kind is Kind.MAX_TURNS


def test_a_traceback_shows_the_users_frames_and_the_cause() -> None:
    def tool() -> None:
        json.loads("{")

    try:
        try:
            tool()
        except ValueError as e:
            raise RuntimeError("the tool failed") from e
    except RuntimeError as e:
        ending = ending_of_exception(e)
    assert ending.error.startswith("RuntimeError: the tool failed")
    assert 'json.loads("{")' in ending.traceback
    assert "caused by" in ending.traceback
    assert "json/decoder.py" not in ending.traceback


def test_a_runaway_recursion_with_a_huge_message_stays_small() -> None:
    def deep(n: int) -> None:
        if n == 0:
            raise ValueError("x" * 1_000_000)
        deep(n - 1)

    try:
        deep(500)
    except ValueError as e:
        ending = ending_of_exception(e)
    assert len(ending.error) < 1000
    assert len(ending.traceback) < 8000


def test_an_exception_whose_text_raises_is_still_shown() -> None:
    class Bad(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    assert "Bad" in ending_of_exception(Bad()).error


def test_secrets_are_masked_and_short_words_are_not() -> None:
    assert mask("key sk-abcdef123 in url; on", {"sk-abcdef123", "on"}) == "key *** in url; on"
