"""Intervals against published tables and hand-computed examples."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentflow.metrics import Interval, ItemMean, item_mean
from agentflow.metrics.interval import student_t


@pytest.mark.parametrize(
    ("df", "table"),
    [(1, 12.7062), (2, 4.3027), (3, 3.1824), (5, 2.5706), (10, 2.2281), (30, 2.0423), (120, 1.9799), (10**6, 1.9600)],
)
def test_student_t_is_what_the_printed_tables_say(df, table):
    assert student_t(df) == pytest.approx(table, abs=6e-5)


def test_student_t_has_no_jump_where_the_formula_changes():
    assert student_t(1000) == pytest.approx(student_t(1001), rel=1e-5)


@pytest.mark.parametrize(("df", "p"), [(0, 0.975), (3, 0.5), (3, 1.0)])
def test_student_t_says_where_it_is_undefined(df, p):
    with pytest.raises(ValueError, match="not defined"):
        student_t(df, p)


def test_the_headline_of_two_items_by_hand():
    # Item means 0.5 and 0.9: mean 0.7, s = 0.2828, stderr = 0.2, t(1) = 12.706: cut at 0 and 1.
    m = item_mean([[0.2, 0.8], [0.9]], (0.0, 1.0))
    assert (m.items, m.episodes, m.method) == (2, 3, "student_t")
    assert m.mean == pytest.approx(0.7)
    assert m.stderr == pytest.approx(0.2)
    assert m.ci95 == Interval(0.0, 1.0)


def test_a_student_t_interval_by_hand():
    # 0.1 ... 0.5: mean 0.3, s = 0.158114, stderr = 0.070711, t(4) = 2.776445.
    m = item_mean([[v] for v in (0.1, 0.2, 0.3, 0.4, 0.5)], (0.0, 1.0))
    assert m.stderr == pytest.approx(0.0707107, abs=1e-6)
    assert m.ci95.low == pytest.approx(0.3 - 2.776445 * 0.0707107, abs=1e-6)
    assert m.ci95.high == pytest.approx(0.3 + 2.776445 * 0.0707107, abs=1e-6)


def test_a_wilson_interval_by_hand():
    # 4 of 16: n_eff = 15 (p(1-p) / stderr^2 with the sample variance), t(15) = 2.131450.
    m = item_mean([[1.0]] * 4 + [[0.0]] * 12, (0.0, 1.0))
    t2 = 2.131450**2
    centre = (0.25 + t2 / 30) / (1 + t2 / 15)
    half = math.sqrt(t2) / (1 + t2 / 15) * math.sqrt(0.25 * 0.75 / 15 + t2 / 900)
    assert m.method == "wilson"
    assert m.ci95.low == pytest.approx(centre - half, abs=1e-6)
    assert m.ci95.high == pytest.approx(centre + half, abs=1e-6)


@pytest.mark.parametrize("reward", [0.0, 1.0])
def test_all_right_or_all_wrong_is_no_certainty(reward):
    m = item_mean([[reward]] * 16, (0.0, 1.0))
    t2 = 2.131450**2
    far = abs(reward - t2 / (16 + t2))
    assert m.stderr == 0.0
    assert sorted((m.ci95.low, m.ci95.high)) == pytest.approx(sorted((reward, far)), abs=1e-6)


def test_equal_item_means_of_other_rewards_fall_back_to_the_rule_of_three():
    # 20 items at 0.5: at most 1 - 0.05^(1/20) = 13.9 % of all items are different.
    m = item_mean([[0.5]] * 20, (0.0, 1.0))
    assert m.method == "zero_variance"
    assert m.ci95.low == pytest.approx(0.5 - 0.5 * 0.139108, abs=1e-6)
    assert m.ci95.high == pytest.approx(0.5 + 0.5 * 0.139108, abs=1e-6)


def test_equal_values_without_a_known_range_have_no_interval():
    m = item_mean([[3.0], [3.0]])
    assert (m.mean, m.stderr, m.ci95) == (3.0, 0.0, None)


def test_one_item_has_a_mean_and_no_interval_and_none_has_neither():
    assert item_mean([[1.0, 0.0]]) == ItemMean(1, 2, 0.5)
    assert item_mean([]) == item_mean([[]]) == ItemMean()


def test_samples_of_one_item_do_not_count_as_many_items():
    clustered = item_mean([[1.0] * 8, [0.0] * 8, [1.0] * 8, [0.0] * 8], (0.0, 1.0))
    as_if_independent = item_mean([[float(i % 2)] for i in range(32)], (0.0, 1.0))
    assert clustered.ci95.high - clustered.ci95.low > 2 * (as_if_independent.ci95.high - as_if_independent.ci95.low)


def test_a_zero_one_difference_is_no_proportion():
    assert item_mean([[1.0], [0.0]], (-1.0, 1.0)).method == "student_t"


def coverage(n, p):
    """The exact chance that the interval from n items with pass rate p holds p."""
    total = 0.0
    for c in range(n + 1):
        ci = item_mean([[1.0]] * c + [[0.0]] * (n - c), (0.0, 1.0)).ci95
        if ci.low <= p <= ci.high:
            total += math.comb(n, c) * p**c * (1 - p) ** (n - c)
    return total


@pytest.mark.parametrize("n", [16, 100])
@pytest.mark.parametrize("p", [0.01, 0.05, 0.3, 0.5, 0.95])
def test_the_interval_holds_the_truth_nearly_as_often_as_it_says(n, p):
    assert coverage(n, p) > 0.92


rewards = st.floats(0, 1, allow_nan=False)


@given(st.lists(st.lists(rewards, min_size=1, max_size=4), min_size=2, max_size=12), st.randoms())
def test_the_interval_holds_the_mean_lies_in_range_and_does_not_hang_on_order(groups, random):
    m = item_mean(groups, (0.0, 1.0))
    assert 0 <= m.ci95.low <= m.mean + 1e-12
    assert m.mean - 1e-12 <= m.ci95.high <= 1
    shuffled = [random.sample(values, len(values)) for values in random.sample(groups, len(groups))]
    assert item_mean(shuffled, (0.0, 1.0)) == m


def test_values_of_no_known_range_are_a_proportion_only_where_both_0_and_1_occur():
    assert item_mean([[0.0], [0.0], [0.0]]).ci95 is None  # durations may be all 0
    assert item_mean([[1.0], [1.0]]).ci95 is None
    assert item_mean([[0.0], [1.0], [1.0]]).method == "wilson"
    assert item_mean([[0.0], [0.0], [0.0]], (0.0, 1.0)).method == "wilson"


def test_the_interval_of_what_is_never_negative_is_not_negative_either():
    assert item_mean([[1.0], [12.0]]).ci95.low == 0.0
    assert item_mean([[-1.0, 3.0], [12.0, 12.0]]).ci95.low < 0.0
