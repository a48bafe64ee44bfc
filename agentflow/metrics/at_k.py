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


class AtK(msgspec.Struct, frozen=True):
    """One estimate, averaged over items.

    Args:
        value: None where no item has k valid episodes.
        items: how many items have.
    """

    k: int
    value: float | None
    items: int


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


def powers_of_two(n: int) -> list[int]:
    """1, 2, 4, ... up to n."""
    return [1 << i for i in range(n.bit_length())]


def over_items(
    items: Collection[Sequence[float]], n_samples: int, value: Callable[[Sequence[float], int], float | None]
) -> list[AtK]:
    """For k = 1, 2, 4, ... <= n_samples: the mean of ``value(rewards, k)`` over the items where it is defined."""
    estimates = []
    for k in powers_of_two(n_samples):
        defined = [v for rewards in items if (v := value(rewards, k)) is not None]
        estimates.append(AtK(k, math.fsum(defined) / len(defined) if defined else None, len(defined)))
    return estimates
