"""Tokens, latencies and workers: what the calls of the final episodes come to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from agentflow.episode import Call, EpisodeResult, Outcome, Usage
from agentflow.metrics.interval import ItemMean
from agentflow.metrics.summary import Percentiles, RoleUse, WorkerUse

PLAYED = frozenset({Outcome.SCORED, Outcome.FAILED, Outcome.REJECTED})  # to an end of the agent's own


def percentile(ordered: Sequence[float], p: float) -> float:
    """Percentile p (0 to 100) of at least one value in ascending order; linear between order statistics."""
    place = (len(ordered) - 1) * p / 100
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def percentiles(values: Iterable[float]) -> Percentiles | None:
    """p50, p90 and p99; None without values."""
    ordered = sorted(values)
    return Percentiles(*(percentile(ordered, p) for p in (50, 90, 99))) if ordered else None


def answered(call: Call) -> bool:
    """The agent got a reply, not an error, and did not go away before."""
    return 200 <= call.status < 400 and not call.error


def failed(call: Call) -> bool:
    """The agent got an error. One that went away itself (status 0) got none."""
    return call.status >= 400 or (call.status > 0 and bool(call.error))


def busy_s(calls: Iterable[Call]) -> float:
    """Seconds in which at least one of the calls was in flight."""
    return covered_s((c.started_at, c.started_at + c.latency_s) for c in calls)


def covered_s(intervals: Iterable[tuple[float, float]]) -> float:
    """Seconds that lie in at least one of the intervals, each a start and an end."""
    total, until = 0.0, float("-inf")
    for start, end in sorted(intervals):
        total += max(0.0, end - max(start, until))
        until = max(until, end)
    return total


def role_uses(results: Sequence[EpisodeResult]) -> dict[str, RoleUse]:
    """By role, in alphabetical order."""
    usage: dict[str, Usage] = {}
    calls: dict[str, list[Call]] = {}
    played: dict[str, int] = {}  # calls in episodes that were played to an end
    for r in results:
        for role, one in r.usage.items():
            usage[role] = usage.get(role, Usage()) + one
            played[role] = played.get(role, 0) + (one.calls if r.outcome in PLAYED else 0)
        for call in r.calls:
            calls.setdefault(call.role, []).append(call)
    episodes = sum(r.outcome in PLAYED for r in results)
    return {role: _role_use(usage[role], calls.get(role, ()), played[role], episodes) for role in sorted(usage)}


def _role_use(usage: Usage, calls: Iterable[Call], played_calls: int, episodes: int) -> RoleUse:
    replies = [c for c in calls if answered(c)]
    return RoleUse(
        calls=usage.calls,
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        cached_tokens=usage.cached_tokens,
        tool_calls=usage.tool_calls,
        truncated=usage.truncated,
        cached_share=_share(usage.cached_tokens, usage.prompt_tokens),
        truncation_rate=_share(usage.truncated, usage.calls),
        calls_per_episode=_share(played_calls, episodes),
        latency=percentiles(c.latency_s for c in replies),
        ttft=percentiles(c.ttft_s for c in replies if c.ttft_s is not None and c.ttft_s != c.latency_s),
    )


def worker_use(name: str, reward: ItemMean, calls: Sequence[Call]) -> WorkerUse:
    """One worker from the rewards of the episodes placed on it and the calls that it answered."""
    latencies = sorted(c.latency_s for c in calls if answered(c))
    busy = busy_s(calls)
    return WorkerUse(
        name=name,
        episodes=reward.episodes,
        reward=reward,
        calls=len(calls),
        error_share=_share(sum(map(failed, calls)), len(calls)),
        latency_p50=percentile(latencies, 50) if latencies else None,
        tokens_per_s=sum(c.completion_tokens for c in calls) / busy if busy > 0 else None,
        cached_share=_share(sum(c.cached_tokens for c in calls), sum(c.prompt_tokens for c in calls)),
    )


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None
