"""Each number of a summary against a small run that is computed by hand."""

from __future__ import annotations

import random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentflow.episode import Call, EpisodeResult, Kind, Outcome, usage_by_role
from agentflow.metrics import Interval, Percentiles, Scoring, stats, summarize, tabulate_stats
from agentflow.metrics.at_k import AtK
from agentflow.metrics.usage import busy_s, percentiles


def call(id="c", latency=1.0, worker="w-0", start=0.0, status=200, **fields):
    return Call(id, "/v1/chat/completions", start, latency, status, worker=worker, **fields)


def ended(item, sample=0, reward=None, outcome=Outcome.SCORED, kind=None, attempt=0, calls=(), **fields):
    return EpisodeResult(
        item, sample, attempt, outcome, kind, reward, calls=tuple(calls), usage=usage_by_role(calls), **fields
    )


def failed(item, sample=0, kind=Kind.EXCEPTION, **fields):
    return ended(item, sample, None, Outcome.FAILED, kind, **fields)


def lost(item, sample=0, **fields):
    return ended(item, sample, None, Outcome.LOST, Kind.UNREACHABLE, **fields)


RUN = [
    ended("a", 0, 1.0),
    ended("a", 1, 0.0),
    ended("b", 0, 1.0),
    failed("b", 1, Kind.TIMEOUT),
    ended("c", 0, 1.0),
    lost("c", 1),
    lost("d", 0),
    ended("d", 1, outcome=Outcome.REJECTED),
    ended("e", 0, outcome=Outcome.CANCELLED),
]


def test_the_headline_counts_failures_and_leaves_out_lost_rejected_and_cancelled():
    s = summarize(RUN, Scoring(n_samples=2, n_items=6))
    assert s.reward.items == 3
    assert s.reward.episodes == 5
    assert s.reward.mean == pytest.approx((0.5 + 0.5 + 1.0) / 3)
    # Item means 0.5, 0.5, 1: s = 0.288675, stderr = s / sqrt(3).
    assert s.reward.stderr == pytest.approx(1 / 6)
    assert s.counts == {"scored": 4, "failed": 1, "lost": 2, "rejected": 1, "cancelled": 1}
    assert (s.expected, s.missing, s.items) == (12, 3, 6)
    assert s.coverage == pytest.approx(5 / 12)
    assert s.timeout_share == pytest.approx(1 / 5)
    assert s.owed == 3 + 2 + 1
    assert s.partial


def test_bounds_give_every_lost_episode_the_worst_and_the_best_reward():
    s = summarize(RUN, Scoring(n_samples=2))
    # Worst: a 0.5, b 0.5, c (1+0)/2, d 0. Best: a 0.5, b 0.5, c 1, d 1.
    assert s.bounds == Interval(pytest.approx(1.5 / 4), pytest.approx(3.0 / 4))
    wide = summarize(RUN, Scoring(n_samples=2, reward_range=(-1.0, 3.0)))
    assert wide.bounds == Interval(pytest.approx((1.0 + 0.0 - 1.0) / 4), pytest.approx((1.0 + 2.0 + 3.0) / 4))
    assert summarize(RUN[:4], Scoring()).bounds is None


def test_a_failed_episode_counts_what_the_user_said_and_is_no_pass():
    s = summarize([ended("a", 0, 1.0), failed("a", 1)], Scoring(failed_reward=-1.0, n_samples=2))
    assert s.reward.mean == 0.0
    assert s.pass_at == [AtK(1, 0.5, 1), AtK(2, 1.0, 1)]
    assert s.pass_hat == [AtK(1, 0.5, 1), AtK(2, 0.0, 1)]


