"""Inside a Slurm allocation (``SLURM_JOB_ID`` is set): copies are steps of it instead of jobs of their own."""

from __future__ import annotations

import logging
import os
import signal
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Self

import anyio

from agentflow.errors import SchedulerError
from agentflow.processes.guarded import GRACE_S
from agentflow.schedulers import slurm_commands as slurm
from agentflow.schedulers.base import Copy, Job
from agentflow.schedulers.slurm_plan import SlurmPlan
from agentflow.schedulers.slurm_script import rendered_step
from agentflow.schedulers.slurm_steps import Seat, Steps

log = logging.getLogger(__name__)


class AllocationScheduler:
    """Spreads copies over the nodes of the allocation; a copy's GPUs are its own.

    Before the allocation's wall time is over this process gets SIGTERM, if it listens to it: ``agentflow run`` then
    ends as after Ctrl-C, and the run can be resumed.

    Args:
        job_id: the allocation.
        environ: what Slurm says of it.
    """

    def __init__(self, plan: SlurmPlan, job_id: str, environ: Mapping[str, str] = os.environ) -> None:
        self._plan = plan
        self._job_id = job_id
        self._environ = environ
        self._nodes: list[str] = []
        self._stack = AsyncExitStack()
        self._steps = Steps()

    async def __aenter__(self) -> Self:
        self._nodes = await slurm.hosts(self._environ.get("SLURM_JOB_NODELIST", ""))
        if not self._nodes:
            raise SchedulerError(
                f"SLURM_JOB_ID is {self._job_id}, but SLURM_JOB_NODELIST names no node: start agentflow inside the "
                "allocation, or unset SLURM_JOB_ID to have jobs submitted."
            )
        row = await slurm.job_row(self._job_id)
        await self._stack.enter_async_context(self._steps)
        tasks = await self._stack.enter_async_context(anyio.create_task_group())
        self._stack.callback(tasks.cancel_scope.cancel)
        if row is not None and row.ends_at is not None:
            tasks.start_soon(self._tell_end, row.ends_at - self._plan.signal_before_s)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    async def start(self, job: Job) -> None:
        """Start all copies. Raises SchedulerError, before anything is started, when there are too few GPUs."""
        taken = (await self._steps.seats()).values()
        seats = seat_copies(job, self._job_id, self._nodes, self._gpus_per_node, taken)
        for name, seat in zip(job.copy_names, seats, strict=True):
            await self._steps.start(job, name, self._plan.options(job), seat)

    async def copies(self) -> dict[str, Copy]:
        """State of every copy ever started, by name."""
        return await self._steps.copies()

    async def stop(self, names: Sequence[str], grace_s: float = GRACE_S) -> None:
        """TERM, then KILL after the grace, with all descendants; returns when they are gone."""
        await self._steps.stop(names, grace_s)

    def render(self, job: Job) -> str:
        """The srun of each copy; secrets are in its environment."""
        where = f"of the allocation {self._job_id}"
        return "\n".join(rendered_step(job, name, self._plan.options(job), where) for name in job.copy_names)

    @property
    def _gpus_per_node(self) -> int:
        if self._plan.gpus_per_node is not None:
            return self._plan.gpus_per_node
        return int(self._environ.get("SLURM_GPUS_ON_NODE", "0"))

    async def _tell_end(self, at: float) -> None:
        await anyio.sleep(max(0.0, at - time.time()))
        log.warning("The time limit of Slurm job %s is near.", self._job_id)
        if signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
            signal.raise_signal(signal.SIGTERM)


def seat_copies(job: Job, job_id: str, nodes: Sequence[str], gpus_per_node: int, taken: Iterable[Seat]) -> list[Seat]:
    """A seat for each copy: GPUs that nobody has, else the node with the fewest copies. Pure.

    Raises:
        SchedulerError: there are not enough GPUs.
    """
    gpus, used = job.resources.gpus, list(taken)
    if not gpus:
        for _ in range(job.copies):
            node = min(nodes, key=lambda n: sum(seat.node == n for seat in used))
            used.append(Seat(job_id, node))
        return used[-job.copies :]
    all_seats = [Seat(job_id, n, first, gpus) for first in range(0, gpus_per_node - gpus + 1, gpus) for n in nodes]
    free = [seat for seat in all_seats if not any(seat.overlaps(other) for other in used)]
    if len(free) < job.copies:
        raise SchedulerError(
            f"{job.name} needs {job.copies} times {gpus} GPUs, but the allocation {job_id} has room for {len(free)} "
            f"({len(nodes)} nodes of {gpus_per_node} GPUs): ask for fewer replicas or for a larger allocation."
        )
    return free[: job.copies]
