"""One submitted job: what is known of it and of its copies."""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

import anyio

from agentflow.errors import SchedulerError
from agentflow.processes.logtail import tail
from agentflow.schedulers import slurm_commands as slurm
from agentflow.schedulers.base import Copy, State
from agentflow.schedulers.slurm_states import QUEUED, REQUEUED, Row, impossible, judge

NEVER_S = 30.0  # some of the reasons that nothing removes show for a moment while nodes or partitions change
LIVING = (State.PENDING, State.RUNNING)


class Batch:
    """A job, its copies by name, and its row in the queue when it was last seen there.

    Args:
        signal_before_s: how long before its time limit it is told to end.
    """

    def __init__(self, job_id: str, names: Sequence[str], log_dir: Path, signal_before_s: float) -> None:
        self.job_id = job_id
        self.copies = {name: Copy(name, State.PENDING) for name in names}
        self.row: Row | None = None
        self._log_dir = log_dir
        self._signal_before_s = signal_before_s
        self._told_to_end_at = math.inf
        self._submitted_at = time.time()
        self._impossible_since: float | None = None

    @property
    def living(self) -> list[str]:
        """Names of the copies that wait or run."""
        return [name for name, copy in self.copies.items() if copy.state in LIVING]

    @property
    def over(self) -> bool:
        """Nothing of it lives, or can come back by being requeued."""
        return not self.living and (self.row is None or self.row.state not in QUEUED | REQUEUED)

    @property
    def waits(self) -> bool:
        """Nothing of it runs yet."""
        return all(copy.state is State.PENDING for copy in self.copies.values())

    @property
    def runs_on(self) -> str:
        """The node where steps can join it; empty where it does not run."""
        return self.row.node if self.row is not None and self.row.state == "RUNNING" and self.living else ""

    async def update(self, row: Row | None, stopping: Collection[str]) -> None:
        """Take note of what Slurm shows of it now (None: nothing).

        Args:
            stopping: names of copies that were told to stop.

        Raises:
            SchedulerError: it can never start, or Slurm does not answer.
        """
        if row is None and self.row is not None:
            row = await slurm.accounted(self.job_id)
        elif row is not None and row.state == "FAILED" and not row.exits.keys() >= set(self.living):
            row = replace(row, exit_code=await slurm.exit_code(self.job_id))
        self._refuse_impossible(row)
        if row is not None and row.state == "RUNNING" and row.ends_at is not None:
            self._told_to_end_at = row.ends_at - self._signal_before_s
        judged = judge(
            self.job_id,
            self.copies,
            row,
            now=time.time(),
            submitted_at=self._submitted_at,
            told_to_end_at=self._told_to_end_at,
        )
        for name, copy in judged.items():
            if self.copies[name].state in LIVING and copy.state not in LIVING:
                judged[name] = await self._explained(copy, name in stopping)
        self.copies, self.row = judged, row  # only now: nobody sees a death before its reason
        if row is not None and not self.living and row.state in QUEUED | REQUEUED:
            await slurm.cancel(self.job_id)  # requeued: its copies have been given up and must not come back

    def _refuse_impossible(self, row: Row | None) -> None:
        if row is None or not impossible(row):
            self._impossible_since = None
            return
        self._impossible_since = self._impossible_since or time.monotonic()
        if time.monotonic() - self._impossible_since >= NEVER_S:
            raise SchedulerError(
                f"Slurm job {self.job_id} of {', '.join(self.living)} can never start ({row.reason}): ask for what "
                "the partition, the account and the nodes allow, in scheduler.slurm and rollout.scheduling_spec."
            )

    async def _explained(self, copy: Copy, stopped: bool) -> Copy:
        if stopped:
            return replace(copy, state=State.EXITED, reason=f"{copy.name} ended after it was told to stop")
        if copy.state is not State.FAILED:
            return copy
        for path in (self._log_dir / f"{copy.name}.log", self._log_dir / f"slurm-{self.job_id}.log"):
            if last := await anyio.to_thread.run_sync(tail, path):
                return replace(copy, reason=f"{copy.reason}; the end of {path}:\n{last}")
        hint = f"there is no output: is {self._log_dir} on a file system that {copy.node or 'its node'} shares?"
        return replace(copy, reason=f"{copy.reason}; {hint}")