def test_pass_at_k_is_over_the_items_that_have_k_valid_episodes():
    s = summarize(RUN, Scoring(n_samples=2))
    assert [(e.k, e.value, e.items) for e in s.pass_at] == [(1, pytest.approx(2 / 3), 3), (2, 1.0, 2)]
    assert [(e.k, e.value, e.items) for e in s.pass_hat] == [(1, pytest.approx(2 / 3), 3), (2, 0.0, 2)]
    assert s.best_of == []
    nobody = summarize([ended("a", 0, 1.0), lost("a", 1)], Scoring(n_samples=2))
    assert nobody.pass_at[1] == AtK(2, None, 0)
    assert "pass@2" not in stats(nobody)


def test_other_rewards_have_best_of_k_instead():
    s = summarize([ended("a", 0, 0.2), ended("a", 1, 0.6)], Scoring(n_samples=2))
    assert (s.pass_at, s.pass_hat) == ([], [])
    assert s.best_of == [AtK(1, pytest.approx(0.4), 1), AtK(2, pytest.approx(0.6), 1)]


def test_an_attempt_that_was_tried_again_counts_once_and_one_in_between_is_missing():
    attempts = [
        lost("a", final=False),
        ended("a", 0, 1.0, attempt=1),
        ended("b", 0, outcome=Outcome.CANCELLED),
        lost("b", attempt=1, final=False),
    ]
    s = summarize(attempts, Scoring())
    assert s.counts == {"scored": 1, "failed": 0, "lost": 0, "rejected": 0, "cancelled": 0}
    assert (s.missing, s.retried) == (1, 2)


def test_kinds_are_counted_with_an_example_and_most_frequent_first():
    s = summarize([failed("b"), failed("a"), failed("c", 0, Kind.TIMEOUT), lost("d")], Scoring())
    assert [(k.outcome, k.kind, k.episodes, k.example) for k in s.kinds] == [
        ("failed", "exception", 2, "a/0"),
        ("failed", "timeout", 1, "c/0"),
        ("lost", "unreachable", 1, "d/0"),
    ]


def test_named_metrics_leave_failed_episodes_out_and_say_how_many_stand_behind_them():
    s = summarize(
        [
            ended("a", 0, 1.0, metrics={"steps": 2.0}),
            ended("a", 1, 1.0, metrics={"steps": 4.0}),
            ended("b", 0, 1.0, metrics={"steps": 9.0}),
            ended("c", 0, 1.0),
            failed("d", metrics={"steps": 100.0}),
        ],
        Scoring(n_samples=2),
    )
    steps = s.metrics["steps"]
    assert (steps.mean, steps.items, steps.episodes) == (6.0, 2, 3)


def test_tokens_turns_and_truncation_are_kept_apart_by_role():
    calls = [
        call(prompt_tokens=100, completion_tokens=10, cached_tokens=60, tool_calls=2),
        call(prompt_tokens=100, completion_tokens=20, truncated=True),
        call(role="judge", prompt_tokens=7, completion_tokens=1),
    ]
    s = summarize(
        [ended("a", 0, 1.0, calls=calls), failed("b", calls=calls[:2]), lost("c", calls=calls[:1])], Scoring()
    )
    agent, judge = s.roles["default"], s.roles["judge"]
    assert (agent.calls, agent.prompt_tokens, agent.completion_tokens, agent.tool_calls) == (5, 500, 70, 6)
    assert agent.cached_share == pytest.approx(180 / 500)
    assert agent.truncation_rate == pytest.approx(2 / 5)
    assert agent.calls_per_episode == 2.0  # the lost episode broke off: it says nothing about turns
    assert (judge.calls, judge.prompt_tokens, judge.calls_per_episode) == (1, 7, 0.5)
    flat = stats(s)
    assert flat["tokens/prompt"] == 500
    assert flat["role/judge/tokens/prompt"] == 7


def test_latencies_are_of_answered_calls():
    calls = [call(latency=float(i), ttft_s=i / 10) for i in range(1, 6)]
    calls += [call(latency=99.0, status=503, error="no"), call(latency=99.0, status=0)]
    role = summarize([ended("a", 0, 1.0, calls=calls)], Scoring()).roles["default"]
    assert role.latency == Percentiles(3.0, pytest.approx(4.6), pytest.approx(4.96))
    assert role.ttft == Percentiles(pytest.approx(0.3), pytest.approx(0.46), pytest.approx(0.496))


