"""The measurement in a terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from agentflow.metrics import Percentiles
from agentflow.report.text import count, first_line, percent, plain, plural, seconds
from benchmarks.multi_turn.measurement import Delays, Lengths, Measurement, Part, Times, TurnRow

MOST_TURNS = 30  # rows; where there are more, serving.json has them
MOST_FAILURES = 5


def render(m: Measurement) -> RenderableType:
    """Rates, delays, lengths, turns, where the time went, and what went wrong."""
    parts: list[RenderableType] = [_title(m), Text()]
    if m.whole is not None:
        parts += [_overview(m), Text(), _turns(m.turns), Text()]
    if m.times is not None:
        parts += [_times(m.times), Text()]
    parts.append(_facts(m))
    return Padding(Group(*parts), (1, 1, 1, 2))


def _title(m: Measurement) -> Text:
    text = plain(m.title or "Serving", "bold")
    if m.partial:
        text.append("\n").append("PARTIAL", "bold yellow")
        text.append(f": {m.missing:,} of {plural(m.expected, 'conversation')} not played", "yellow")
    return text


def _overview(m: Measurement) -> Table:
    """One column for the steady part and one for the whole."""
    shown = [(name, part) for name, part in (("steady", m.steady), ("whole", m.whole)) if part is not None]
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="dim")
    table.add_column("", style="dim", no_wrap=True, min_width=18)
    for name, _ in shown:
        table.add_column(name, no_wrap=True)

    def row(label: str, cell: Callable[[Part], str]) -> None:
        table.add_row(label, *(cell(part) for _, part in shown))

    row("time", lambda p: seconds(p.seconds))
    row("answered", lambda p: count(p.requests))
    row("errors", lambda p: count(p.errors))
    row("requests/s", lambda p: _rate(p.rate(p.requests)))
    row("turns/s", lambda p: _rate(p.rate(p.turns)))
    row("episodes/s", lambda p: _rate(p.rate(p.episodes)))
    row("output tokens/s", lambda p: _rate(p.rate(p.output_tokens) if p.lengths else None))
    row("prompt tokens/s", lambda p: _rate(p.rate(p.prompt_tokens) if p.lengths else None))
    row("requests at once", lambda p: f"{p.in_flight:.1f}, at most {p.most_in_flight}")
    row("episodes at once", lambda p: f"{p.playing:.1f}")
    row("prompt from cache", lambda p: percent(p.lengths.cached_share if p.lengths else None))
    table.add_row("p50 / p90 / p99 of")
    for label, pick in _DELAYS:
        row(f"  {label}", lambda p, pick=pick: triple(pick(p.delays)))  # type: ignore[misc]
    return table


_DELAYS: tuple[tuple[str, Callable[[Delays], Percentiles | None]], ...] = (
    ("first token", lambda d: d.ttft),
    ("between tokens", lambda d: d.itl),
    ("time per token", lambda d: d.tpot),
    ("latency", lambda d: d.latency),
)
_BY_TURN = tuple(one for one in _DELAYS if one[0] != "time per token")  # serving.json has it


def _turns(rows: Sequence[TurnRow]) -> Group:
    """By turn, over the whole: lengths, then delays."""
    lengths = _by_turn(("answered", "prompt tokens", "added", "output", "from cache"))
    delays = _by_turn([label for label, _ in _BY_TURN])
    for row in rows[:MOST_TURNS]:
        answered = Text(count(row.requests))
        if row.errors:
            answered.append(f" + {plural(row.errors, 'error')}", "red")
        lengths.add_row(str(row.turn), answered, *_lengths(row.lengths))
        delays.add_row(str(row.turn), *(triple(pick(row.delays)) for _, pick in _BY_TURN))
    if len(rows) > MOST_TURNS:
        delays.add_row("…", f"{len(rows) - MOST_TURNS} more in serving.json")
    return Group(lengths, Text(), delays)


def _by_turn(names: Sequence[str]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="dim")
    table.add_column("turn", justify="right", no_wrap=True, min_width=4)
    for name in names:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _lengths(lengths: Lengths | None) -> tuple[str, str, str, str]:
    if lengths is None:
        return "–", "–", "–", "–"
    return (
        f"{lengths.prompt:,.0f}",
        f"{lengths.added:,.0f}",
        f"{lengths.output:,.1f}",
        percent(lengths.cached_share),
    )


def _times(t: Times) -> Table:
    """Mean of an episode."""
    grid = _grid()
    grid.add_row("an episode", Text(seconds(t.wall)).append(f"   mean of {plural(t.episodes, 'episode')}", "dim"))
    harness = "tools, harness" if t.tools is None else "harness"
    parts = [("model", t.model), ("waiting", t.queue), ("tools", t.tools), ("preparation", t.preparation)]
    for name, value in [*parts, (harness, t.harness)]:
        if value:
            grid.add_row(f"  {name}", Text(seconds(value).ljust(9)).append(percent(value / t.wall), "dim"))
    return grid


def _facts(m: Measurement) -> Table:
    grid = _grid()
    asked = m.whole.lengths if m.whole else None
    if m.input_asked is not None and m.input_measured is not None:
        grid.add_row("input", f"{m.input_asked:,.1f} tokens a message asked for, {m.input_measured:,.1f} measured")
    if asked is not None and asked.output_asked is not None:
        grid.add_row("output", f"{asked.output_asked:,.1f} tokens a reply asked for, {asked.output:,.1f} measured")
    if m.whole is not None and m.whole.delays.streamed < m.whole.requests:
        without = m.whole.requests - m.whole.delays.streamed
        why = "not streamed, empty, or a tool call that the engine held back or could not read"
        grid.add_row("without pieces", f"{without:,} of {m.whole.requests:,} replies: {why}")
    if m.whole is not None and m.whole.uncounted:
        which = f"{m.whole.uncounted:,} of {m.whole.requests:,} replies: the endpoint told no usage"
        grid.add_row("without tokens", Text(f"{which}; they are in no number of tokens", "yellow"))
    grid.add_row("left out", f"{plural(m.warm_up, 'conversation')} of warm-up, {plural(m.retried, 'repeated attempt')}")
    if m.whole is None:
        why = "no conversation has come to its end yet" if m.partial else "nothing: no request was made"
        grid.add_row("measured", Text(why, "yellow"))
    elif m.steady is None:
        grid.add_row(
            "steady", Text("none: too few conversations (--conversations) for the number of clients", "yellow")
        )
    for number, sentence in enumerate(m.cache):
        grid.add_row("" if number else "cache", sentence)
    for one in m.unfinished:
        text = Text(f"{plural(one.episodes, 'episode')} {one.what}", "yellow")
        text.append(f"   such as {one.example}", "dim")
        if one.error:
            text.append("\n").append_text(plain(first_line(one.error, 300)))
        grid.add_row("unfinished", text)
    for failure in m.failures[:MOST_FAILURES]:
        text = Text(f"{plural(failure.requests, 'request')}: ", "red").append_text(
            plain(first_line(failure.error, 160))
        )
        grid.add_row("errors", text.append(f"   such as in {failure.example}", "dim"))
    if len(m.failures) > MOST_FAILURES:
        grid.add_row("", f"{len(m.failures) - MOST_FAILURES} more kinds of errors in serving.json")
    return grid


def _grid() -> Table:
    grid = Table.grid(padding=(0, 3, 0, 0))
    grid.add_column(style="dim", no_wrap=True, min_width=18)
    grid.add_column(overflow="fold")
    return grid


def _rate(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:,.0f}" if value >= 100 else f"{value:,.2f}"


def triple(p: Percentiles | None) -> str:
    """The three in one unit."""
    if p is None:
        return "–"
    if p.p99 < 2:
        unit, factor, places = "ms", 1000, 1 if p.p99 < 0.1 else 0
    else:
        unit, factor, places = "s", 1, 2 if p.p99 < 100 else 0
    return " / ".join(f"{value * factor:,.{places}f}" for value in (p.p50, p.p90, p.p99)) + f" {unit}"
