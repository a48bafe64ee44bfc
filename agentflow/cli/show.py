"""``agentflow show``: print a run's numbers, or one episode turn by turn."""

from __future__ import annotations

from pathlib import Path

import click


@click.command("show", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("run_dir", type=click.Path(path_type=Path))
@click.option("--episode", metavar="ID", help="Print this episode turn by turn (ITEM/SAMPLE, as the tables name it).")
@click.option("--item-metric", multiple=True, metavar="FUNCTION", help="Also this, of each item's results; repeatable.")
@click.option("--run-metric", multiple=True, metavar="FUNCTION", help="Also this, of all results; repeatable.")
def command(run_dir: Path, episode: str | None, item_metric: tuple[str, ...], run_metric: tuple[str, ...]) -> int:
    """Print the table of the run in RUN_DIR, or one of its episodes with every call.

    \b
    Examples:
      agentflow show runs/agentflow/20260131-120000-ab12
      agentflow show runs/agentflow/20260131-120000-ab12 --episode add-3/0
      agentflow show runs/agentflow/20260131-120000-ab12 --item-metric metrics.py:spread
    """
    from agentflow.report.show import show_episode, show_run

    if episode is None:
        show_run(run_dir, item_metrics=item_metric, run_metrics=run_metric)
    else:
        show_episode(run_dir, episode)
    return 0