def test_percentiles_are_those_of_numpy():
    numpy = pytest.importorskip("numpy")
    values = [random.Random(1).expovariate(1) for _ in range(37)]
    p = percentiles(values)
    assert (p.p50, p.p90, p.p99) == pytest.approx(tuple(numpy.percentile(values, [50, 90, 99])))
    assert percentiles([]) is None


def test_one_bad_worker_shows():
    good = [ended(f"g{i}", 0, 1.0, worker="w-0", calls=[call(completion_tokens=50, start=i)]) for i in range(8)]
    bad = [
        ended(f"b{i}", 0, 0.0, worker="w-1", calls=[call(worker="w-1", status=500, error="x", latency=2.0, start=i)])
        for i in range(8)
    ]
    first, second = summarize(good + bad, Scoring()).workers
    assert (first.name, first.episodes, first.reward.mean, first.error_share) == ("w-0", 8, 1.0, 0.0)
    assert (second.name, second.episodes, second.reward.mean, second.error_share) == ("w-1", 8, 0.0, 1.0)
    assert first.reward.ci95.low > second.reward.ci95.high
    assert first.tokens_per_s == pytest.approx(50.0)
    assert (first.latency_p50, second.latency_p50) == (1.0, None)


def test_busy_time_counts_overlapping_calls_once():
    assert busy_s([call(start=0, latency=2), call(start=1, latency=2), call(start=10, latency=1)]) == 4.0
    assert busy_s([call(start=0, latency=9), call(start=1, latency=1)]) == 9.0
    assert busy_s([]) == 0.0


def test_groups_break_the_headline_down_by_any_column():
    results = [
        ended("a", 0, 1.0, groups={"level": "1", "subject": "algebra"}),
        ended("b", 0, 0.0, groups={"level": "2", "subject": "algebra"}),
        failed("c", groups={"level": "2"}),
        lost("d", groups={"level": "3"}),
    ]
    groups = summarize(results, Scoring()).groups
    levels = {value: (m.items, m.mean) for value, m in groups["level"].items()}
    assert levels == {"1": (1, 1.0), "2": (2, 0.0), "3": (0, None)}
    assert groups["subject"]["algebra"].mean == 0.5


def test_groups_are_in_the_order_of_their_numbers():
    levels = ["10", "easy", "2", "-1", "1"]
    groups = summarize([ended(f"i{n}", 0, 1.0, groups={"level": v}) for n, v in enumerate(levels)], Scoring()).groups
    assert list(groups["level"]) == ["-1", "1", "2", "10", "easy"]


def test_warnings_are_counted_once_an_episode():
    s = summarize(
        [ended("b", 0, 1.0, warnings=("no call", "no call")), ended("a", 0, 1.0, warnings=("no call",))], Scoring()
    )
    assert [(w.text, w.episodes, w.example) for w in s.warnings] == [("no call", 2, "a/0")]


def test_elapsed_time_is_that_in_which_something_played_and_a_pause_before_a_resume_is_none_of_it():
    first = [ended("a", 0, 1.0, started_at=100.0, wall_s=5.0), ended("b", 0, 1.0, started_at=102.0, wall_s=9.0)]
    assert summarize(first, Scoring()).elapsed_s == 11.0
    resumed = ended("c", 0, 1.0, started_at=100.0 + 86400.0, wall_s=4.0)
    never_started = ended("d", 0, outcome=Outcome.LOST, kind=Kind.UNREACHABLE)
    assert summarize([resumed, never_started, *first], Scoring()).elapsed_s == 15.0
    assert summarize([never_started], Scoring()).elapsed_s is None


@pytest.mark.parametrize("reward", [None, float("nan"), float("inf")])
def test_a_scored_episode_without_a_finite_reward_is_an_error_not_a_number(reward):
    with pytest.raises(ValueError, match="Episode a/0 is scored"):
        summarize([ended("a", 0, reward)], Scoring())


