"""Two runs, paired by item."""

from __future__ import annotations

import pytest

from agentflow.episode import EpisodeResult, Outcome
from agentflow.metrics import Scoring, compare


def run(**rewards):
    return [
        EpisodeResult(item, i, 0, Outcome.SCORED, reward=r) for item, rs in rewards.items() for i, r in enumerate(rs)
    ]


def test_the_difference_is_b_minus_a_over_the_items_in_both():
    a = run(p=[0.0, 1.0], q=[0.0], r=[1.0], only_a=[1.0])
    b = run(p=[1.0, 1.0], q=[1.0], r=[0.0], only_b=[0.0])
    c = compare(a, b, Scoring())
    assert (c.a, c.b) == (pytest.approx(0.5), pytest.approx(2 / 3))
    # Differences 0.5, 1, -1: mean 1/6, s = 1.040833.
    assert c.difference.mean == pytest.approx(1 / 6)
    assert c.difference.stderr == pytest.approx(1.0408330 / 3**0.5, abs=1e-6)
    assert (c.wins, c.ties, c.losses) == (2, 0, 1)
    assert (c.only_a, c.only_b) == (["only_a"], ["only_b"])


def test_pairing_sees_what_two_separate_intervals_would_not():
    a = run(**{f"i{i}": [i / 20] for i in range(20)})
    b = run(**{f"i{i}": [i / 20 + (0.04 if i % 2 else 0.05)] for i in range(20)})
    c = compare(a, b, Scoring())
    assert c.difference.ci95.low > 0.04
    assert c.wins == 20


def test_a_run_against_itself_is_all_ties_but_no_proof_of_equality():
    a = run(**{f"i{i}": [1.0] for i in range(20)})
    c = compare(a, a, Scoring())
    assert (c.wins, c.ties, c.losses, c.difference.mean) == (0, 20, 0, 0.0)
    assert c.difference.ci95.low < 0 < c.difference.ci95.high


def test_runs_without_a_common_item_have_no_difference():
    c = compare(run(p=[1.0]), run(q=[1.0]), Scoring())
    assert (c.a, c.b, c.difference.mean, c.difference.ci95) == (None, None, None, None)


def test_failures_count_and_lost_episodes_do_not():
    a = [EpisodeResult("p", 0, 0, Outcome.FAILED), EpisodeResult("q", 0, 0, Outcome.LOST)]
    c = compare(a, run(p=[1.0], q=[1.0]), Scoring())
    assert (c.a, c.b, c.only_b) == (0.0, 1.0, ["q"])
