"""Retries and the choice of a worker, without servers."""

from __future__ import annotations

from collections import Counter

import pytest

from agentflow.channel.messages import WorkerInfo
from agentflow.episode import Kind
from agentflow.runner.policy import (
    BACKOFF_CAP_S,
    Again,
    Budget,
    Failure,
    GiveUp,
    PassOn,
    Retry,
    choose,
    failure_of,
    hint_of,
    parse_retry_after,
)


def retry(retries: int = 3, window_s: float = 120.0, limited_s: float = 3600.0, jitter: float = 1.0) -> Retry:
    return Retry(Budget(retries, window_s, limited_s), lambda: jitter)


def workers(n: int, **changes: object) -> list[WorkerInfo]:
    return [WorkerInfo(f"w{i}", f"http://w{i}", "m") for i in range(n)]


def test_transport_failures_are_tried_again_with_doubling_waits_until_the_retries_are_spent() -> None:
    r = retry(retries=3)
    decisions = [r.after(Failure.TRANSPORT, f"w{i}") for i in range(4)]
    assert decisions[:3] == [Again(0.5), Again(1.0), Again(2.0)]
    assert isinstance(decisions[3], GiveUp)
    assert decisions[3].reason == "4 tries failed (rollout.request_retries is 3)"
    only = retry(retries=0).after(Failure.TRANSPORT, "w")
    assert isinstance(only, GiveUp)
    assert only.reason.startswith("1 try failed")


def test_waits_are_capped_and_jittered_over_their_upper_half() -> None:
    r = retry(retries=50, window_s=1e9, jitter=1.0)
    waits = [r.after(Failure.TRANSPORT, "w") for _ in range(20)]
    assert waits[-1] == Again(BACKOFF_CAP_S)
    assert retry(jitter=0.0).after(Failure.TRANSPORT, "w") == Again(0.25)


def test_the_window_counts_waiting_not_the_time_that_a_try_ran() -> None:
    r = retry(retries=50, window_s=4.0)
    assert [type(r.after(Failure.TRANSPORT, "w")) for _ in range(4)] == [Again, Again, Again, GiveUp]


def test_time_without_a_healthy_worker_uses_the_window_up() -> None:
    r = retry(window_s=10.0)
    r.waited(9.8)
    assert r.outage_left_s == pytest.approx(0.2)
    assert isinstance(r.after(Failure.TRANSPORT, "w"), GiveUp)


def test_a_failed_worker_is_avoided() -> None:
    r = retry()
    r.after(Failure.TRANSPORT, "w1")
    assert r.avoid == {"w1"}


def test_a_limited_worker_is_kept_and_its_retry_after_obeyed() -> None:
    r = retry()
    decision = r.after(Failure.LIMITED, "w1", 7.0)
    assert isinstance(decision, Again)
    assert decision.wait_s >= 7.0
    assert r.avoid == set()


def test_429_does_not_touch_the_failure_budget() -> None:
    r = retry(retries=1)
    for _ in range(20):
        assert isinstance(r.after(Failure.LIMITED, "w"), Again)
    assert isinstance(r.after(Failure.TRANSPORT, "w"), Again)


def test_429_is_finite_too() -> None:
    r = retry(limited_s=30.0)
    decisions = [r.after(Failure.LIMITED, "w", 10.0) for _ in range(3)]
    assert [type(d) for d in decisions] == [Again, Again, GiveUp]
    assert isinstance(retry(limited_s=30.0).after(Failure.LIMITED, "w", 31.0), GiveUp)


def test_a_500_is_tried_once_elsewhere_and_then_passed_on() -> None:
    r = retry()
    assert isinstance(r.after(Failure.INTERNAL, "w0"), Again)
    assert r.avoid == {"w0"}
    assert r.after(Failure.INTERNAL, "w1") == PassOn()


def test_an_episode_stays_on_its_worker_while_it_is_healthy() -> None:
    chosen = choose(workers(5), "w3", set(), "episode")
    assert chosen is not None
    assert chosen.name == "w3"


def test_fail_over_spreads_the_episodes_of_a_dead_worker_over_all_others() -> None:
    table = workers(5)
    chosen = Counter(w.name for i in range(400) if (w := choose(table, "w0", {"w0"}, f"episode {i}")))
    assert set(chosen) == {"w1", "w2", "w3", "w4"}
    assert min(chosen.values()) > 60


def test_losing_one_more_worker_moves_only_its_own_episodes() -> None:
    before = {i: choose(workers(5), "", set(), f"episode {i}") for i in range(200)}
    after = {i: choose(workers(4), "", set(), f"episode {i}") for i in range(200)}
    assert all(after[i] == worker for i, worker in before.items() if worker and worker.name != "w4")


def test_an_avoided_worker_is_chosen_when_no_other_is_healthy_and_nobody_when_none_is() -> None:
    one = workers(1)
    assert choose(one, "w0", {"w0"}, "episode") == one[0]
    assert choose([WorkerInfo("w0", "", "m", healthy=False)], "w0", set(), "episode") is None
    assert choose([], "w0", set(), "episode") is None


@pytest.mark.parametrize(
    ("status", "failure"),
    [
        (429, Failure.LIMITED),
        (500, Failure.INTERNAL),
        (502, Failure.TRANSPORT),
        (503, Failure.TRANSPORT),
        (504, Failure.TRANSPORT),
        (501, None),
        (400, None),
        (404, None),
        (200, None),
    ],
)
def test_which_statuses_are_tried_again(status: int, failure: Failure | None) -> None:
    assert failure_of(status, b"") is failure


@pytest.mark.parametrize(
    "wording",
    [
        "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens",
        "Requested token count exceeds the model's maximum context length of 4096 tokens.",
        "The decoder prompt (length 5000) is longer than the maximum model length of 4096.",
        "The input (9001 tokens) is longer than the model's context length (4096 tokens).",
        '"type":"exceed_context_size_error"',
        "the request exceeds the available context size, try increasing it",
        '"code": "context_length_exceeded"',
        "Your input exceeds the context window of this model.",
        "prompt is too long: 210000 tokens > 200000 maximum",
        "input length and `max_tokens` exceed context limit: 1 + 2 > 2",
    ],
)
def test_a_400_that_speaks_of_the_context_is_an_overflow(wording: str) -> None:
    assert hint_of(400, wording.encode()) is Kind.CONTEXT_OVERFLOW


def test_a_dead_engine_behind_a_living_server_is_a_transport_failure() -> None:
    said = b'{"error": {"message": "EngineCore encountered an issue. See stack trace (above) for the root cause."}}'
    assert failure_of(500, said) is Failure.TRANSPORT
    assert failure_of(400, said) is None


def test_other_errors_hint_at_nothing_and_a_500_at_the_server() -> None:
    assert hint_of(400, b"unknown tool_choice") is None
    assert hint_of(404, b"context length") is None
    assert hint_of(500, b"boom") is Kind.SERVER_ERROR


def test_retry_after_is_read_as_seconds_or_as_a_date() -> None:
    assert parse_retry_after("7", 0.0) == 7.0
    assert parse_retry_after("Thu, 01 Jan 1970 00:01:40 GMT", 40.0) == 60.0
    assert parse_retry_after("Thu, 01 Jan 1970 00:00:00 GMT", 40.0) == 0.0
    assert parse_retry_after("soon", 0.0) is None
    assert parse_retry_after(None, 0.0) is None
