"""Which part of a run is steady: warmed up, and with work left for every client. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Span:
    """A time, in Unix seconds."""

    start: float
    end: float

    @property
    def seconds(self) -> float:
        """Its length."""
        return self.end - self.start

    def holds(self, at: float) -> bool:
        """Whether a moment lies in it; both ends belong to it."""
        return self.start <= at <= self.end


def steady(warm_up: Iterable[Span], measured: Sequence[Span]) -> Span | None:
    """From the end of the warm-up to the moment at which the first client finds no conversation left.

    The warm-up is over when the last conversation of it has ended; without any, when the first wave has started: with
    the start of the last conversation that began before any ended. Clients run out with the first end that comes after
    the last conversation has started.

    Returns:
        None where the second comes before the first: there were too few conversations for a steady part.
    """
    if not measured:
        return None
    ends = sorted(span.end for span in measured)
    last_start = max(span.start for span in measured)
    warm = [span.end for span in warm_up]
    start = max(warm) if warm else max((span.start for span in measured if span.start < ends[0]), default=ends[0])
    end = next((end for end in ends if end > last_start), ends[-1])
    return Span(start, end) if start < end else None


@dataclass(frozen=True)
class InFlight:
    """How many were going on at once within a time: the mean over the time, and the most."""

    mean: float
    most: int


def in_flight(spans: Iterable[Span], within: Span) -> InFlight:
    """How many of ``spans`` were going on at once in the time ``within``."""
    area, most, now, at = 0.0, 0, 0, within.start
    for moment, change in _changes(spans, within):
        area += now * (moment - at)
        now, at = now + change, moment
        most = max(most, now)
    area += now * (within.end - at)
    return InFlight(area / within.seconds if within.seconds > 0 else float(most), most)


def course(spans: Iterable[Span], within: Span, points: int) -> list[float]:
    """How many were going on at once: the mean over each of ``points`` equal parts of ``within``."""
    spans = list(spans)
    step = within.seconds / points
    parts = (Span(within.start + i * step, within.start + (i + 1) * step) for i in range(points))
    return [
        in_flight([span for span in spans if span.start < part.end and span.end > part.start], part).mean
        for part in parts
    ]


def _changes(spans: Iterable[Span], within: Span) -> list[tuple[float, int]]:
    changes = []
    for span in spans:
        start, end = max(span.start, within.start), min(span.end, within.end)
        if start < end:
            changes += [(start, 1), (end, -1)]
    return sorted(changes)  # at the same moment an end comes before a start
