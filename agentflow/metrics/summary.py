"""What a run comes to, as typed data. Everything serialises to JSON; what is undefined is None, never NaN."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from agentflow.episode import Kind, Outcome
from agentflow.metrics.at_k import AtK
from agentflow.metrics.interval import Interval, ItemMean


@dataclass(frozen=True)
class Scoring:
    """How results become numbers.

    Args:
        failed_reward: what a failed episode counts.
        reward_range: lowest and highest possible reward, for the bounds of lost episodes.
        n_samples: episodes an item was to have.
        n_items: how many items the run was to have; None: those that were seen.
        headline: ``pass^k`` where the agent wants to be quoted by that; else empty.
    """

    failed_reward: float = 0.0
    reward_range: tuple[float, float] = (0.0, 1.0)
    n_samples: int = 1
    n_items: int | None = None
    headline: str = ""


class KindCount(msgspec.Struct, frozen=True):
    """Episodes that failed or were lost for one reason, or were rejected.

    Args:
        error: what most of them say, of each its first line.
        alike: how many say that.
        example: id of one of these.
    """

    outcome: Outcome
    kind: Kind | None
    episodes: int
    error: str
    alike: int
    example: str


class WarningCount(msgspec.Struct, frozen=True):
    """Episodes with the same warning; ``example`` is the id of one of them."""

    text: str
    episodes: int
    example: str


class Percentiles(msgspec.Struct, frozen=True):
    """Of a duration in seconds, with linear interpolation between order statistics (type 7 of Hyndman and Fan 1996)."""

    p50: float
    p90: float
    p99: float


class RoleUse(msgspec.Struct, frozen=True):
    """What one model role was asked, over all final episodes.

    Args:
        cached_share: of the prompt tokens, those that the engine had cached.
        truncation_rate: of the calls, those whose reply hit its token limit.
        calls_per_episode: mean over the final episodes that were played to an end (scored, failed, rejected).
        latency: of answered calls; None without any.
        ttft: time to first token, of answered calls that were streamed; None without any.
    """

    calls: int
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int
    tool_calls: int
    truncated: int
    cached_share: float | None
    truncation_rate: float | None
    calls_per_episode: float | None
    latency: Percentiles | None
    ttft: Percentiles | None


class WorkerUse(msgspec.Struct, frozen=True):
    """One worker, so that one bad replica shows.

    Args:
        episodes: counted episodes (scored or failed) that were placed on it.
        reward: their mean over items.
        calls: that it answered, or failed to.
        error_share: of these calls, those that ended in an error the agent saw.
        latency_p50: of answered calls, in seconds.
        tokens_per_s: completion tokens by the time in which at least one of its calls was in flight.
        cached_share: of the prompt tokens that it was sent, those that its prefix cache had.
    """

    name: str
    episodes: int
    reward: ItemMean
    calls: int
    error_share: float | None
    latency_p50: float | None
    tokens_per_s: float | None
    cached_share: float | None = None


class OwnMetrics(msgspec.Struct, frozen=True):
    """What the user's own metric functions returned.

    Args:
        of_item: means over items, by ``function`` or ``function/key``.
        of_run: single numbers, named likewise.
        missing: name of a function -> why there is nothing of it, a sentence.
    """

    of_item: dict[str, ItemMean] = {}
    of_run: dict[str, float] = {}
    missing: dict[str, str] = {}


class Summary(msgspec.Struct, frozen=True):
    """All numbers of a run.

    Args:
        headline: ``pass^k`` where the agent wants to be quoted by that and all rewards are 0 or 1; else ``reward``.
        reward: the mean, over items: each item's mean over its counted episodes, where a failed one counts
            ``failed_reward``; lost, rejected and cancelled episodes are not counted.
        bounds: what ``reward`` would be had every lost episode got the lowest, or the highest, possible reward;
            None when none is lost.
        coverage: counted episodes by expected ones; None when none was expected.
        expected: episodes that the run was to have.
        counts: final episodes by outcome; every outcome is there.
        missing: expected episodes without a final result.
        retried: attempts that were superseded by a later one (attempts are numbered); they count nowhere else.
        kinds: reasons of failed and lost episodes, most frequent first; rejected ones too where none was scored.
        timeout_share: of the counted episodes, those that ran out of time (they depend on the hardware).
        binary: all rewards are 0 or 1; then ``pass_at`` and ``pass_hat`` are there, else ``best_of``.
        metrics: named metrics, over the scored episodes that have them.
        groups: breakdown column -> value -> headline of its items.
        lowest: id of a scored episode with the lowest reward: one to look at.
        own: the user's own metric functions.
        notes: what a reader of the numbers has to know of the run as a whole, a sentence each.
        elapsed_s: in which at least one of the final episodes was playing, so without the pauses of a run that was
            resumed; None where none was started.
    """

    headline: str
    reward: ItemMean
    bounds: Interval | None
    coverage: float | None
    items: int
    n_samples: int
    expected: int
    counts: dict[str, int]
    missing: int
    retried: int
    kinds: list[KindCount]
    timeout_share: float | None
    binary: bool
    pass_at: list[AtK]
    pass_hat: list[AtK]
    best_of: list[AtK]
    metrics: dict[str, ItemMean]
    roles: dict[str, RoleUse]
    workers: list[WorkerUse]
    groups: dict[str, dict[str, ItemMean]]
    warnings: list[WarningCount]
    lowest: str | None
    elapsed_s: float | None
    own: OwnMetrics = OwnMetrics()
    notes: list[str] = []

    @property
    def owed(self) -> int:
        """Episodes that a resume would play: missing, lost, cancelled."""
        return self.missing + self.counts[Outcome.LOST] + self.counts[Outcome.CANCELLED]

    @property
    def partial(self) -> bool:
        """Episodes are missing or were cancelled: the run was stopped, or still goes on."""
        return self.missing + self.counts[Outcome.CANCELLED] > 0
