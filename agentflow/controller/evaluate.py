"""A whole evaluation: an agent over a data set, begun or resumed, to its numbers."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import msgspec
from anyio.from_thread import start_blocking_portal

from agentflow.agents.spec import agent_spec
from agentflow.channel.messages import AgentInfo, AgentSpec
from agentflow.config import Config, load_config
from agentflow.controller.background import background
from agentflow.controller.controller import Controller
from agentflow.controller.items import Data, check_group_by, check_roles, open_items, unmatched_note, work_of
from agentflow.controller.launch import run_directory
from agentflow.controller.manifest import manifest_of
from agentflow.controller.options import overrides_of
from agentflow.controller.own import with_own
from agentflow.datasets import Dataset
from agentflow.episode import EpisodeResult
from agentflow.errors import ResumeRefusedError, RunExistsError, RunLockedError, UsageError
from agentflow.metrics import Summary, stats
from agentflow.store import (
    DataInfo,
    counted,
    differences,
    discard_unused,
    forced,
    model_fingerprint,
    owed,
    read_manifest,
    stays,
    write_summary,
)
from agentflow.workflows.ready_made import is_ready_made, with_reward

DEFAULT_GRACE_S = 10.0  # what calls in flight are given after the first Ctrl-C


@dataclass(frozen=True)
class Plan:
    """What an evaluation is about to do.

    Args:
        owed: episodes to be played.
        earlier: the results that stay, of a run that is resumed.
    """

    run_dir: Path
    agent: AgentInfo
    dataset: Dataset
    n_samples: int
    owed: int
    earlier: tuple[EpisodeResult, ...] = ()

    @property
    def total(self) -> int:
        """Episodes of the whole run, those played earlier included."""
        return len(self.dataset) * self.n_samples


@dataclass(frozen=True)
class Evaluation:
    """What came out.

    Args:
        run_dir: where the run lies: its episodes, traces, numbers and logs; ``agentflow show RUN_DIR`` reads it.
        complete: every episode has an outcome and none is lost or cancelled.
        interrupted: the user stopped it, before all was played or all metric functions were done.
        results: the last result of each episode.
    """

    run_dir: Path
    summary: Summary
    stats: dict[str, float]
    complete: bool
    interrupted: bool
    results: tuple[EpisodeResult, ...]


@dataclass
class Watcher:
    """How a caller follows an evaluation and stops it.

    Args:
        on_plan: called once, before the first episode.
        on_result: called with every line that is written.
        on_message: called with a sentence that the user may want to know.
        stop: set it to interrupt: nothing new starts, what plays has ``grace_s`` to end, all is saved.
    """

    on_plan: Callable[[Plan], None] = lambda plan: None
    on_result: Callable[[EpisodeResult], None] = lambda result: None
    on_message: Callable[[str], None] = lambda message: None
    stop: anyio.Event = field(default_factory=anyio.Event)
    grace_s: float = DEFAULT_GRACE_S


async def play_run(
    config: Config,
    agent: AgentSpec,
    data: Data | None,
    *,
    watcher: Watcher | None = None,
    run_dir: Path | None = None,
    command: Sequence[str] = (),
    resume: bool = False,
    force: bool = False,
) -> Evaluation:
    """Begin or resume a run and play what it owes.

    Args:
        data: a path, a name, ``module:function`` or rows; the agent's own ``dataset`` when None.
        run_dir: of the run to resume; else made from the configuration.
        command: as the user typed it, for the manifest.
        force: resume although what decides the score has changed.

    Raises:
        ResumeRefusedError: what decides the score has changed.
        AgentflowError: see :mod:`agentflow.errors`.
    """
    watcher = watcher or Watcher()
    run_dir = run_dir or run_directory(config)
    try:
        return await _play(config, agent, data, watcher, run_dir, command, resume, force)
    except (RunExistsError, RunLockedError):
        raise
    except UsageError:
        if not resume:  # a run that never began is not left lying about
            await anyio.to_thread.run_sync(discard_unused, run_dir)
        raise


async def _play(
    config: Config,
    agent: AgentSpec,
    data: Data | None,
    watcher: Watcher,
    run_dir: Path,
    command: Sequence[str],
    resume: bool,
    force: bool,
) -> Evaluation:
    begun = read_manifest(run_dir) if resume else None
    named = os.fspath(data) if isinstance(data, str | os.PathLike) else ""
    manifest = manifest_of(config, agent, named, command)
    async with Controller(
        config,
        run_dir=run_dir,
        manifest=manifest,
        resume=resume,
        on_result=watcher.on_result,
        on_message=watcher.on_message,
    ) as controller:
        if is_ready_made(agent.path):  # names no data of its own, and its reward may follow from the data
            dataset = await open_items(controller, config, AgentInfo(agent.path, True), data)
            agent = with_reward(agent, dataset.recipe, dataset.item(0).data)
            key, info = await controller.load_agent(agent)
        else:
            key, info = await controller.load_agent(agent)
            dataset = await open_items(controller, config, info, data)
        inputs = DataInfo(dataset.source, dataset.recipe, dataset.fingerprint, len(dataset), tuple(dataset.ids))
        rules = msgspec.structs.replace(
            manifest.rules,
            model=manifest.rules.model or controller.workers.model,
            model_fingerprint=await anyio.to_thread.run_sync(model_fingerprint, controller.workers.model_path),
            reward_fn=str(agent.kwargs.get("reward_fn") or ""),
        )
        manifest = msgspec.structs.replace(manifest, agent=info, data=inputs, rules=rules)
        if begun is not None:
            # Where every episode is still owed there is nothing that could be mixed with something else.
            played = any(map(stays, controller.store.results.values()))
            changed = differences(begun, manifest) if played else []
            if changed and not force:
                raise ResumeRefusedError(_refusal(controller.run_dir, changed))
            manifest = msgspec.structs.replace(
                manifest,
                run_id=begun.run_id,
                created_at=begun.created_at,
                command=begun.command,
                cwd=begun.cwd,
                forced=(*begun.forced, forced(begun, manifest, time.time())) if changed else begun.forced,
            )
        check_group_by(config.valid_dataset.group_by, dataset.raw(0), dataset.source)
        check_roles(config.roles, info)
        await controller.store.write_manifest(manifest)
        columns = config.valid_dataset.group_by or info.group_by
        debt = owed(controller.store.results, dataset.ids, config.n_samples, seed=config.seed)
        again = {(episode.item_id, episode.sample_index) for episode in debt}
        stored = counted(controller.store.results.values(), dataset.ids, config.n_samples)
        earlier = tuple(r for r in stored if (r.item_id, r.sample_index) not in again)
        if begun is None and (note := unmatched_note(dataset, info)):
            watcher.on_message(note)
        watcher.on_plan(Plan(controller.run_dir, info, dataset, config.n_samples, len(debt), earlier))
        controller.play(work_of(debt, dataset, key, columns))
        async with background() as tasks:
            tasks.start_soon(_stop_when_asked, controller, watcher)
            await controller.finished()
        summary = controller.summary(dataset.ids, info.headline)
        where, results = controller.store.run_dir, controller.store.results
        await write_summary(where, summary)
    if summary.roles:
        for role in config.roles.keys() - summary.roles.keys():
            watcher.on_message(f"No call asked for the role {role}: does the agent call model={role!r}?")
    # From here on the machines are free again; metric functions may take their time.
    cut = anyio.CancelScope()
    async with background() as tasks:
        tasks.start_soon(_cut_when_asked, cut, watcher)
        summary = await with_own(summary, where, controller.functions, watcher.on_message, cut)
    if controller.functions:
        await write_summary(where, summary)
    still_owed = owed(results, dataset.ids, config.n_samples, seed=config.seed)
    return Evaluation(
        run_dir=controller.run_dir,
        summary=summary,
        stats=stats(summary),
        complete=not still_owed,
        interrupted=watcher.stop.is_set() and (bool(still_owed) or cut.cancelled_caught),
        results=tuple(counted(results.values(), dataset.ids, config.n_samples)),
    )


async def _stop_when_asked(controller: Controller, watcher: Watcher) -> None:
    await watcher.stop.wait()
    await controller.interrupt(watcher.grace_s)


async def _cut_when_asked(scope: anyio.CancelScope, watcher: Watcher) -> None:
    await watcher.stop.wait()
    scope.deadline = anyio.current_time() + watcher.grace_s


def _refusal(run_dir: Path, changed: Sequence[str]) -> str:
    lines = "\n".join(f"  {line}" for line in changed)
    return (
        f"{run_dir} was begun with something else that decides the score, so its episodes would not be comparable:\n"
        f"{lines}\nStart a new run, or resume with --force."
    )


async def evaluate(
    agent: Any,
    data: Data | None = None,
    *,
    config: Config | None = None,
    agent_kwargs: Mapping[str, Any] | None = None,
    watcher: Watcher | None = None,
    resume: str | os.PathLike[str] | None = None,
    force: bool = False,
    **options: Any,
) -> Evaluation:
    """Evaluate an agent over a data set, as ``agentflow run`` does.

    Args:
        agent: a class, an instance, a function, a path (``agent.py:MathAgent``, ``pkg.mod.MathAgent``), or the name of
            a ready-made one (``rlvr``, ``multi-turn``, ``tools``).
        data: a path, a name, ``module:function`` or rows (mappings); the agent's own ``dataset`` when not given.
        config: a whole configuration; the defaults when not given.
        agent_kwargs: for the class's constructor.
        watcher: follows and stops the evaluation.
        resume: the directory of a run to go on with, instead of beginning one.
        force: resume although what decides the score has changed.
        options: the command line's options with underscores (``limit``, ``n_samples``, ``model``, ``base_url``,
            ``backend``, ``runners``, ``max_concurrent``, ``timeout``, ``seed``, ``shuffle``, ``api_key_env``,
            ``reward``, ``group_by``, ``item_metric``, ``run_metric``, ``prompt_column``, ``answer_column``,
            ``template``), on top of ``config``.

    Raises:
        AgentflowError: see :mod:`agentflow.errors`.
    """
    run_dir = None if resume is None else Path(resume)
    if config is None and run_dir is not None:
        config = load_config(None, base=read_manifest(run_dir).config)[0]
    if options:
        config, _ = load_config(None, overrides_of(options), base=None if config is None else config.public())
    config = config or load_config(None)[0]
    reward = {} if config.reward_fn is None else {"reward_fn": config.reward_fn}
    return await play_run(
        config,
        agent_spec(agent, {**reward, **(agent_kwargs or {})}),
        data,
        watcher=watcher,
        run_dir=run_dir,
        resume=run_dir is not None,
        force=force,
    )


def evaluate_sync(agent: Any, data: Data | None = None, **arguments: Any) -> Evaluation:
    """:func:`evaluate` for a script or a notebook without ``await``: on an event loop in a thread of its own.

    Where the run lies is the ``run_dir`` of what comes back.
    """
    with start_blocking_portal() as portal:
        return portal.call(partial(evaluate, agent, data, **arguments))
