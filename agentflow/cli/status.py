"""``agentflow status``: workers and runners of a run that is being played."""

from __future__ import annotations

import time
from pathlib import Path

import click

STALE_S = 30.0  # the controller writes every few seconds


@click.command("status", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("run_dir", type=click.Path(path_type=Path))
def command(run_dir: Path) -> int:
    """Print the workers and runners of the run in RUN_DIR: where they run, since when, what they do.

    \b
    Example:
      agentflow status runs/agentflow/20260131-120000-ab12
    """
    from rich.table import Table

    from agentflow.report.output import Output
    from agentflow.report.text import clock, plain
    from agentflow.store.status import read_status

    status = read_status(run_dir)
    console = Output()
    age = time.time() - status.at
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    for title in ("name", "state", "node", "up for", "episodes", ""):
        table.add_column(title, style="bold" if title == "name" else None)
    for p in status.processes:
        up = clock(status.at - p.since) if p.since is not None else ""
        table.add_row(plain(p.name), p.state, plain(p.node), up, str(p.episodes), plain(p.note))
    console.print(table)
    playing = f"{status.in_flight} episodes playing, {status.cap} allowed at once"
    console.print(f"{playing}; controller {status.pid} on {status.host}, {age:.0f} s ago", highlight=False)
    if age > STALE_S:
        console.print(
            f"The controller has not written for {clock(age)}: the run is over, or its controller is dead.",
            style="yellow",
            highlight=False,
        )
    return 0
