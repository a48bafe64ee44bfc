"""``agentflow run``: evaluate an agent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click


@click.command("run", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("arguments", nargs=-1, metavar="[AGENT] [KEY=VALUE]...")
@click.option("--data", metavar="FILE", help="Data set: .jsonl, .json, .csv, .parquet, a name, or module:function.")
@click.option("--limit", type=int, metavar="N", help="Only the first N items (after --shuffle).")
@click.option("--shuffle", is_flag=True, default=None, help="Shuffle the items, by --seed.")
@click.option("--seed", type=int, metavar="N", help="Seed of the order and of every request.")
@click.option("--n-samples", type=int, metavar="N", help="Episodes an item.")
@click.option("--max-concurrent", metavar="N|auto", help="Episodes at once.")
@click.option("--timeout", type=float, metavar="SECONDS", help="Most time for one episode.")
@click.option("--backend", metavar="ENGINE:dNtNpN", help="Workers to start, for instance llamacpp:d2 or vllm:d2t4.")
@click.option("--model", metavar="MODEL", help="Model of the workers, or the name that --base-url serves.")
@click.option("--base-url", multiple=True, metavar="URL", help="An existing endpoint instead of workers; repeatable.")
@click.option("--api-key-env", metavar="NAME", help="Environment variable that holds the endpoints' key.")
@click.option("--agent-arg", multiple=True, metavar="KEY=VALUE", help="For the agent's constructor; repeatable.")
@click.option("--config", type=click.Path(path_type=Path), metavar="FILE.yaml", help="Configuration file.")
@click.option("--inline", is_flag=True, help="Play in this process, one at a time, without timeouts: for a debugger.")
@click.option("--dry-run", is_flag=True, help="Print what would be started and run, and stop.")
def command(
    arguments: tuple[str, ...],
    data: str | None,
    agent_arg: tuple[str, ...],
    config: Path | None,
    inline: bool,
    dry_run: bool,
    **options: Any,
) -> int:
    """Evaluate AGENT: agent.py, agent.py:Class, pkg.mod:Class, pkg.mod.Class or a function.

    Any key of the configuration can be given as KEY=VALUE.

    \b
    Examples:
      agentflow run examples/math/agent.py --limit 16
      agentflow run agent.py:MathAgent --data test.jsonl --n-samples 4 --backend llamacpp:d2
      agentflow run agent.py --data test.jsonl --base-url http://127.0.0.1:8000 --model qwen3-8b
      agentflow run agent.py --config eval.yaml gconfig.temperature=0.6 rollout.runners=4

    \b
    Exit codes:
      0    complete: every episode has an outcome, none is lost
      1    the run stopped on an error; what was played is saved
      2    usage: nothing was run
      3    complete, but with lost episodes
      130  interrupted; what was played is saved
    """
    from agentflow.cli import foreground
    from agentflow.config import load_config
    from agentflow.controller.options import overrides_of

    agent = arguments[0] if arguments and "=" not in arguments[0] else None
    overrides = arguments[1:] if agent is not None else arguments
    stray = [a for a in overrides if "=" not in a]
    if stray:
        raise click.UsageError(f"'{stray[0]}' is neither AGENT (given already) nor KEY=VALUE.")
    if options["max_concurrent"] is not None and options["max_concurrent"].isdecimal():
        options["max_concurrent"] = int(options["max_concurrent"])
    settings, notes = load_config(
        config, [*overrides_of({**options, "runners": "inline" if inline else None}), *overrides]
    )
    if agent is not None:
        agent = foreground.absolute(agent)  # a resume from another directory finds them again
    data = data and foreground.absolute(data)
    request = foreground.Request(settings, agent, foreground.agent_arguments(agent_arg), data, notes)
    if dry_run:
        from agentflow.cli.dry_run import print_plan

        print_plan(request)
        return 0
    return foreground.play(request)
