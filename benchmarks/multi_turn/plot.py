"""The measurement as a picture: an SVG of four panels, written by hand, so that nothing has to be installed. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

from agentflow.metrics import Percentiles
from agentflow.report.text import count, first_line, seconds
from benchmarks.multi_turn.measurement import Course, Delays, Measurement, TurnRow

WIDTH, HEIGHT = 920, 560
LEFT, TOP, GAP_X, GAP_Y = 70, 70, 90, 80
PLOT_W, PLOT_H = (WIDTH - LEFT - 30 - GAP_X) / 2, (HEIGHT - TOP - 50 - GAP_Y) / 2
SMALLEST = 0.01  # of a scale, where all values are 0
COLOURS = {"p50": "#2563a8", "p90": "#e08a1e", "p99": "#b3362c"}
CACHED, COMPUTED, LINE, STEADY = "#9dc3e6", "#2563a8", "#2563a8", "#e8f1e4"


@dataclass(frozen=True)
class Panel:
    """A place for a plot, with scales from 0 to the largest value: ``x`` in values, ``y`` in values."""

    left: float
    top: float
    x_max: float
    y_max: float

    def x(self, value: float) -> float:
        """Where a value lies."""
        return self.left + PLOT_W * value / self.x_max

    def y(self, value: float) -> float:
        """Where a value lies."""
        return self.top + PLOT_H * (1 - value / self.y_max)


def picture(m: Measurement) -> str:
    """First token, time between tokens, and prompt by turn; requests at once over the run."""
    title = first_line(m.title, 95) + ("   PARTIAL" if m.partial else "")
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
        'font-size="12" fill="#333">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        _text(LEFT, 28, title, size=14, weight="bold"),
        *_delays(0, 0, "first token, by turn", m.turns, lambda d: d.ttft),
        *_delays(1, 0, "between tokens, by turn", m.turns, lambda d: d.itl),
        *_prompt(0, 1, m.turns),
        *(_course(1, 1, m.course) if m.course else ()),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _delays(
    column: int, row: int, title: str, turns: Sequence[TurnRow], pick: Callable[[Delays], Percentiles | None]
) -> list[str]:
    points = [(turn.turn, found) for turn in turns if (found := pick(turn.delays)) is not None]
    panel = _panel(
        column, row, max((t for t, _ in points), default=1) + 0.5, max((p.p99 for _, p in points), default=1)
    )
    parts = _frame(panel, title, seconds, [turn for turn, _ in points])
    for place, (name, colour) in enumerate(COLOURS.items()):
        line = [(panel.x(turn), panel.y(getattr(found, name))) for turn, found in points]
        parts.append(_polyline(line, colour))
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{colour}"/>' for x, y in line]
        parts.append(_text(panel.left + PLOT_W - 84 + 32 * place, panel.top - 8, name, fill=colour))
    return parts


def _prompt(column: int, row: int, turns: Sequence[TurnRow]) -> list[str]:
    """Bars: the mean prompt of a turn, and of it what came from the cache."""
    found = [(turn.turn, turn.lengths) for turn in turns if turn.lengths is not None]
    panel = _panel(
        column, row, max((t for t, _ in found), default=1) + 0.5, max((x.prompt for _, x in found), default=1)
    )
    parts = _frame(panel, "prompt tokens, by turn", lambda v: count(round(v)), [turn for turn, _ in found])
    width = min(40.0, PLOT_W / (len(found) + 1) * 0.6)
    for turn, lengths in found:
        cached = lengths.prompt * (lengths.cached_share or 0.0)
        left = panel.x(turn) - width / 2
        parts.append(_bar(left, panel.y(cached), width, panel.y(0) - panel.y(cached), CACHED))
        parts.append(_bar(left, panel.y(lengths.prompt), width, panel.y(cached) - panel.y(lengths.prompt), COMPUTED))
    parts.append(_text(panel.left + PLOT_W - 66, panel.top - 8, "from cache", anchor="end", fill="#5b9bd5"))
    parts.append(_text(panel.left + PLOT_W, panel.top - 8, "computed", anchor="end", fill=COMPUTED))
    return parts


def _course(column: int, row: int, course: Course) -> list[str]:
    panel = _panel(column, row, course.seconds, max(course.in_flight))
    shade = []
    if course.steady_from is not None and course.steady_to is not None:
        left = panel.x(course.steady_from)
        shade = [_bar(left, panel.top, panel.x(course.steady_to) - left, PLOT_H, STEADY)]
    step = course.seconds / len(course.in_flight)
    line = [(panel.x((i + 0.5) * step), panel.y(value)) for i, value in enumerate(course.in_flight)]
    ends = [_text(panel.x(0), panel.top + PLOT_H + 16, "0"), _text(panel.x(course.seconds), panel.top + PLOT_H + 16,
            seconds(course.seconds), anchor="end")]  # fmt: skip
    legend = [_text(panel.left + PLOT_W, panel.top - 8, "steady part", anchor="end", fill="#6a8a5a")] if shade else []
    frame = _frame(panel, "requests at once, warm-up included", lambda v: f"{v:.0f}", ())
    return [*shade, *frame, _polyline(line, LINE), *ends, *legend]


def _panel(column: int, row: int, x_max: float, y_max: float) -> Panel:
    left = LEFT + column * (PLOT_W + GAP_X)
    return Panel(left, TOP + row * (PLOT_H + GAP_Y), x_max, (y_max or SMALLEST) * 1.05)


def _frame(panel: Panel, title: str, shown: Callable[[float], str], turns: Sequence[int]) -> list[str]:
    """Title, axes, three values at the left, and numbers of turns below."""
    bottom = panel.top + PLOT_H
    parts = [_text(panel.left, panel.top - 8, title, weight="bold")]
    for share in (0.0, 0.5, 1.0):
        value = panel.y_max / 1.05 * share
        y = panel.y(value)
        parts.append(f'<path d="M{panel.left:.1f} {y:.1f}h{PLOT_W:.1f}" stroke="#ddd" fill="none"/>')
        parts.append(_text(panel.left - 6, y + 4, shown(value) if share else "0", anchor="end"))
    parts.append(f'<path d="M{panel.left:.1f} {panel.top:.1f}V{bottom:.1f}h{PLOT_W:.1f}" stroke="#888" fill="none"/>')
    every = max(1, len(turns) // 12)
    parts += [_text(panel.x(turn), bottom + 16, str(turn), anchor="middle") for turn in turns[::every]]
    return parts


def _polyline(points: Sequence[tuple[float, float]], colour: str) -> str:
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.8"/>'


def _bar(x: float, y: float, width: float, height: float, colour: str) -> str:
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{max(0.0, height):.1f}" fill="{colour}"/>'


def _text(
    x: float, y: float, text: str, *, anchor: str = "start", fill: str = "#333", size: int = 12, weight: str = "normal"
) -> str:
    style = f'text-anchor="{anchor}" fill="{fill}" font-size="{size}" font-weight="{weight}"'
    return f'<text x="{x:.1f}" y="{y:.1f}" {style}>{escape(text)}</text>'
