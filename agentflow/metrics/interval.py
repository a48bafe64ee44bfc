"""A mean over items with its 95 % interval.

Episodes of one item are not independent, items are. So everything here is clustered by item: the unit is the mean of
an item's episodes (Miller 2024, "Adding Error Bars to Evals", arXiv:2411.00640). The standard error is
``s / sqrt(n)`` with s the sample standard deviation of the n item means.

Which interval:

- *wilson*, when every reward is 0 or 1: the score interval of Wilson (1927) on the effective sample size
  ``n_eff = p(1-p) / stderr**2``, which carries the clustering, with the Student t quantile (Korn and Graubard 1998 for
  the effective sample size; Franco et al. 2019, doi:10.1093/jssam/smy019, for its use with Wilson's interval). n_eff is
  the number of items where all or none passed, and never more than the number of episodes. The plain t interval is far
  too narrow near 0 and 1: with 100 items and a true pass rate of 1 % it holds the truth in 63 % of runs (this one in
  92 %), and at 16 of 16 it would be a point.
- *zero_variance*, when all item means are equal otherwise: no item with another mean was seen in n draws, so with 95 %
  confidence such items are at most ``q = 1 - 0.05**(1/n)`` of all (the exact form of the "rule of three", Hanley and
  Lippman-Hand 1983), and the mean lies within q of the way to either end of the reward range.
- *student_t* for all others: ``mean +- t(0.975, n-1) * stderr``, cut at the reward range.

Undefined (None) with fewer than two items: one item says nothing about how items differ.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache

import msgspec

CONFIDENCE = 0.95


class Interval(msgspec.Struct, frozen=True):
    """A 95 % interval."""

    low: float
    high: float


class ItemMean(msgspec.Struct, frozen=True):
    """A mean over items.

    Args:
        items: how many items have a value.
        episodes: how many episodes stand behind them.
        mean: mean of the item means; None without items.
        stderr: clustered by item; None with fewer than two items.
        ci95: None with fewer than two items.
        method: how ``ci95`` was made: ``wilson``, ``student_t``, ``zero_variance``, or empty.
    """

    items: int = 0
    episodes: int = 0
    mean: float | None = None
    stderr: float | None = None
    ci95: Interval | None = None
    method: str = ""


def item_mean(values_by_item: Iterable[Sequence[float]], value_range: tuple[float, float] | None = None) -> ItemMean:
    """The mean of item means and its interval; see the module. The order of items and values does not matter.

    Args:
        values_by_item: the values of each item's episodes; items without any are left out.
        value_range: smallest and largest possible value. None: not known; then equal item means have no interval, and
            where no value is negative, nor is the interval. Values of 0 and 1 are a proportion where the range is
            (0, 1), or where it is not known and both occur: durations and counts may be all 0 as well.
    """
    groups = [values for values in values_by_item if values]
    episodes = sum(map(len, groups))
    means = [math.fsum(values) / len(values) for values in groups]
    n = len(means)
    if n == 0:
        return ItemMean()
    mean = math.fsum(means) / n
    if n == 1:
        return ItemMean(1, episodes, mean)
    stderr = math.sqrt(math.fsum((m - mean) ** 2 for m in means) / (n - 1) / n)
    interval: Interval | None
    seen = {value for values in groups for value in values}
    if seen <= {0.0, 1.0} and (value_range == (0.0, 1.0) or (value_range is None and len(seen) == 2)):
        interval, method = _wilson(mean, stderr, n, episodes), "wilson"
    elif min(means) < max(means):
        open_ended = (0.0, math.inf) if min(seen) >= 0 else None
        interval, method = _student(mean, stderr, means, value_range or open_ended), "student_t"
    elif value_range is not None:
        interval, method = _zero_variance(mean, n, value_range), "zero_variance"
    else:
        interval, method = None, ""
    return ItemMean(n, episodes, mean, stderr, interval, method)


def _wilson(p: float, stderr: float, items: int, episodes: int) -> Interval:
    if p in (0.0, 1.0):
        n_eff = float(items)
    else:
        n_eff = min(p * (1 - p) / stderr**2, episodes) if stderr > 0 else float(episodes)
    q = student_t(items - 1) ** 2 / n_eff
    centre = (p + q / 2) / (1 + q)
    half = math.sqrt(p * (1 - p) * q + q * q / 4) / (1 + q)
    return Interval(max(0.0, centre - half), min(1.0, centre + half))


def _student(mean: float, stderr: float, means: Sequence[float], value_range: tuple[float, float] | None) -> Interval:
    half = student_t(len(means) - 1) * stderr
    low, high = mean - half, mean + half
    if value_range is not None and value_range[0] <= min(means) and max(means) <= value_range[1]:
        low, high = max(low, value_range[0]), min(high, value_range[1])
    return Interval(low, high)


def _zero_variance(mean: float, items: int, value_range: tuple[float, float]) -> Interval:
    q = 1 - (1 - CONFIDENCE) ** (1 / items)
    low, high = min(value_range[0], mean), max(value_range[1], mean)
    return Interval(mean - q * (mean - low), mean + q * (high - mean))


@lru_cache(maxsize=4096)
def student_t(df: int, probability: float = (1 + CONFIDENCE) / 2) -> float:
    """Quantile of Student's t distribution, by bisection of its exact distribution function.

    Raises:
        ValueError: ``df`` below 1 or ``probability`` not between 0.5 and 1.
    """
    if df < 1 or not 0.5 < probability < 1:
        raise ValueError(f"student_t({df}, {probability}) is not defined.")
    low, high = 0.0, 1.0
    while _t_distribution(high, df) < probability:
        high *= 2
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        if _t_distribution(middle, df) < probability:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _t_distribution(t: float, df: int) -> float:
    """P(T <= t) for t >= 0: Abramowitz and Stegun 26.7.3 and 26.7.4; above 1000, 26.7.8 (quantiles within 2e-6)."""
    if df > 1000:
        x = t * (1 - 1 / (4 * df)) / math.sqrt(1 + t * t / (2 * df))
        return 0.5 * math.erfc(-x / math.sqrt(2))
    theta = math.atan(t / math.sqrt(df))
    cosine2 = math.cos(theta) ** 2
    if df % 2:
        term, total = math.cos(theta), 0.0
        for j in range(1, df - 1, 2):
            total += term
            term *= cosine2 * (j + 1) / (j + 2)
        inside = 2 / math.pi * (theta + math.sin(theta) * total)
    else:
        term, total = 1.0, 0.0
        for j in range(1, df, 2):
            total += term
            term *= cosine2 * j / (j + 1)
        inside = math.sin(theta) * total
    return (1 + inside) / 2
