"""``agentflow run``: evaluate an agent."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from agentflow.cli.selection import selection_options


@click.command("run", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("arguments", nargs=-1, metavar="[AGENT] [KEY=VALUE]...")
@click.option("--data", metavar="FILE", help="Data set: .jsonl, .json, .csv, .parquet, a name, or module:function.")
@selection_options
@click.option("--seed", type=int, metavar="N", help="Seed of the order and of every request.")
@click.option("--group-by", multiple=True, metavar="COLUMN", help="Break the score down by a column; repeatable.")
@click.option(
    "--item-metric", multiple=True, metavar="FUNCTION", help="file.py:function of an item's results; repeatable."
)
@click.option("--run-metric", multiple=True, metavar="FUNCTION", help="file.py:function of all results; repeatable.")
@click.option("--n-samples", type=int, metavar="N", help="Episodes an item.")
@click.option("--max-concurrent", metavar="N|auto", help="Episodes at once.")
@click.option("--timeout", type=float, metavar="SECONDS", help="Most time for one episode.")
@click.option("--backend", metavar="ENGINE:dNtNpN", help="Workers to start, for instance llamacpp:d2 or vllm:d2t4.")
@click.option("--model", metavar="MODEL", help="Model of the workers, or the name that --base-url serves.")
@click.option("--base-url", multiple=True, metavar="URL", help="An existing endpoint instead of workers; repeatable.")
@click.option("--api-key-env", metavar="NAME", help="Environment variable that holds the endpoints' key.")
@click.option("--agent-arg", multiple=True, metavar="KEY=VALUE", help="For the agent's constructor; repeatable.")
@click.option("--reward", metavar="FUNCTION", help="Reward of a ready-made agent: math_reward, file.py:function, ...")
@click.option("--tools", multiple=True, metavar="FILE.py", help="Functions for the agent 'tools'; repeatable.")
@click.option("--config", type=click.Path(path_type=Path), metavar="FILE.yaml", help="Configuration file.")
@click.option("--inline", is_flag=True, help="Play in this process, one at a time, without timeouts: for a debugger.")
@click.option("--dry-run", is_flag=True, help="Print what would be started and run, and stop.")
def command(
    arguments: tuple[str, ...],
    data: str | None,
    agent_arg: tuple[str, ...],
    tools: tuple[str, ...],
    config: Path | None,
    inline: bool,
    dry_run: bool,
    **options: Any,
) -> int:
    """Evaluate AGENT: agent.py, agent.py:Class, pkg.mod:Class, pkg.mod.Class or a function, or a ready-made one: rlvr
    (one turn), multi-turn (answer, be told, try again), tools (calls Python functions). In a checkout also a benchmark:
    bfcl, tau2 (docs/benchmarks.md), multi_turn (docs/serving.md).

    Any key of the configuration can be given as KEY=VALUE.

    \b
    Examples:
      agentflow run examples/math/agent.py --limit 16
      agentflow run agent.py:MathAgent --data test.jsonl --n-samples 4 --backend llamacpp:d2
      agentflow run agent.py --data test.jsonl --base-url http://127.0.0.1:8000 --model qwen3-8b
      agentflow run rlvr --data math500 --group-by level
      agentflow run tools --tools mytools.py --data test.jsonl --reward math_reward
      agentflow run bfcl --data bfcl:multi_turn_base --base-url http://127.0.0.1:8000
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
    from agentflow.controller.options import flags_of, overrides_of
    from agentflow.workflows.ready_made import is_ready_made, path_of

    first = arguments[0] if arguments else ""
    agent = first if first and ("=" not in first or os.path.isfile(first.partition(":")[0])) else None
    overrides = arguments[1:] if agent is not None else arguments
    stray = [a for a in overrides if "=" not in a]
    if stray:
        raise click.UsageError(f"'{stray[0]}' is neither AGENT (given already) nor KEY=VALUE.")
    if options["reward"] is not None and ":" in options["reward"]:
        options["reward"] = foreground.absolute(options["reward"])
    if options["max_concurrent"] is not None and options["max_concurrent"].isdecimal():
        options["max_concurrent"] = int(options["max_concurrent"])
    settings, notes = load_config(
        config,
        [*overrides_of({**options, "runners": "inline" if inline else None}), *overrides],
        options=flags_of(options),
    )
    # Absolute paths: a resume from another directory finds them again.
    agent = agent and path_of(agent)
    if agent is not None and not is_ready_made(agent):
        agent = foreground.absolute(agent)
    data = data and foreground.absolute(data)
    agent_kwargs = foreground.agent_arguments(agent_arg)
    if tools:
        agent_kwargs["tools"] = [foreground.absolute(path) for path in tools]
    request = foreground.Request(settings, agent, agent_kwargs, data, notes)
    if dry_run:
        from agentflow.cli.dry_run import print_plan

        print_plan(request)
        return 0
    return foreground.play(request)
