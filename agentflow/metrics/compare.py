"""Two runs against each other, paired by item."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from agentflow.episode import EpisodeResult
from agentflow.metrics.interval import ItemMean, item_mean
from agentflow.metrics.summarize import final_attempts, rewards_by_item
from agentflow.metrics.summary import Scoring


class Comparison(msgspec.Struct, frozen=True):
    """Run b against run a, over the items that have a counted episode in both.

    Args:
        a: mean over these items in run a; b: in run b. None without such items.
        difference: b - a by item: its mean, and the interval of paired differences (Miller 2024, arXiv:2411.00640):
            what both runs find hard cancels out, so it is narrower than that of two unpaired means.
        wins: items where b is better; ties, losses.
        items: id -> mean reward in a, and in b.
        only_a: ids of items that only a has a counted episode of; only_b likewise.
    """

    a: float | None
    b: float | None
    difference: ItemMean
    wins: int
    ties: int
    losses: int
    items: dict[str, tuple[float, float]]
    only_a: list[str]
    only_b: list[str]


def compare(a: Iterable[EpisodeResult], b: Iterable[EpisodeResult], scoring: Scoring) -> Comparison:
    """Compare two runs over the same data. ``n_samples`` may differ: the unit is an item's mean.

    Raises:
        ValueError: as :func:`agentflow.metrics.summarize`.
    """
    in_a, in_b = _means(a, scoring), _means(b, scoring)
    common = sorted(in_a.keys() & in_b.keys())
    differences = [in_b[i] - in_a[i] for i in common]
    low, high = scoring.reward_range
    return Comparison(
        a=_mean([in_a[i] for i in common]),
        b=_mean([in_b[i] for i in common]),
        difference=item_mean([[d] for d in differences], (low - high, high - low)),
        wins=sum(d > 0 for d in differences),
        ties=sum(d == 0 for d in differences),
        losses=sum(d < 0 for d in differences),
        items={i: (in_a[i], in_b[i]) for i in common},
        only_a=sorted(in_a.keys() - in_b.keys()),
        only_b=sorted(in_b.keys() - in_a.keys()),
    )


def _means(results: Iterable[EpisodeResult], scoring: Scoring) -> Mapping[str, float]:
    rewards = rewards_by_item(final_attempts(results), scoring)
    return {item: math.fsum(values) / len(values) for item, values in rewards.items()}


def _mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None
