"""Copies that are steps of Slurm jobs which run already: each is an srun on this machine, kept by the local scheduler.

What this adds to the local scheduler: where a copy really runs, that it is asked to end before its srun is (an srun
that gets SIGTERM kills its step at once), and whose doing its end was.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Self

import anyio

from agentflow.errors import SchedulerError
from agentflow.processes.guarded import GRACE_S
from agentflow.schedulers import slurm_commands as slurm
from agentflow.schedulers.base import Copy, Job, Resources, State
from agentflow.schedulers.local import LocalScheduler
from agentflow.schedulers.slurm_plan import Options
from agentflow.schedulers.slurm_script import step_command
from agentflow.schedulers.slurm_states import taken_away

log = logging.getLogger(__name__)

KILL_S = 5.0  # from SIGKILL to the end of a step, on a node that obeys
SUSPECT_S = 600.0  # sites give a silent node five minutes (SlurmdTimeout); then its jobs end by themselves


@dataclass(frozen=True)
class Seat:
    """Where a step runs. ``first_gpu`` is a position among the job's GPUs on that node, ``gpus`` their number."""

    job_id: str
    node: str
    first_gpu: int = 0
    gpus: int = 0

    def overlaps(self, other: Seat) -> bool:
        """Whether both have a GPU in common."""
        return (
            self.node == other.node
            and self.first_gpu < other.first_gpu + other.gpus
            and other.first_gpu < self.first_gpu + self.gpus
        )


class Steps:
    """Starts steps, tells their state, stops them."""

    def __init__(self) -> None:
        self._clients = LocalScheduler(n_gpus=0)
        self._seats: dict[str, Seat] = {}
        self._stopping: set[str] = set()
        self._taken: dict[str, str] = {}  # why a dead step's end was not its own doing; empty: it was
        self._suspected: dict[str, float] = {}  # jobs whose node did not obey, and since when

    async def __aenter__(self) -> Self:
        await self._clients.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with anyio.CancelScope(shield=True):
            await self.stop(tuple(self._seats))
        await self._clients.__aexit__(kind, error, trace)

    async def start(self, job: Job, name: str, options: Options, seat: Seat) -> None:
        """Start one copy of the job."""
        index = job.first_index + job.copy_names.index(name)
        argv = step_command(job, name, options, job_id=seat.job_id, node=seat.node, first_gpu=seat.first_gpu)
        await self._clients.start(
            replace(job, command=argv, copies=1, first_index=index, resources=Resources())  # its own are Slurm's
        )
        self._seats[name] = seat

    async def copies(self) -> dict[str, Copy]:
        """State of every copy ever started here, by name."""
        return {name: await self._copy(copy) for name, copy in (await self._clients.copies()).items()}

    async def seats(self) -> dict[str, Seat]:
        """Where the copies that live are, by name."""
        return {n: self._seats[n] for n, c in (await self._clients.copies()).items() if c.state is State.RUNNING}

    async def _copy(self, copy: Copy) -> Copy:
        seat = self._seats[copy.name]
        copy = replace(copy, node=seat.node, pid=None)  # the pid is its srun's
        if copy.state is State.RUNNING:
            return copy
        if copy.name in self._stopping:
            return replace(copy, state=State.EXITED, reason=f"{copy.name} ended after it was told to stop")
        if copy.name not in self._taken:
            self._taken[copy.name] = taken_away(copy.reason) or await _lost(seat)
        why = self._taken[copy.name]
        return replace(copy, state=State.GONE, reason=f"{copy.name} is gone: {why}") if why else copy

    async def stop(self, names: Sequence[str], grace_s: float = GRACE_S) -> None:
        """TERM to the steps, KILL after the grace; returns when their sruns are gone."""
        living = await self.seats()
        wanted = [n for n in names if n in living]
        self._stopping.update(wanted)
        running: dict[str, str] = {}
        try:
            running = await slurm.steps(sorted({living[n].job_id for n in wanted}))
            await slurm.cancel("--signal=TERM", *(running[n] for n in wanted if n in running))
        except SchedulerError as e:
            log.warning("Steps are killed without warning: %s", e)
        async with anyio.create_task_group() as tasks:
            for name in wanted:
                tasks.start_soon(self._stop_one, name, running.get(name, ""), grace_s)

    async def _stop_one(self, name: str, step: str, grace_s: float) -> None:
        with anyio.move_on_after(grace_s):
            await self._clients.ended(name)
            return
        with anyio.move_on_after(KILL_S), suppress(SchedulerError):
            await slurm.cancel(*([step] if step else []))
            await self._clients.ended(name)
            return
        self._suspected[self._seats[name].job_id] = time.monotonic()
        await self._clients.stop([name])

    def suspected(self, job_id: str) -> bool:
        """A step of this job did not end when it was killed: its node may be gone before Slurm knows."""
        return time.monotonic() - self._suspected.get(job_id, -SUSPECT_S) < SUSPECT_S


async def _lost(seat: Seat) -> str:
    """Why a step's end is its job's or node's, as Slurm sees them now; empty where both are well."""
    try:
        row = await slurm.job_row(seat.job_id)
        if row is None or row.state != "RUNNING":
            return f"Slurm job {seat.job_id} is {row.state.lower() if row else 'unknown to Slurm'}"
        return "" if await slurm.node_is_up(seat.node) else f"node {seat.node} is down"
    except SchedulerError as e:
        return f"nobody can tell how Slurm job {seat.job_id} is ({e})"
