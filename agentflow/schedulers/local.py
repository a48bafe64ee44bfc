"""The local scheduler: copies are processes of this machine, each under a guard."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

import anyio
from anyio.abc import TaskGroup

import agentflow
from agentflow.errors import SchedulerError
from agentflow.processes import guarded
from agentflow.processes.logtail import tail
from agentflow.schedulers.base import Copy, Job, State
from agentflow.schedulers.gpus import visible_gpus

GPUS = "CUDA_VISIBLE_DEVICES"
PACKAGE_ROOT = str(Path(agentflow.__file__).resolve().parent.parent)


class LocalScheduler:
    """Starts copies here and gives each its own GPUs through ``CUDA_VISIBLE_DEVICES``.

    Leaving the block stops every copy; if this process dies, the guards do.

    Args:
        n_gpus: use at most so many of the GPUs that this process may see; None: all of them.
    """

    def __init__(self, n_gpus: int | None = None) -> None:
        self._n_gpus = n_gpus
        self._gpus: tuple[str, ...] = ()
        self._free: list[str] = []
        self._copies: dict[str, Copy] = {}
        self._processes: dict[str, guarded.GuardedProcess] = {}
        self._stopping: set[str] = set()
        self._changed = anyio.Event()
        self._tasks: TaskGroup
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        try:
            self._gpus = () if self._n_gpus == 0 else (await visible_gpus(os.environ))[: self._n_gpus]
        except TimeoutError as e:
            raise SchedulerError("nvidia-smi does not answer: name the GPUs to use in CUDA_VISIBLE_DEVICES.") from e
        self._free = list(self._gpus)
        self._tasks = await self._stack.enter_async_context(anyio.create_task_group())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with anyio.CancelScope(shield=True):  # bounded: see GuardedProcess.stop
            await self.stop(tuple(self._processes))
        await self._stack.aclose()  # without the error, which a task group would wrap

    async def start(self, job: Job) -> None:
        """Start all copies now. Raises SchedulerError, before anything is started, when there are too few GPUs."""
        known = [name for name in job.copy_names if name in self._copies]
        if known:
            raise SchedulerError(f"A copy called {known[0]} has been started before: give the new job another index.")
        each = job.resources.gpus
        if each * job.copies > len(self._free):
            raise SchedulerError(
                f"{job.name} needs {each * job.copies} GPUs ({job.copies} copies of {each}), but {len(self._free)} of "
                f"the {len(self._gpus)} that we have on this machine are free: ask for fewer replicas or GPUs."
            )
        granted, self._free = self._free[: each * job.copies], self._free[each * job.copies :]
        for i, name in enumerate(job.copy_names):
            try:
                await self._start_copy(job, name, granted[i * each : (i + 1) * each])
            except BaseException:
                self._free += granted[i * each :]
                raise

    async def _start_copy(self, job: Job, name: str, gpus: Sequence[str]) -> None:
        env = {**os.environ, **added_environment(job, name, gpus), **job.secret_env}
        env["PYTHONPATH"] = python_path(env)
        try:
            job.log_dir.mkdir(parents=True, exist_ok=True)
        except OSError as e:
            raise SchedulerError(f"The log folder {job.log_dir} cannot be made: {e.strerror}.") from e
        process = await guarded.start(job.command, env=env, log=log_path(job, name))
        self._processes[name] = process
        self._copies[name] = Copy(
            name, State.RUNNING, node=os.uname().nodename, pid=process.pid, started_at=time.time()
        )
        self._tasks.start_soon(self._watch, name, process, gpus, log_path(job, name))
        self._notify()

    async def _watch(self, name: str, process: guarded.GuardedProcess, gpus: Sequence[str], log: Path) -> None:
        code = await process.wait()
        how = f"{name} {guarded.ending(code)}"
        if name in self._stopping:
            state, reason = State.EXITED, f"{how} after it was told to stop"
        elif code == 0:
            state, reason = State.EXITED, how
        else:
            last = await anyio.to_thread.run_sync(tail, log)
            state, reason = State.FAILED, f"{how}; the end of {log}:\n{last}" if last else f"{how}; {log} is empty"
        del self._processes[name]
        self._copies[name] = replace(self._copies[name], state=state, reason=reason)
        self._free += gpus
        self._notify()

    async def copies(self) -> dict[str, Copy]:
        """State of every copy ever started, by name."""
        return dict(self._copies)

    async def changed(self) -> None:
        """Wait until a copy's state has changed since the last return of this. For one listener."""
        await self._changed.wait()
        self._changed = anyio.Event()

    async def ended(self, name: str) -> None:
        """Wait until this copy and its descendants are gone."""
        if name in self._processes:
            await self._processes[name].wait()

    def _notify(self) -> None:
        self._changed.set()

    async def stop(self, names: Sequence[str], grace_s: float = guarded.GRACE_S) -> None:
        """TERM, then KILL after the grace, with all descendants; returns when they are gone."""
        async with anyio.create_task_group() as tasks:
            for name in names:
                if name in self._processes:
                    self._stopping.add(name)
                    tasks.start_soon(self._processes[name].stop, grace_s)

    def render(self, job: Job) -> str:
        """One shell command a copy, with its log; secrets by name only."""
        return "\n".join(_rendered(job, name) for name in job.copy_names)


def log_path(job: Job, name: str) -> Path:
    return job.log_dir / f"{name}.log"


def python_path(environ: Mapping[str, str]) -> str:
    """``PYTHONPATH`` with the folder of this very agentflow in front, so that a copy runs the same code."""
    folders = [f for f in environ.get("PYTHONPATH", "").split(os.pathsep) if f and f != PACKAGE_ROOT]
    return os.pathsep.join([PACKAGE_ROOT, *folders])


def added_environment(job: Job, name: str, gpus: Sequence[str]) -> dict[str, str]:
    """What a copy's environment has beyond this process's own, secrets left out. No GPUs are named by an empty list:
    a copy that asked for none must not take one that another was given."""
    return {**job.env, "AGENTFLOW_NAME": name, GPUS: ",".join(gpus)}


def _rendered(job: Job, name: str) -> str:
    shown = [f"{k}={v}" for k, v in sorted(added_environment(job, name, ()).items()) if k != GPUS]
    n_gpus = job.resources.gpus
    notes = [f"# {name}: output in {log_path(job, name)}"]
    if n_gpus:
        notes.append(f"# {name}: {n_gpus} GPU{'s' * (n_gpus > 1)} of its own through {GPUS}")
    if job.secret_env:
        notes.append(f"# {name}: secrets in its environment: {', '.join(sorted(job.secret_env))}")
    return "\n".join([*notes, shlex.join(["env", *shown, *job.command])])
