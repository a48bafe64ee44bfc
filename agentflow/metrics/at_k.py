"""pass@k, pass^k and best-of-k: what k episodes of an item would bring, from the n that were played.

All are means over the ``C(n, k)`` ways to draw k of an item's n episodes without replacement, hence unbiased:

- **pass@k**: at least one of k passes, ``1 - C(n-c, k) / C(n, k)`` with c passed (Chen et al. 2021, "Evaluating Large
  Language Models Trained on Code", arXiv:2107.03374);
- **pass^k**: all k pass, ``C(c, k) / C(n, k)`` (Yao et al. 2024, "tau-bench", arXiv:2406.12045);
- **best-of-k**: the mean of the highest reward among k; for rewards of 0 and 1 it is pass@k.

An item with n < k valid episodes (lost and rejected ones are not valid) has no value: it is left out, the number of
items that have one stands beside the mean, and the mean is undefined (None, never 0) where no item has one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence

import msgspec

from agentflow.metrics.interval import Interval, item_mean

PASS_HAT = "pass^k"  # as a headline


class AtK(msgspec.Struct, frozen=True):
    """One estimate, averaged over items.

    Args:
        value: None where no item has k valid episodes.
        items: how many items have.
        ci95: over items, as :mod:`agentflow.metrics.interval` has it; None with fewer than two.
    """

    k: int
    value: float | None
    items: int
    ci95: Interval | None = None


def pass_at_k(n: int, c: int, k: int) -> float | None:
    """Chance that at least one of k of the n episodes passed, c of which did; None when n < k."""
    return None if n < k else 1 - math.comb(n - c, k) / math.comb(n, k)


def pass_hat_k(n: int, c: int, k: int) -> float | None:
    """Chance that all k of the n episodes passed, c of which did; None when n < k."""
    return None if n < k else math.comb(c, k) / math.comb(n, k)


def best_of_k(rewards: Sequence[float], k: int) -> float | None:
    """Mean of the highest of k rewards drawn from these without replacement; None when there are fewer than k."""
    n = len(rewards)
    if n < k:
        return None
    # The i-th smallest (from 1) is the highest of k where the other k-1 are among the i-1 below it. Exact integers
    # are divided, so that large n neither overflow nor lose digits.
    all_ways = math.comb(n, k)
    return math.fsum(math.comb(i - 1, k - 1) / all_ways * reward for i, reward in enumerate(sorted(rewards), 1))


def shown_ks(n: int) -> list[int]:
    """The k of a table: 1 to 4, the powers of two, and n itself; none above n."""
    return sorted({k for k in (1, 2, 3, 4, *(1 << i for i in range(n.bit_length())), n) if 1 <= k <= n})


def over_items(
    items: Collection[Sequence[float]],
    n_samples: int,
    value: Callable[[Sequence[float], int], float | None],
    value_range: tuple[float, float] = (0.0, 1.0),
) -> list[AtK]:
    """For each k of :func:`shown_ks`: the mean of ``value(rewards, k)`` over the items where it is defined."""
    estimates = []
    for k in shown_ks(n_samples):
        defined = [(rewards, v) for rewards in items if (v := value(rewards, k)) is not None]
        # With k = 1 the value is the mean of the rewards themselves, which tell more about the interval.
        mean = item_mean([rewards if k == 1 else [v] for rewards, v in defined], value_range)
        estimates.append(AtK(k, mean.mean, mean.items, mean.ci95))
    return estimates
