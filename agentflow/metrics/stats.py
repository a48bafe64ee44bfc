"""The summary as a flat dict of numbers, for a logger, and that dict as a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from agentflow.episode import DEFAULT_ROLE, Outcome
from agentflow.metrics.interval import ItemMean
from agentflow.metrics.summary import Percentiles, RoleUse, Summary


def stats(summary: Summary) -> dict[str, float]:
    """A flat dict. What is undefined is left out; there is never a NaN in it.

    Keys:
        - ``reward``, ``reward/stderr``, ``reward/ci95_low``, ``reward/ci95_high``, ``reward/items``, and where episodes
          are lost ``reward/lower_bound``, ``reward/upper_bound``; ``coverage``
        - ``episodes/<outcome>``, ``episodes/expected``, ``episodes/missing``, ``episodes/retried``,
          ``episodes/timeout_share``; ``failed/<kind>``, ``lost/<kind>``
        - ``pass@<k>``, ``pass^<k>``, or ``best@<k>``; ``metrics/<name>`` with ``/stderr`` and ``/n`` (episodes)
        - of the user's own functions ``item_metrics/<name>`` with ``/stderr`` and ``/items``; ``run_metrics/<name>``
        - of the default role: ``tokens/prompt``, ``tokens/completion``, ``tokens/cached``, ``tokens/cached_share``,
          ``calls/total``, ``calls/per_episode``, ``calls/tool_calls``, ``calls/truncated``, ``calls/truncation_rate``,
          ``latency/p50`` (``p90``, ``p99``), ``ttft/p50``; of another role the same behind ``role/<role>/``
        - ``worker/<name>/...``; ``group/<column>/<value>``, and ``/items``; ``elapsed_s``
    """
    return {key: float(value) for key, value in _pairs(summary) if value is not None}


def tabulate_stats(stats: Mapping[str, float]) -> str:
    """The dict as a plain two-column table, one line a number; keys in their order, a blank line between families."""
    if not stats:
        return ""
    width = max(map(len, stats))
    lines: list[str] = []
    family = None
    for key, value in stats.items():
        if family is not None and _family(key) != family:
            lines.append("")
        family = _family(key)
        lines.append(f"{key:<{width}}  {_number(value):>12}")
    return "\n".join(lines)


Pairs = Iterator[tuple[str, float | None]]


def _pairs(s: Summary) -> Pairs:
    yield from _mean("reward", s.reward)
    if s.bounds is not None:
        yield "reward/lower_bound", s.bounds.low
        yield "reward/upper_bound", s.bounds.high
    yield "coverage", s.coverage
    for outcome, n in s.counts.items():
        yield f"episodes/{outcome}", n
    yield "episodes/expected", s.expected
    yield "episodes/missing", s.missing
    yield "episodes/retried", s.retried
    yield "episodes/timeout_share", s.timeout_share
    for kind in s.kinds:
        if kind.outcome != Outcome.REJECTED:  # that number is episodes/rejected already
            yield f"{kind.outcome}/{kind.kind or 'unknown'}", kind.episodes
    for name, estimates in (("pass@", s.pass_at), ("pass^", s.pass_hat), ("best@", s.best_of)):
        for one in estimates:
            yield f"{name}{one.k}", one.value
    for name, mean in s.metrics.items():
        yield f"metrics/{name}", mean.mean
        yield f"metrics/{name}/stderr", mean.stderr
        yield f"metrics/{name}/n", mean.episodes
    for name, mean in s.own.of_item.items():
        yield f"item_metrics/{name}", mean.mean
        yield f"item_metrics/{name}/stderr", mean.stderr
        yield f"item_metrics/{name}/items", mean.items
    for name, number in s.own.of_run.items():
        yield f"run_metrics/{name}", number
    for role, use in s.roles.items():
        yield from _role("" if role == DEFAULT_ROLE else f"role/{role}/", use)
    for worker in s.workers:
        yield f"worker/{worker.name}/episodes", worker.episodes
        yield f"worker/{worker.name}/reward", worker.reward.mean
        yield f"worker/{worker.name}/calls", worker.calls
        yield f"worker/{worker.name}/error_share", worker.error_share
        yield f"worker/{worker.name}/latency_p50", worker.latency_p50
        yield f"worker/{worker.name}/tokens_per_s", worker.tokens_per_s
        yield f"worker/{worker.name}/cached_share", worker.cached_share
    for column, values in s.groups.items():
        for value, mean in values.items():
            yield f"group/{column}/{value}", mean.mean
            yield f"group/{column}/{value}/items", mean.items
    yield "elapsed_s", s.elapsed_s


def _mean(name: str, m: ItemMean) -> Pairs:
    yield name, m.mean
    yield f"{name}/stderr", m.stderr
    if m.ci95 is not None:
        yield f"{name}/ci95_low", m.ci95.low
        yield f"{name}/ci95_high", m.ci95.high
    yield f"{name}/items", m.items


def _role(prefix: str, use: RoleUse) -> Pairs:
    yield f"{prefix}tokens/prompt", use.prompt_tokens
    yield f"{prefix}tokens/completion", use.completion_tokens
    yield f"{prefix}tokens/cached", use.cached_tokens
    yield f"{prefix}tokens/cached_share", use.cached_share
    yield f"{prefix}calls/total", use.calls
    yield f"{prefix}calls/per_episode", use.calls_per_episode
    yield f"{prefix}calls/tool_calls", use.tool_calls
    yield f"{prefix}calls/truncated", use.truncated
    yield f"{prefix}calls/truncation_rate", use.truncation_rate
    yield from _percentiles(f"{prefix}latency", use.latency)
    yield from _percentiles(f"{prefix}ttft", use.ttft)


def _percentiles(name: str, p: Percentiles | None) -> Pairs:
    if p is not None:
        yield f"{name}/p50", p.p50
        yield f"{name}/p90", p.p90
        yield f"{name}/p99", p.p99


def _family(key: str) -> str:
    return key.partition("/")[0].partition("@")[0].partition("^")[0]


def _number(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) and abs(value) < 1e15 else f"{value:,.4f}"
