"""From episodes and their requests to the measurement. Pure, and the same whatever their order."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from agentflow.episode import EpisodeResult, Outcome
from agentflow.metrics.usage import PLAYED, percentiles
from benchmarks.multi_turn.cache import cache_state
from benchmarks.multi_turn.conversations import WARM_UP
from benchmarks.multi_turn.measurement import (
    Course,
    Delays,
    Failure,
    Lengths,
    Measurement,
    Part,
    Times,
    TurnRow,
    Unfinished,
)
from benchmarks.multi_turn.reading import Request
from benchmarks.multi_turn.window import Span, course, in_flight, steady

COURSE_POINTS = 200


@dataclass(frozen=True)
class Played:
    """An episode's last result, and its requests in order of their start."""

    result: EpisodeResult
    requests: Sequence[Request]

    @property
    def span(self) -> Span:
        """From the start of ``run()`` to its end."""
        return Span(self.result.started_at, self.result.started_at + self.result.wall_s)

    @property
    def is_warm_up(self) -> bool:
        """Whether it is left out; see :mod:`benchmarks.multi_turn.conversations`."""
        return self.result.groups.get("part") == WARM_UP


def measure(played: Iterable[Played], expected: int, title: str = "") -> Measurement:
    """All numbers.

    Args:
        played: every episode that has an end.
        expected: how many the run was to have.
    """
    everything = sorted(played, key=lambda p: (p.result.started_at, p.result.id))
    warm_up = [p for p in everything if p.is_warm_up]
    measured = [p for p in everything if not p.is_warm_up]
    requests = [request for p in measured for request in p.requests]
    rows = by_turn(requests)
    asked, given = _input(measured)
    shared = _mean_metric(measured, "shared_tokens_asked")
    whole = _whole(measured)
    window = steady([p.span for p in warm_up], [p.span for p in measured])
    return Measurement(
        title=title,
        expected=expected,
        missing=max(0, expected - sum(p.result.outcome is not Outcome.CANCELLED for p in everything)),
        warm_up=len(warm_up),
        retried=sum(p.result.attempt for p in everything),
        played=len(measured),
        steady=part(window, measured) if window else None,
        whole=part(whole, measured) if whole else None,
        turns=rows,
        times=times(measured),
        input_asked=asked,
        input_measured=given,
        shared_asked=shared,
        unfinished=_unfinished(measured),
        failures=_failures(requests),
        cache=cache_state(len(warm_up), shared, rows),
        course=_course(everything, window),
    )


def part(window: Span, measured: Sequence[Played]) -> Part:
    """The numbers of one time."""
    requests = [r for p in measured for r in p.requests]
    ended = [r for r in requests if window.holds(r.ended_at)]
    replies = [r for r in ended if not r.error]
    busy = in_flight([_span(r) for r in requests], window)
    return Part(
        seconds=window.seconds,
        requests=len(replies),
        errors=len(ended) - len(replies),
        episodes=sum(window.holds(p.span.end) for p in measured if p.result.outcome in PLAYED),
        turns=sum(window.holds(r.ended_at) for p in measured for r in _last_of_turns(p.requests)),
        output_tokens=sum(r.completion_tokens for r in replies),
        prompt_tokens=sum(r.prompt_tokens for r in replies),
        in_flight=busy.mean,
        most_in_flight=busy.most,
        playing=in_flight([p.span for p in measured], window).mean,
        uncounted=sum(not r.is_counted for r in replies),
        delays=delays(replies),
        lengths=lengths(replies),
    )


def delays(replies: Sequence[Request]) -> Delays:
    """Of answered requests."""
    return Delays(
        streamed=sum(bool(r.arrivals_s) for r in replies),
        ttft=percentiles(r.ttft_s for r in replies if r.ttft_s is not None),
        itl=percentiles(gap for r in replies for gap in r.gaps_s),
        tpot=percentiles(r.tpot_s for r in replies if r.tpot_s is not None),
        latency=percentiles(r.latency_s for r in replies),
    )


def lengths(replies: Sequence[Request]) -> Lengths | None:
    """Of answered requests; None where the endpoint counted none."""
    replies = [r for r in replies if r.is_counted]
    n = len(replies)
    if not n:
        return None
    asked = [r.tokens_asked for r in replies if r.tokens_asked is not None]
    prompt = sum(r.prompt_tokens for r in replies)
    return Lengths(
        prompt=prompt / n,
        added=sum(r.added_tokens for r in replies) / n,
        output=sum(r.completion_tokens for r in replies) / n,
        output_asked=sum(asked) / n if len(asked) == n else None,
        cached_share=sum(r.cached_tokens for r in replies) / prompt,
    )