def test_nothing_at_all_has_no_numbers_and_no_error():
    s = summarize([], Scoring(n_items=4, n_samples=2))
    assert (s.expected, s.missing, s.coverage, s.reward.mean) == (8, 8, 0.0, None)
    flat = stats(s)
    assert "reward" not in flat
    assert flat["episodes/expected"] == 8
    assert stats(summarize([], Scoring()))["episodes/expected"] == 0


def test_stats_and_table():
    flat = stats(summarize(RUN, Scoring(n_samples=2, n_items=6)))
    assert flat["reward"] == pytest.approx(2 / 3)
    assert flat["reward/stderr"] == pytest.approx(1 / 6)
    assert flat["reward/lower_bound"] == pytest.approx(0.375)
    assert flat["reward/ci95_low"] < flat["reward"] < flat["reward/ci95_high"]
    assert (flat["episodes/scored"], flat["episodes/failed"], flat["failed/timeout"]) == (4.0, 1.0, 1.0)
    assert (flat["lost/unreachable"], flat["pass@1"], flat["pass^2"]) == (2.0, pytest.approx(2 / 3), 0.0)
    assert all(type(value) is float for value in flat.values())
    table = tabulate_stats(flat)
    assert ["reward", "0.6667"] in [line.split() for line in table.splitlines()]
    assert ["episodes/scored", "4"] in [line.split() for line in table.splitlines()]
    assert {line.split()[0] for line in table.splitlines() if line} == set(flat)
    assert tabulate_stats({}) == ""


calls = st.builds(
    call,
    latency=st.floats(0, 10),
    worker=st.sampled_from(["w-0", "w-2"]),
    start=st.floats(0, 9),
    status=st.sampled_from([0, 200, 400, 503]),
)
results = st.lists(
    st.builds(
        EpisodeResult,
        item_id=st.sampled_from("abcd"),
        sample_index=st.integers(0, 2),
        attempt=st.integers(0, 3),
        outcome=st.sampled_from(list(Outcome)),
        kind=st.sampled_from([None, *Kind]),
        reward=st.one_of(st.sampled_from([0.0, 1.0]), st.floats(0, 1)),
        metrics=st.dictionaries(st.sampled_from(["x", "y"]), st.floats(-5, 5)),
        wall_s=st.floats(0, 100),
        started_at=st.floats(0, 100),
        worker=st.sampled_from(["", "w-0", "w-1"]),
        calls=st.lists(calls, max_size=3).map(tuple),
        final=st.booleans(),
        groups=st.dictionaries(st.just("level"), st.sampled_from(["1", "2"])),
        warnings=st.lists(st.sampled_from(["u", "v"])).map(tuple),
    ),
    max_size=25,
)


@given(results, st.integers(1, 4), st.randoms())
def test_no_order_changes_a_number_and_no_number_is_nan(results, n_samples, random):
    scoring = Scoring(n_samples=n_samples)
    s = summarize(results, scoring)
    assert summarize(random.sample(results, len(results)), scoring) == s
    assert msgspec.json.decode(msgspec.json.encode(s), type=type(s)) == s
    for value in stats(s).values():
        assert value == value
        assert abs(value) != float("inf")


@given(results, st.integers(1, 4))
def test_every_episode_has_one_place_and_bounds_hold_the_headline_of_what_was_lost(results, n_samples):
    s = summarize(results, Scoring(n_samples=n_samples))
    episodes = {(r.item_id, r.sample_index) for r in results}
    assert sum(s.counts.values()) <= len(episodes)
    assert s.reward.episodes == s.counts["scored"] + s.counts["failed"]
    if s.bounds:
        assert s.bounds.low <= s.bounds.high
    if s.coverage is not None:
        assert 0 <= s.coverage <= 1
    for one in (*s.pass_at, *s.pass_hat, *s.best_of):
        assert (one.value is None) == (one.items == 0)
