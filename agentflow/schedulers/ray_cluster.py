"""The scheduler for Ray: each copy is the child of an actor of this process, on a node that Ray chooses.

Every copy has a placement group of its own with one bundle. A bundle lies on one node, and so do a copy's GPUs. One
group for all copies would be all or nothing: twelve replicas would wait for the last GPU, while eleven could serve.
With one bundle PACK and SPREAD are the same to Ray: it takes the node with the most free. That spreads runners and
replicas, so that a lost node takes few of them along; packing would only keep whole nodes free for replicas larger
than ours, and all replicas of a run are of one size.

What others on the cluster see: a runtime environment and the arguments of an actor's constructor are kept by the
cluster's head and shown by its dashboard; the arguments of a method go from this process to the actor's over their own
connection and are kept nowhere. So commands and secrets are arguments of a method. Whoever may run code on the cluster
as the same user can read any process's environment all the same; encrypting would only move the key along with it.
"""

from __future__ import annotations

import logging
import os
import shlex
import sys
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any, Self

import anyio
from anyio.abc import TaskGroup

from agentflow.config import Config
from agentflow.errors import SchedulerError
from agentflow.processes import guard, guarded
from agentflow.schedulers.base import Copy, Job, State
from agentflow.schedulers.local import PACKAGE_ROOT, log_path
from agentflow.schedulers.ray_link import ActorFailedError, ActorGoneError, RayLink
from agentflow.schedulers.ray_needs import (
    OWN_ENVIRONMENT,
    Node,
    bundle,
    described,
    elsewhere,
    impossible,
    missing,
    nodes_of,
    unenforced,
)

log = logging.getLogger(__name__)

START_S = 900.0  # from a copy's place on a node to its process: a runtime environment is downloaded and installed
KILLED_S = 10.0  # until Ray says that an actor which we killed is dead


@dataclass
class _Hosted:
    """A copy and what it has of Ray, while it lives."""

    job: Job
    needs: dict[str, float]
    group: Any
    actor: Any
    node_id: str = ""
    placed_at: float | None = None
    stopping: bool = False
    over: anyio.Event = field(default_factory=anyio.Event)

    @property
    def too_late(self) -> bool:
        """Ray had its time to start the actor's process, and has not."""
        if self.placed_at is None or self.node_id:
            return False
        return time.monotonic() - self.placed_at >= START_S


