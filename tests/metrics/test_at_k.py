"""pass@k, pass^k and best-of-k against drawing every subset."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentflow.metrics import best_of_k, pass_at_k, pass_hat_k
from agentflow.metrics.at_k import AtK, over_items, powers_of_two


def over_all_draws(rewards, k, what):
    draws = [what(draw) for draw in combinations(rewards, k)]
    return float(sum(map(Fraction, draws)) / len(draws))


@given(st.lists(st.booleans(), min_size=1, max_size=9), st.integers(1, 9))
def test_pass_at_k_and_pass_hat_k_are_the_share_of_draws(passes, k):
    n, c = len(passes), sum(passes)
    if k > n:
        assert pass_at_k(n, c, k) is None
        assert pass_hat_k(n, c, k) is None
    else:
        assert pass_at_k(n, c, k) == pytest.approx(over_all_draws(passes, k, any))
        assert pass_hat_k(n, c, k) == pytest.approx(over_all_draws(passes, k, all))


@given(st.lists(st.floats(-10, 10), min_size=1, max_size=8), st.integers(1, 9))
def test_best_of_k_is_the_mean_of_the_best_of_every_draw(rewards, k):
    if k > len(rewards):
        assert best_of_k(rewards, k) is None
    else:
        assert best_of_k(rewards, k) == pytest.approx(over_all_draws(rewards, k, max), abs=1e-12)


def test_by_hand():
    # 2 of 5 passed: C(3,2)/C(5,2) = 3/10 of the pairs have no pass, C(2,2)/C(5,2) = 1/10 have two.
    assert pass_at_k(5, 2, 2) == pytest.approx(0.7)
    assert pass_hat_k(5, 2, 2) == pytest.approx(0.1)
    # Of 0.1, 0.5, 0.9 the pairs have the best 0.5, 0.9, 0.9.
    assert best_of_k([0.9, 0.1, 0.5], 2) == pytest.approx(2.3 / 3)


def test_a_few_thousand_samples_do_not_overflow():
    assert pass_at_k(3000, 1, 1500) == pytest.approx(0.5)
    assert best_of_k([0.0] * 2999 + [1.0], 1500) == pytest.approx(0.5)


@pytest.mark.parametrize(("n", "ks"), [(1, [1]), (2, [1, 2]), (5, [1, 2, 4]), (8, [1, 2, 4, 8])])
def test_k_runs_over_powers_of_two_up_to_n(n, ks):
    assert powers_of_two(n) == ks


def test_items_with_too_few_episodes_are_left_out_and_counted_out():
    items = [[1.0, 0.0], [1.0], []]
    assert over_items(items, 4, best_of_k) == [AtK(1, 0.75, 2), AtK(2, 1.0, 1), AtK(4, None, 0)]
