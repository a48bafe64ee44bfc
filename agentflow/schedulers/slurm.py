"""The Slurm scheduler: copies are steps of jobs that it submits, one node a job.

Liveness is the copies' own sockets; what is asked here is why a copy waits or what ended it. All jobs of a run have
one name, which no other job has: one squeue shows them all, one scancel ends them all. A watchman does the latter when
this process dies, whatever kills it; if this whole machine dies, the copies end themselves when their channel stays
closed, and their jobs end with them.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Self

import anyio

from agentflow.errors import AgentflowError, SchedulerError
from agentflow.processes.guarded import GRACE_S
from agentflow.schedulers import slurm_commands as slurm
from agentflow.schedulers.base import Copy, Job, State
from agentflow.schedulers.slurm_batch import Batch
from agentflow.schedulers.slurm_plan import SlurmPlan
from agentflow.schedulers.slurm_script import batch_script, packs, rendered_step, secrets_file, signal_seconds
from agentflow.schedulers.slurm_steps import Seat, Steps
from agentflow.schedulers.slurm_watchman import Watchman

log = logging.getLogger(__name__)

LOOK_S = 3.0  # slurmctld serves the whole site
LOOK_WHILE_STOPPING_S = 0.5
OUTAGE_S = 300.0  # a restart of slurmctld takes seconds, an upgrade minutes
LEAVE_S = 60.0  # Slurm kills 30 s (KillWait) after TERM
RIDE_CPUS = 1  # for the runners in a job of CPU engines; a GPU's share of cores, asked for in full, has room for them


@dataclass
class _Rider:
    """A copy that waits for a seat in one of our jobs."""

    job: Job
    name: str
    copy: Copy = field(init=False)

    def __post_init__(self) -> None:
        self.copy = Copy(self.name, State.PENDING, f"{self.name} waits for a worker's job to start")


class SlurmScheduler:
    """Submits jobs, each with as many copies as a node takes; runners ride along in the workers' jobs if so planned.

    Leaving the block ends every job. Raises SchedulerError on entering where Slurm does not answer.
    """

    def __init__(self, plan: SlurmPlan) -> None:
        self._plan = plan
        self._batches: list[Batch] = []
        self._riders: dict[str, _Rider] = {}
        self._dismissed: dict[str, Copy] = {}  # riders that were stopped before they had a seat
        self._stopping: set[str] = set()
        self._steps = Steps()
        self._watchman = Watchman(plan.name)
        self._looking = anyio.Lock()
        self._look_now = anyio.Event()
        self._looked_at = 0.0
        self.trouble: SchedulerError | None = None  # why the last look failed
        self._failure: SchedulerError | None = None  # for good
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        for warning in self._plan.warnings:
            log.warning(warning)
        await self._look()
        if self.trouble is not None:
            raise self.trouble
        await self._stack.enter_async_context(self._steps)
        tasks = await self._stack.enter_async_context(anyio.create_task_group())
        self._stack.callback(tasks.cancel_scope.cancel)
        tasks.start_soon(self._keep_looking)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with anyio.CancelScope(shield=True):
            if self._watchman.on_duty:
                await self._end_jobs()
                await self._watchman.dismiss()
        await self._stack.aclose()

    async def start(self, job: Job) -> None:
        """Submit all copies, or have them ride along.

        Raises:
            SchedulerError: Slurm refuses a job, or the nodes asked for have too few GPUs.
            ConfigError: the job cannot be written as a script.
        """
        if known := (await self.copies()).keys() & set(job.copy_names):
            raise SchedulerError(f"A copy called {min(known)} has been started before: give the new job another index.")
        if job.rides_along and self._plan.ride:
            self._riders |= {name: _Rider(job, name) for name in job.copy_names}
        else:
            self._check_gpus(job)
            scripts = {pack: self._script(job, pack) for pack in self._packs(job)}
            await self._watchman.keep(self._secrets(job), secrets_file(job.secret_env))
            before_s = signal_seconds(self._plan.options(job).sbatch, self._plan.signal_before_s)
            for pack, script in scripts.items():
                job_id = await slurm.submit(script, OUTAGE_S)
                self._batches.append(Batch(job_id, pack, job.log_dir, before_s))
        self._look_now.set()

    async def copies(self) -> dict[str, Copy]:
        """State of every copy ever started, by name.

        Raises:
            SchedulerError: a job can never start, or Slurm has not answered for too long.
        """
        if self._failure is not None:
            raise self._failure
        if self.trouble is not None and time.monotonic() - self._looked_at > OUTAGE_S:
            raise SchedulerError(f"Slurm has not answered for {OUTAGE_S / 60:.0f} minutes: {self.trouble}")
        waiting = {r.name: r.copy for r in self._riders.values()}
        submitted = {name: copy for batch in self._batches for name, copy in batch.copies.items()}
        return {**submitted, **self._dismissed, **waiting, **await self._steps.copies()}

    async def stop(self, names: Sequence[str], grace_s: float = GRACE_S) -> None:
        """TERM, then KILL after the grace, with all descendants: the steps, or the jobs that hold no other copy."""
        self._stopping.update(names)
        for name in self._riders.keys() & set(names):
            rider = self._riders.pop(name)
            self._dismissed[name] = replace(rider.copy, state=State.EXITED, reason=f"{name} was not needed any more")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._steps.stop, names, grace_s)
            tasks.start_soon(self._stop_submitted, set(names), grace_s)

    def render(self, job: Job) -> str:
        """The sbatch scripts, one of each size, or the srun of what rides along; secrets by name only."""
        notes = [f"# {warning}" for warning in self._plan.warnings]
        if job.rides_along and self._plan.ride:
            where = "of a worker's job, when one runs"
            return "\n".join([rendered_step(job, name, self._plan.runners, where) for name in job.copy_names])
        alike: dict[int, list[tuple[str, ...]]] = {}
        try:
            self._check_gpus(job)
            for pack in self._packs(job):
                alike.setdefault(len(pack), []).append(pack)
        except AgentflowError as e:
            notes.append(f"# {e}")
        for first, *others in alike.values():
            notes += [f"# the same for {' '.join(other)}" for other in others]
            notes.append(self._script(job, first))
        return "\n".join(notes)

    # --- what is asked for ---

    def _packs(self, job: Job) -> list[tuple[str, ...]]:
        exclusive = self._plan.options(job).exclusive
        return packs(job, self._plan.gpus_per_node, self._plan.n_nodes or 1, exclusive)

    def _check_gpus(self, job: Job) -> None:
        plan, wanted = self._plan, job.copies * job.resources.gpus
        if plan.n_nodes is not None and plan.gpus_per_node and wanted > plan.n_nodes * plan.gpus_per_node:
            raise SchedulerError(
                f"{job.name} needs {wanted} GPUs ({job.copies} copies of {job.resources.gpus}), but cluster.n_nodes = "
                f"{plan.n_nodes} nodes of {plan.gpus_per_node} have fewer: ask for more nodes or fewer replicas."
            )

    def _script(self, job: Job, pack: Sequence[str]) -> str:
        return batch_script(
            self._plan.name,
            job,
            pack,
            self._plan.options(job),
            secrets=self._secrets(job) if job.secret_env else None,
            spare_cpus=RIDE_CPUS if self._plan.ride and not job.resources.gpus else 0,
            signal_before_s=self._plan.signal_before_s,
        )

    def _secrets(self, job: Job) -> Path:
        return job.log_dir.absolute() / f".{self._plan.name}" / f"{job.name}.env"

    # --- what has become of it ---

    async def _keep_looking(self) -> None:
        while True:
            self._look_now = anyio.Event()
            try:
                await self._look()
                await self._seat_riders()
            except SchedulerError as e:
                self._failure = self._failure or e
            with anyio.move_on_after(LOOK_S):
                await self._look_now.wait()

    async def _look(self) -> None:
        async with self._looking:
            try:
                rows = await slurm.queue(self._plan.name)
                for batch in self._batches:
                    if not batch.over:
                        await batch.update(rows.get(batch.job_id), self._stopping)
            except slurm.SlurmDownError as e:
                self.trouble = e
            else:
                self.trouble, self._looked_at = None, time.monotonic()

    async def _seat_riders(self) -> None:
        hosts = {b.job_id: b.runs_on for b in self._batches if b.runs_on and not self._steps.suspected(b.job_id)}
        taken = [seat.job_id for seat in (await self._steps.seats()).values()]
        for rider in list(self._riders.values()) if hosts else []:
            host = min(hosts, key=taken.count)
            taken.append(host)
            await self._steps.start(rider.job, rider.name, self._plan.runners, Seat(host, hosts[host]))
            if self._riders.pop(rider.name, None) is None:  # stopped in the meantime
                await self._steps.stop([rider.name])

    # --- the end of it ---

    async def _stop_submitted(self, names: set[str], grace_s: float) -> None:
        batches = [b for b in self._batches if names & set(b.living)]
        whole = [b for b in batches if names >= set(b.living)]
        waiting = [b.job_id for b in whole if b.waits]
        try:
            steps = await slurm.steps([b.job_id for b in batches if b not in whole])
            targets = [b.job_id for b in whole if b.job_id not in waiting] + [steps[n] for n in names & steps.keys()]
            await slurm.cancel("--signal=TERM", *targets)
            await slurm.cancel(*waiting)
            with anyio.move_on_after(grace_s):
                await self._until_dead(batches, names)
                return
            await slurm.cancel(*targets)
        except SchedulerError as e:
            log.warning("%s may go on running: %s", ", ".join(sorted(names)), e)

    async def _until_dead(self, batches: Sequence[Batch], names: set[str]) -> None:
        while any(names & set(b.living) for b in batches):
            await self._look()
            await anyio.sleep(LOOK_WHILE_STOPPING_S)

    async def _end_jobs(self) -> None:
        trouble = "they do not end"
        try:
            with anyio.move_on_after(LEAVE_S):
                await slurm.cancel(f"--name={self._plan.name}")
                while any(r.unfinished for r in (await slurm.queue(self._plan.name)).values()):  # noqa: ASYNC110 - no events
                    await anyio.sleep(LOOK_WHILE_STOPPING_S)
                trouble = ""
        except SchedulerError as e:
            trouble = str(e)
        if trouble:
            log.warning("Jobs may be left (%s): see squeue --name=%s", trouble, self._plan.name)
