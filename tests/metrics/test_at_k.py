"""pass@k, pass^k and best-of-k against drawing every subset."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentflow.metrics import best_of_k, item_mean, pass_at_k, pass_hat_k
from agentflow.metrics.at_k import over_items, shown_ks


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


@pytest.mark.parametrize(("n", "expected"), [(1, [1]), (3, [1, 2, 3]), (5, [1, 2, 3, 4, 5]), (12, [1, 2, 3, 4, 8, 12])])
def test_a_table_shows_one_to_four_the_powers_of_two_and_n(n, expected):
    assert shown_ks(n) == expected


def test_items_with_too_few_episodes_are_left_out_and_counted_out():
    items = [[1.0, 0.0], [1.0], []]
    found = [(e.k, e.value, e.items) for e in over_items(items, 3, best_of_k)]
    assert found == [(1, 0.75, 2), (2, 1.0, 1), (3, None, 0)]


def test_the_interval_is_that_of_the_mean_over_items():
    items = [[1.0, 1.0], [1.0, 0.0], [0.0, 0.0]]
    once, twice = over_items(items, 2, lambda passes, k: pass_hat_k(len(passes), int(sum(passes)), k))
    assert once.ci95 == item_mean(items, (0.0, 1.0)).ci95
    assert twice.ci95 == item_mean([[1.0], [0.0], [0.0]], (0.0, 1.0)).ci95