def by_turn(requests: Iterable[Request]) -> list[TurnRow]:
    """A row for each turn that occurs, in order."""
    turns: defaultdict[int, list[Request]] = defaultdict(list)
    for request in requests:
        turns[request.turn].append(request)
    rows = []
    for turn in sorted(turns):
        replies = [r for r in turns[turn] if not r.error]
        errors = len(turns[turn]) - len(replies)
        rows.append(TurnRow(turn, len(replies), errors, delays(replies), lengths(replies)))
    return rows


def times(measured: Iterable[Played]) -> Times | None:
    """Means over the episodes that were played to an end; None without any."""
    ended = [p for p in measured if p.result.outcome in PLAYED]
    n = len(ended)
    if not n:
        return None
    wall = sum(p.result.wall_s for p in ended)
    model = sum(_covered([Span(r.started_at + r.queue_s, r.ended_at) for r in p.requests]) for p in ended)
    either = sum(_covered([_span(r) for r in p.requests]) for p in ended)
    tools = [p.result.metrics["tools_s"] for p in ended if "tools_s" in p.result.metrics]
    preparation = sum(p.result.metrics.get("preparation_s", 0.0) for p in ended)
    waiting = either - model
    rest = wall - model - waiting - sum(tools) - preparation
    return Times(
        episodes=n,
        wall=wall / n,
        model=model / n,
        queue=waiting / n,
        tools=sum(tools) / n if tools else None,
        preparation=preparation / n,
        harness=rest / n,
    )


def _covered(spans: Iterable[Span]) -> float:
    """Seconds in which at least one was going on."""
    total, until = 0.0, float("-inf")
    for span in sorted(spans, key=lambda span: span.start):
        total += max(0.0, span.end - max(span.start, until))
        until = max(until, span.end)
    return total


def _span(request: Request) -> Span:
    return Span(request.started_at, request.ended_at)


def _whole(played: Sequence[Played]) -> Span | None:
    """From the first request to the end of the last episode; None without requests."""
    starts = [r.started_at for p in played for r in p.requests]
    return Span(min(starts), max(p.span.end for p in played)) if starts else None


def _last_of_turns(requests: Iterable[Request]) -> list[Request]:
    """The last request of each turn, where it was answered."""
    last = {r.turn: r for r in requests}
    return [r for r in last.values() if not r.error]


def _course(everything: Sequence[Played], window: Span | None) -> Course | None:
    whole = _whole(everything)
    if whole is None or whole.seconds <= 0:
        return None
    return Course(
        seconds=whole.seconds,
        in_flight=course([_span(r) for p in everything for r in p.requests], whole, COURSE_POINTS),
        steady_from=window.start - whole.start if window else None,
        steady_to=window.end - whole.start if window else None,
    )


def _mean_metric(measured: Iterable[Played], name: str) -> float | None:
    values = [p.result.metrics[name] for p in measured if name in p.result.metrics]
    return sum(values) / len(values) if values else None


def _input(measured: Iterable[Played]) -> tuple[float | None, float | None]:
    """Tokens of a user's message, asked for and measured, over the episodes that say what they asked for."""
    saying = [p for p in measured if "input_tokens_asked" in p.result.metrics]
    requests = [r for p in saying for r in p.requests]
    if not requests:
        return None, None
    asked = sum(p.result.metrics["input_tokens_asked"] for p in saying)
    counted = [r.input_tokens for r in requests if r.is_counted]
    return asked / len(requests), sum(counted) / len(counted) if counted else None


def _unfinished(measured: Iterable[Played]) -> list[Unfinished]:
    found: Counter[str] = Counter()
    first: dict[str, EpisodeResult] = {}
    for p in measured:
        r = p.result
        if r.outcome is not Outcome.SCORED:
            what = f"{r.outcome}: {r.kind}" if r.kind else str(r.outcome)
            found[what] += 1
            first.setdefault(what, r)
    return [Unfinished(what, n, first[what].id, first[what].error) for what, n in found.most_common()]


def _failures(requests: Iterable[Request]) -> list[Failure]:
    found: Counter[str] = Counter()
    first: dict[str, str] = {}
    for r in requests:
        if r.error:
            found[r.error] += 1
            first.setdefault(r.error, r.episode)
    return [Failure(error, n, first[error]) for error, n in found.most_common()]
