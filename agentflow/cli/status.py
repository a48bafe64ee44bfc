"""``agentflow status``: workers and runners of a run that is being played, or how it ended."""

from __future__ import annotations

import shlex
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from agentflow.store.lock import Holder
    from agentflow.store.status import Ended

STALE_S = 30.0  # the controller writes every few seconds
STOPPED_BY = {
    "": "",
    "user": ", stopped by the user",
    "caller": ", cancelled by its caller",
    "error": ", stopped by an error",
}


@click.command("status", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("run_dir", type=click.Path(path_type=Path))
def command(run_dir: Path) -> int:
    """Print the workers and runners of the run in RUN_DIR: where they run, since when, what they do; or how it ended.

    \b
    Example:
      agentflow status runs/agentflow/20260131-120000-ab12
    """
    from rich.table import Table

    from agentflow.report.output import Output
    from agentflow.report.text import clock, count, plain, plural
    from agentflow.store.lock import dead_holder
    from agentflow.store.status import read_status

    status = read_status(run_dir)
    console = Output()
    if status.ended is not None:
        for line in _ending(run_dir, status.ended):
            console.print(plain(line), soft_wrap=True)
        return 0
    if (dead := dead_holder(run_dir)) is not None:
        console.print(plain(_death(run_dir, dead)), soft_wrap=True)
        return 0
    age = time.time() - status.at
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    for title in ("name", "state", "node", "up for", "episodes", ""):
        table.add_column(title, style="bold" if title == "name" else None)
    for p in status.processes:
        up = clock(status.at - p.since) if p.since is not None else ""
        table.add_row(plain(p.name), p.state, plain(p.node), up, str(p.episodes), plain(p.note))
    console.print(table)
    playing = f"{plural(status.in_flight, 'episode')} playing, {count(status.cap)} allowed at once"
    console.print(f"{playing}; controller {status.pid} on {status.host}, {age:.0f} s ago", highlight=False)
    if age > STALE_S:
        console.print(
            f"The controller has not written for {clock(age)}: the run is over, or its controller is dead.",
            style="yellow",
            highlight=False,
        )
    return 0


def _ending(run_dir: Path, ended: Ended) -> list[str]:
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(ended.at))
    how_far, _ = _progress(run_dir)
    return [f"Ended at {when}{STOPPED_BY[ended.stopped_by]}; {how_far}.", *filter(None, [ended.error])]


def _death(run_dir: Path, dead: Holder) -> str:
    how_far, is_evaluation = _progress(run_dir)
    rest = f": agentflow resume {shlex.quote(str(run_dir))} plays the rest" if is_evaluation else ""
    return f"The controller {dead.pid} is dead, with {how_far}{rest}."


def _progress(run_dir: Path) -> tuple[str, bool]:
    """How far the run has come, and whether it is over a data set: else items were submitted one by one."""
    from agentflow.report.text import count, plural
    from agentflow.store import counted, read_manifest, read_results, stays
    from agentflow.store.resume import OWED

    manifest = read_manifest(run_dir)
    ids, n_samples = manifest.data.ids, manifest.rules.n_samples
    results = counted(read_results(run_dir), ids, n_samples)
    outcomes = Counter(r.outcome for r in results)
    done = sum(map(stays, results))
    wanted = manifest.data.n_items * n_samples
    parts = [f"{count(done)} of {plural(wanted, 'episode')}" if wanted else plural(done, "episode")]
    parts += [f"{count(outcomes[outcome])} {outcome}" for outcome in sorted(OWED, reverse=True) if outcomes[outcome]]
    return ", ".join(parts), bool(wanted)