class RayScheduler:
    """Joins the cluster at ``scheduler.ray.address`` or ``RAY_ADDRESS``, else starts a Ray of this machine alone.

    Leaving the block stops every copy, and Ray only where it was started here. If this process dies, Ray ends its
    actors, and their guards the copies.
    """

    def __init__(self, config: Config) -> None:
        self._settings = config.scheduler.ray
        self._on_loopback = config.cluster.controller_host is None
        self._notes = unenforced(config)
        self._link = RayLink(self._settings, config.cluster.n_gpus_per_node)
        self._copies: dict[str, Copy] = {}
        self._hosted: dict[str, _Hosted] = {}
        self._tasks: TaskGroup
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        for note in self._notes:
            log.warning(note)
        await self._stack.enter_async_context(self._link)
        try:
            others = elsewhere(await self._nodes(), self._link.address)
            if self._on_loopback and others:
                raise SchedulerError(
                    f"The Ray cluster has nodes on other machines ({', '.join(others[:3])}), which do not reach a "
                    f"controller on loopback: set cluster.controller_host={self._link.address}, or another address of "
                    "this machine that they reach."
                )
            self._tasks = await self._stack.enter_async_context(anyio.create_task_group())
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with anyio.CancelScope(shield=True):  # bounded: see stop
            await self.stop(tuple(self._hosted))
        self._tasks.cancel_scope.cancel()  # of an actor that Ray does not say is dead
        await self._stack.aclose()  # without the error, which a task group would wrap

    async def start(self, job: Job) -> None:
        """Queue all copies with Ray. Raises SchedulerError when its nodes could not hold them if all were free."""
        if known := [name for name in job.copy_names if name in self._copies]:
            raise SchedulerError(f"A copy called {known[0]} has been started before: give the new job another index.")
        needs = bundle(job.resources)
        if why := impossible(job.name, job.copies, needs, await self._nodes()):
            raise SchedulerError(why)
        try:
            job.log_dir.mkdir(parents=True, exist_ok=True)
        except OSError as e:
            raise SchedulerError(f"The log folder {job.log_dir} cannot be made: {e.strerror}.") from e
        for name in job.copy_names:
            with anyio.CancelScope(shield=True):  # short; what is made must be known, to be stopped
                group, actor = await self._link.call(self._link.create_actor, needs)
            self._copies[name] = Copy(name, State.PENDING)
            self._hosted[name] = _Hosted(job, needs, group, actor)
            self._tasks.start_soon(self._live, name, self._hosted[name])

    async def copies(self) -> dict[str, Copy]:
        """State of every copy ever started, by name; of those that wait, what they wait for."""
        await self._look_at_waiting()
        return dict(self._copies)

    async def stop(self, names: Sequence[str], grace_s: float = guarded.GRACE_S) -> None:
        """TERM, then KILL after the grace, with all descendants; returns when they are gone."""
        async with anyio.create_task_group() as tasks:
            for name in names:
                if name in self._hosted:
                    tasks.start_soon(self._stop, name, self._hosted[name], grace_s)

    def render(self, job: Job) -> str:
        """One shell command a copy, with what its actor asks for; secrets by name only."""
        return "\n".join([*(f"# {note}" for note in self._notes), *(_rendered(job, name) for name in job.copy_names)])

    # --- one copy ---

    async def _live(self, name: str, hosted: _Hosted) -> None:
        """From the queue to the end, whoever brings it about."""
        try:
            try:
                state, reason = await self._run(name, hosted)
            except ActorGoneError as e:
                state, reason = await self._loss(name, hosted, str(e))
        except ActorFailedError as e:
            state, reason = State.FAILED, f"{name} cannot be started: {e}."
        except SchedulerError as e:
            state, reason = State.GONE, f"{name} is gone with Ray itself. {e}"
        self._copies[name] = replace(self._copies[name], state=state, reason=reason)
        await self._release(hosted)
        del self._hosted[name]
        hosted.over.set()

    async def _run(self, name: str, hosted: _Hosted) -> tuple[State, str]:
        job, output = hosted.job, log_path(hosted.job, name).absolute()
        own_python = any(key in self._settings.runtime_env for key in OWN_ENVIRONMENT)
        folders = [] if own_python else [PACKAGE_ROOT]
        env = {**job.env, "AGENTFLOW_NAME": name}
        env["PYTHONPATH"] = os.pathsep.join(filter(None, [*folders, job.env.get("PYTHONPATH", "")]))
        hosted.node_id, node, pid, started_at, trouble = await self._link.ask(
            hosted.actor.start,
            list(job.command),
            env,
            dict(job.secret_env),
            log=str(output),
            folder="" if "working_dir" in self._settings.runtime_env else os.getcwd(),
            python=sys.executable,
            own_python=own_python,
            guard=guard.__file__,
        )
        self._copies[name] = Copy(name, State.RUNNING, node=node, pid=pid, started_at=started_at)
        where = f"the end of {output}"
        if trouble:
            where = f"the end of its output ({output} cannot be written on {node}: {trouble})"
            log.warning(
                "%s cannot write %s on %s (%s), so only its last lines are kept, by its actor: let cluster.fileroot "
                "name a folder that all nodes share.", name, output, node, trouble,
            )  # fmt: skip
        code, last = await self._link.ask(hosted.actor.wait)
        how = f"{name} {guarded.ending(code)}"
        if hosted.stopping:
            return State.EXITED, f"{how} after it was told to stop"
        if code == 0:
            return State.EXITED, how
        return State.FAILED, f"{how}; {where}:\n{last}" if last else f"{how}; {where} is empty"

    async def _loss(self, name: str, hosted: _Hosted, words: str) -> tuple[State, str]:
        node = self._copies[name].node
        if hosted.stopping:
            return State.EXITED, f"{name} was stopped with its actor"
        if hosted.too_late:
            return State.FAILED, f"{name} had a place on {node}, but Ray started no process there in {START_S:.0f} s"
        if hosted.node_id and hosted.node_id not in {n.id for n in await self._nodes()}:
            return State.GONE, f"{name} is gone with its node {node}, which died or left the Ray cluster"
        return State.GONE, f"{name} is gone with its actor{f' on {node}' if node else ''}: {words}"

    async def _stop(self, name: str, hosted: _Hosted, grace_s: float) -> None:
        hosted.stopping = True
        if self._copies[name].state is State.RUNNING:
            with (
                anyio.move_on_after(grace_s + guarded.MARGIN_S),
                suppress(ActorFailedError, ActorGoneError, SchedulerError),
            ):
                await self._link.ask(hosted.actor.stop, grace_s)
                await hosted.over.wait()
                return
        await self._release(hosted)
        with anyio.move_on_after(KILLED_S):
            await hosted.over.wait()

    async def _look_at_waiting(self) -> None:
        waiting = {n: h for n, h in self._hosted.items() if self._copies[n].state is State.PENDING}
        if not waiting:
            return
        places, free, total = await self._link.call(self._link.places, {n: h.group for n, h in waiting.items()})
        for name, hosted in waiting.items():
            reason = missing(hosted.needs, free, total)
            if places[name]:
                reason = f"has a place on {places[name]}, where its process is being started"
                if hosted.too_late:
                    await self._release(hosted)
                hosted.placed_at = hosted.placed_at or time.monotonic()
            if self._copies[name].state is State.PENDING:  # still
                self._copies[name] = Copy(name, State.PENDING, f"{name} {reason}", places[name])

    async def _release(self, hosted: _Hosted) -> None:
        with suppress(SchedulerError):  # Ray is gone, and its actors with it
            await self._link.call(self._link.release, hosted.group, hosted.actor)

    async def _nodes(self) -> list[Node]:
        return nodes_of(await self._link.call(self._link.nodes))


def _rendered(job: Job, name: str) -> str:
    notes = [
        f"# {name}: output in {log_path(job, name)}",
        f"# {name}: child of an actor on a node with {described(bundle(job.resources))} free",
    ]
    if job.secret_env:
        notes.append(f"# {name}: secrets in its environment: {', '.join(sorted(job.secret_env))}")
    shown = [f"{k}={v}" for k, v in sorted({**job.env, "AGENTFLOW_NAME": name}.items())]
    return "\n".join([*notes, shlex.join(["env", *shown, *job.command])])
