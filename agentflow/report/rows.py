"""What the tables of runs are made of: rows with a name, columns of numbers, a mean with its interval."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from agentflow.metrics import Interval
from agentflow.report.text import number, plain


def named_rows() -> Table:
    """An empty table of names and what stands behind them; :func:`row` fills it."""
    rows = Table.grid(padding=(0, 3, 0, 0))
    rows.add_column(style="dim", no_wrap=True, min_width=11)
    rows.add_column(overflow="fold")
    return rows


def row(rows: Table, name: str, value: RenderableType) -> None:
    """Add a name and what stands behind it."""
    rows.add_row(plain(name), value)


def columns(first: str, others: Sequence[str]) -> Table:
    """An empty table of a name and columns of numbers."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column(plain(first), overflow="fold", min_width=11)
    for name in others:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def mean_text(mean: float | None, ci95: Interval | None, over: str, style: str = "") -> Text:
    """A mean, its interval where it has one, and what it is a mean over."""
    text = Text(number(mean).ljust(8), style)
    if ci95 is None:
        return text.append(over, "dim")
    return text.append(f"95 % CI {interval_text(ci95)}, ").append(over, "dim")


def interval_text(interval: Interval) -> str:
    """Its two ends."""
    return f"{number(interval.low)} to {number(interval.high)}"
