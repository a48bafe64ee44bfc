"""``agentflow compare``: one run against another, item by item."""

from __future__ import annotations

from pathlib import Path

import click


@click.command("compare", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("a", type=click.Path(path_type=Path))
@click.argument("b", type=click.Path(path_type=Path))
def command(a: Path, b: Path) -> int:
    """Print how the run in B differs from the run in A: the paired difference with its interval, the items that became
    better and worse, and what else is not the same in the two runs.

    \b
    Example:
      agentflow compare runs/agentflow/before runs/agentflow/after
    """
    from agentflow.report.compare import compare_runs

    compare_runs(a, b)
    return 0
