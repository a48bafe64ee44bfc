"""An evaluation in the foreground of a terminal: progress, Ctrl-C, the final table, the exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import click
from rich.console import Console

from agentflow.agents.spec import agent_spec
from agentflow.channel.messages import AgentSpec
from agentflow.cli.signals import interrupts
from agentflow.config import Config
from agentflow.controller.evaluate import Evaluation, Plan, Watcher, play_run
from agentflow.errors import (
    EXIT_COMPLETE,
    EXIT_INTERRUPTED,
    EXIT_LOST,
    AgentLoadError,
)
from agentflow.report.output import Output
from agentflow.report.progress import Progress
from agentflow.report.show import title_of
from agentflow.report.terminal import final_table
from agentflow.report.text import plural
from agentflow.store import read_manifest


@dataclass(frozen=True)
class Request:
    """What the user asked for: the resolved configuration, the agent, its arguments, the data.

    ``notes`` are sentences about the configuration that are printed first.
    """

    config: Config
    agent: str | None
    agent_kwargs: Mapping[str, Any]
    data: str | None
    notes: Sequence[str] = ()

    def spec(self) -> AgentSpec:
        """The agent to load; raises AgentLoadError where none is named."""
        path = self.agent or self.config.agent_path
        if not path:
            raise AgentLoadError("No agent: name one (agentflow run agent.py), or set workflow in the configuration.")
        return agent_spec(path, {**self.config.agent_kwargs, **self.agent_kwargs})


def agent_arguments(pairs: Sequence[str]) -> dict[str, Any]:
    """``key=value`` pairs, each value read as YAML: ``n=3`` is an int, ``name='3'`` a string."""
    import yaml

    arguments: dict[str, Any] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise click.UsageError(f"--agent-arg {pair!r} is not KEY=VALUE.")
        try:
            arguments[key] = yaml.safe_load(value)
        except yaml.YAMLError as e:
            raise click.UsageError(f"--agent-arg {pair!r}: the value is no YAML; quote it: {key}='\"...\"'.") from e
    return arguments


def absolute(name: str) -> str:
    """The same name with an absolute path, where it begins with the path of an existing file (``file.py:Class``)."""
    path, colon, attribute = name.partition(":")
    return f"{os.path.abspath(path)}{colon}{attribute}" if os.path.isfile(path) else name


def play(request: Request, run_dir: Path | None = None, force: bool = False) -> int:
    """Begin a run (or resume the one in ``run_dir``), print its table, and return the exit code."""
    return anyio.run(_play, request, run_dir, force)


async def _play(request: Request, run_dir: Path | None, force: bool) -> int:
    console = Output()
    for note in request.notes:
        console.print(note, markup=False, highlight=False, soft_wrap=True)
    with ExitStack() as stack:
        screen = _Screen(console, stack, request.config.rollout.failed_reward)
        watcher = Watcher(on_plan=screen.planned, on_result=screen.result, on_message=screen.message)
        evaluation = await _until_second_signal(request, watcher, screen, run_dir, force)
    if evaluation is None:
        where = f"; what was played is in {screen.plan.run_dir}" if screen.plan else ""
        console.print(f"Stopped{where}.", markup=False, highlight=False, soft_wrap=True)
        return EXIT_INTERRUPTED
    title = title_of(read_manifest(evaluation.run_dir))
    final_table(evaluation.summary, evaluation.run_dir, title=title, console=console)
    if evaluation.interrupted:
        return EXIT_INTERRUPTED
    return EXIT_COMPLETE if evaluation.complete else EXIT_LOST


class _Screen:
    """What a terminal sees of a run: a status line until the plan is known, then the progress."""

    def __init__(self, console: Console, stack: ExitStack, failed_reward: float) -> None:
        self.plan: Plan | None = None
        self._console = console
        self._stack = stack
        self._failed_reward = failed_reward
        self._progress: Progress | None = None

    def planned(self, plan: Plan) -> None:
        self.plan = plan
        data, recipe = plan.dataset.source, plan.dataset.recipe
        done = plan.total - plan.owed
        again = f", {done} of them played already" if done else ""
        self._console.print(
            f"{plan.agent.name} on {data} (recipe {recipe}): {plural(len(plan.dataset), 'item')} x {plan.n_samples} = "
            f"{plural(plan.total, 'episode')}{again}",
            markup=False,
            highlight=False,
            soft_wrap=True,
        )
        self._progress = self._stack.enter_context(
            Progress(plan.total, console=self._console, failed_reward=self._failed_reward, earlier=plan.earlier)
        )

    def result(self, result: Any) -> None:
        if self._progress is not None:
            self._progress.update(result)

    def message(self, text: str) -> None:
        if self._progress is not None:
            self._progress.message(text)
        else:
            self._console.print(text, markup=False, highlight=False, soft_wrap=True)


async def _until_second_signal(
    request: Request, watcher: Watcher, screen: _Screen, run_dir: Path | None, force: bool
) -> Evaluation | None:
    """Play; the first Ctrl-C stops admitting and saves, the second (or one before the first episode) stops now."""
    with anyio.CancelScope() as scope:

        def stop() -> None:
            if watcher.stop.is_set() or screen.plan is None:
                scope.cancel()
                return
            watcher.stop.set()
            screen.message(
                f"Stopping: nothing new starts, what plays has {watcher.grace_s:.0f} s to end. Ctrl-C again stops now."
            )

        with interrupts(stop):
            return await play_run(
                request.config,
                request.spec(),
                request.data,
                watcher=watcher,
                run_dir=run_dir,
                command=("agentflow", *sys.argv[1:]),
                resume=run_dir is not None,
                force=force,
            )
    return None
