"""``agentflow resume``: play what a run still owes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click


@click.command("resume", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("run_dir", type=click.Path(path_type=Path))
@click.argument("overrides", nargs=-1, metavar="[KEY=VALUE]...")
@click.option("--n-samples", type=int, metavar="N", help="Episodes an item; may grow.")
@click.option("--limit", type=int, metavar="N", help="Items; may grow.")
@click.option("--max-concurrent", metavar="N|auto", help="Episodes at once.")
@click.option("--backend", metavar="ENGINE:dNtNpN", help="Workers to start.")
@click.option("--base-url", multiple=True, metavar="URL", help="Endpoints instead of those of the run; repeatable.")
@click.option("--api-key-env", metavar="NAME", help="Environment variable that holds the endpoints' key.")
@click.option("--force", is_flag=True, help="Resume although what decides the score has changed.")
def command(run_dir: Path, overrides: tuple[str, ...], force: bool, **options: Any) -> int:
    """Play what the run in RUN_DIR still owes: episodes that are missing, lost or cancelled.

    It refuses when what decides the score has changed (the agent's source, data, model, sampling) and prints the
    difference. Workers, endpoints, scheduler and concurrency may change; --n-samples and --limit may grow.

    \b
    Examples:
      agentflow resume runs/agentflow/20260131-120000-ab12
      agentflow resume runs/agentflow/20260131-120000-ab12 --n-samples 8 rollout.runners=4
      agentflow resume runs/agentflow/20260131-120000-ab12 --base-url http://127.0.0.1:8001
    """
    from agentflow.cli import foreground
    from agentflow.config import load_config
    from agentflow.config.secrets import remove_marks
    from agentflow.controller.options import flags_of, overrides_of
    from agentflow.errors import UsageError
    from agentflow.store import read_manifest

    run_dir = run_dir.absolute()
    manifest = read_manifest(run_dir)
    if not manifest.agent_path:
        raise UsageError(
            f"{run_dir} was begun from Python: resume it there, by evaluate(..., resume={str(run_dir)!r})."
        )
    if options["max_concurrent"] is not None and options["max_concurrent"].isdecimal():
        options["max_concurrent"] = int(options["max_concurrent"])
    settings, notes = load_config(
        None, [*overrides_of(options), *overrides], base=manifest.config, options=flags_of(options)
    )
    kwargs, secret = remove_marks(manifest.agent_kwargs)
    for name in secret:
        if name.partition(".")[0] not in settings.agent_kwargs:
            raise UsageError(f"The agent's argument {name} is a secret and not stored: add workflow_kwargs.{name}=...")
    if settings.reward_fn is not None:
        kwargs = {**kwargs, "reward_fn": settings.reward_fn}
    if manifest.cwd and os.path.isdir(manifest.cwd) and not os.path.samefile(manifest.cwd, "."):
        os.chdir(manifest.cwd)  # what the agent and the configuration name by relative paths is there
        notes.append(f"In {manifest.cwd}, where the run was begun.")
    request = foreground.Request(settings, manifest.agent_path, kwargs, manifest.data.source or None, notes)
    return foreground.play(request, run_dir=run_dir, force=force)
