"""One run against another, for a reader."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from agentflow.episode import EpisodeResult
from agentflow.metrics import Comparison, compare, summarize
from agentflow.report.output import Output
from agentflow.report.rows import columns, mean_text, named_rows, row
from agentflow.report.show import scoring_of, title_of
from agentflow.report.text import count, first_line, number, plain, plural
from agentflow.store import Manifest, counted, mixtures, read_manifest, read_results, unlike

DIFFERS_ROWS = 5  # where there is no difference of rewards to be explained
ITEM_ROWS = 10  # of the items that changed most


def compare_runs(a: Path, b: Path, console: Console | None = None) -> None:
    """Print how run ``b`` differs from run ``a``. How rewards count is as in ``a``.

    Raises:
        StoreError: one of them cannot be read; names file and line.
    """
    console = console or Output()
    ours, theirs = read_manifest(a), read_manifest(b)
    in_a, in_b = _results(a, ours), _results(b, theirs)
    rows = named_rows()
    for name, run, manifest, ended in (("A", a, ours, in_a), ("B", b, theirs, in_b)):
        owed = summarize(ended, scoring_of(manifest)).owed
        samples = f"   {manifest.rules.n_samples} samples" if manifest.rules.n_samples > 1 else ""
        partial = f"   PARTIAL, {plural(owed, 'episode')} owed" if owed else ""
        row(rows, name, plain(f"{title_of(manifest)}{samples}   {run}").append(partial, "yellow"))
        for note in mixtures(manifest):
            row(rows, "", plain(note, "yellow"))
    if a.resolve() == b.resolve():
        row(rows, "", plain("A and B are the same run", "yellow"))
    comparison = compare(in_a, in_b, scoring_of(ours))
    unlikeness = unlike(ours, theirs)
    if comparison.difference.mean is None:
        _numbers(rows, comparison)
        _differs(rows, unlikeness[:DIFFERS_ROWS], len(unlikeness[DIFFERS_ROWS:]))
    else:
        _differs(rows, unlikeness, 0)
        _numbers(rows, comparison)
    console.print(Padding(Group(rows, *_items(comparison)), (1, 1, 0, 2)))


def _differs(rows: Table, lines: Sequence[str], more: int) -> None:
    for line in lines:
        row(rows, "differs", plain(line, "yellow"))
    if more:
        row(rows, "", Text(f"and {more:,} more that {'differs' if more == 1 else 'differ'}", "dim"))


def _results(run: Path, manifest: Manifest) -> list[EpisodeResult]:
    return counted(read_results(run), manifest.data.ids, manifest.rules.n_samples)


def _numbers(rows: Table, c: Comparison) -> None:
    over = f"over {plural(c.difference.items, 'item')} that both have"
    if c.difference.mean is None:
        row(rows, "B - A", Text("– no item has a counted episode in both runs", "yellow"))
    else:
        rows.add_row()
        row(rows, "A", plain(number(c.a)))
        row(rows, "B", plain(number(c.b)))
        row(rows, "B - A", mean_text(c.difference.mean, c.difference.ci95, over, "bold"))
        changes = (f"{count(c.wins)} better", f"{count(c.ties)} the same", f"{count(c.losses)} worse")
        row(rows, "items", plain("   ".join(changes)))
    for name, ids in (("only in A", c.only_a), ("only in B", c.only_b)):
        if ids:
            row(rows, name, plain(f"{plural(len(ids), 'item')}, such as {ids[0]}"))


def _items(c: Comparison) -> list[RenderableType]:
    """The items that changed most, the worst first."""
    changed = sorted((b - a, item, a, b) for item, (a, b) in c.items.items() if a != b)
    if not changed:
        return []
    half = ITEM_ROWS // 2
    shown = changed if len(changed) <= ITEM_ROWS else [*changed[:half], *changed[-half:]]
    table = columns("item", ("A", "B", "B - A"))
    for difference, item, a, b in shown:
        table.add_row(plain(first_line(item, 60)), number(a), number(b), f"{difference:+,.3f}")
    if len(changed) > len(shown):
        table.add_row(Text(f"and {len(changed) - len(shown):,} more that changed", "dim"))
    return [Text(), table, Text()]
