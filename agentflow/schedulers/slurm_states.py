"""What Slurm says of a job, and what that means for its copies. Pure.

A copy's own exit code is in its job's comment, where the script puts it (``worker-0=1 worker-1=0``). A job that ends
for another reason takes its copies along, and that is never held against them: they are ``gone``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from agentflow.processes.guarded import ending
from agentflow.schedulers.base import Copy, State

QUEUE_FORMAT = "%i|%T|%r|%N|%S|%e|%k"
TIME_FORMAT = {"SLURM_TIME_FORMAT": "%s"}  # environment of squeue: seconds since the epoch
UNSEEN_S = 60.0  # squeue may not show a job at once that sbatch has just accepted
SIGNAL_EARLY_S = 60.0  # so much before its time Slurm may send a job's signal

QUEUED = {"PENDING", "CONFIGURING"}
REQUEUED = {"REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT"}
RUNNING = {"RUNNING", "SUSPENDED", "STOPPED", "SIGNALING", "RESIZING", "STAGE_OUT", "COMPLETING"}
OWN_END = {"COMPLETED", "FAILED", "OUT_OF_MEMORY"}
TAKEN_AWAY = {
    "CANCELLED": "was cancelled, not by this run",
    "TIMEOUT": "reached its time limit",
    "DEADLINE": "reached its deadline",
    "PREEMPTED": "was preempted",
    "NODE_FAIL": "lost its node",
    "BOOT_FAIL": "got a node that did not boot",
    "LAUNCH_FAILED": "could not be launched on its node",
    "RECONFIG_FAIL": "got a node that could not be configured",
    "REVOKED": "was moved to another cluster",
}
# Reasons of a pending job that no waiting removes.
NEVER = re.compile(
    r"BadConstraints|PartitionConfig|PartitionNodeLimit|PartitionTimeLimit|InvalidAccount|InvalidQOS|QOSNotAllowed"
    r"|DependencyNeverSatisfied|(?:Assoc|QOS)Max\w+PerJob(?:Limit)?"
)


@dataclass(frozen=True)
class Row:
    """One job as squeue (or sacct) shows it.

    Args:
        ends_at: when its time limit is over or, once it has ended, when it did; None where there is no limit.
        exits: exit codes of copies that have ended, by name.
        exit_code: of the whole job, where it is known.
    """

    state: str
    reason: str = ""
    node: str = ""
    started_at: float | None = None
    ends_at: float | None = None
    exits: Mapping[str, int] = field(default_factory=dict)
    exit_code: int | None = None

    @property
    def unfinished(self) -> bool:
        """Waits, runs, or is being ended."""
        return self.state in QUEUED | REQUEUED | RUNNING


def parse_queue(text: str) -> dict[str, Row]:
    """Rows of ``squeue -h -t all -o QUEUE_FORMAT`` by job id; lines of another shape are skipped."""
    rows = {}
    for line in text.splitlines():
        fields = line.split("|", 6)
        if len(fields) != 7:
            continue
        job_id, state, reason, node, started, ends, comment = fields
        rows[job_id] = Row(
            state,
            "" if reason == "None" else reason,
            "" if node == "(null)" else node,
            _number(started),
            _number(ends),
            {name: int(code) for name, code in re.findall(r"(\S+)=(\d+)", comment)},
        )
    return rows


def parse_exit_code(text: str) -> int | None:
    """Exit code in ``scontrol -o show job`` (``ExitCode=3:0``) or sacct (``3:0``), as a shell has it."""
    match = re.search(r"(?:^|\bExitCode=)(\d+):(\d+)", text)
    if match is None:
        return None
    code, number = int(match[1]), int(match[2])
    return 128 + number if number else code


def parse_account(text: str) -> Row | None:
    """The first line of ``sacct -n -P -X -o State,ExitCode,NodeList``; None without one."""
    fields = text.split("\n", 1)[0].split("|")
    if len(fields) != 3 or not fields[0]:
        return None
    state = fields[0].split()[0]  # CANCELLED by 1000
    return Row(state, node=fields[2], exit_code=parse_exit_code(fields[1]))


def parse_steps(text: str) -> dict[str, str]:
    """Rows of ``squeue -h -s -o '%i|%j'``: step id by step name."""
    return {name: step for step, _, name in (line.partition("|") for line in text.splitlines()) if name}


def impossible(row: Row) -> bool:
    """Whether a pending job can never start."""
    return row.state in QUEUED and NEVER.fullmatch(row.reason) is not None


def judge(
    job_id: str, known: Mapping[str, Copy], row: Row | None, *, now: float, submitted_at: float, told_to_end_at: float
) -> dict[str, Copy]:
    """State of a job's copies, by what it was before and what Slurm shows now. The dead stay dead.

    Args:
        known: the copies as they were judged last.
        row: None where Slurm does not show the job.
        now: seconds since the epoch, as are the next two.
        submitted_at: when sbatch accepted it.
        told_to_end_at: when its copies get SIGTERM because its time limit is near; infinite where it has none.
    """
    ran = any(c.state is not State.PENDING for c in known.values())
    return {
        name: copy
        if copy.state not in (State.PENDING, State.RUNNING)
        else _judge(job_id, copy, row, ran, now, submitted_at, told_to_end_at)
        for name, copy in known.items()
    }


def _judge(
    job_id: str, copy: Copy, row: Row | None, ran: bool, now: float, submitted_at: float, told_to_end_at: float
) -> Copy:
    job = f"Slurm job {job_id}"
    if row is None:
        if not ran and now - submitted_at < UNSEEN_S:
            return replace(copy, reason=f"{job} was submitted, and squeue does not show it yet")
        return replace(copy, state=State.GONE, reason=f"{copy.name} is gone: Slurm does not know job {job_id} any more")
    copy = replace(copy, node=row.node or copy.node, started_at=row.started_at if row.node else copy.started_at)
    if row.state in REQUEUED or (row.state in QUEUED and ran):
        return replace(copy, state=State.GONE, reason=f"{copy.name} is gone: {job} was requeued")
    if row.state in QUEUED:
        return replace(copy, reason=f"{job} waits for {row.reason or 'its turn'}")
    if row.state in TAKEN_AWAY:
        return replace(copy, state=State.GONE, reason=f"{copy.name} is gone: {job}{_on(row)} {TAKEN_AWAY[row.state]}")
    code = row.exits.get(copy.name)
    if row.state == "COMPLETING" or (row.state not in OWN_END and code is None):
        # While it completes nobody says why: what it was cancelled or failed for shows when it is through.
        return replace(copy, state=State.RUNNING, reason=f"{job} is {row.state.lower()}" * (row.state != "RUNNING"))
    if now > told_to_end_at - SIGNAL_EARLY_S:
        return replace(copy, state=State.GONE, reason=f"{copy.name} ended because the time limit of {job} is near")
    if row.state == "OUT_OF_MEMORY":
        why = f"{job} used more memory than it has"
        return replace(copy, state=State.FAILED, reason=f"{copy.name} was killed{_on(row)}: {why}")
    if code is None:
        code = row.exit_code if row.state == "FAILED" else 0
    if code == 0:
        return replace(copy, state=State.EXITED, reason=f"{copy.name} exited with code 0")
    how = "failed" if code is None else how_it_ended(code)
    return replace(copy, state=State.FAILED, reason=f"{copy.name} {how} in {job}{_on(row)}")


def how_it_ended(code: int) -> str:
    """In words, an exit code as srun and shells have it: above 128 it was a signal."""
    return ending(code if code <= 128 else 128 - code)


def taken_away(log_tail: str) -> str:
    """Why a step was ended from outside, where srun's own last lines say so; else empty."""
    lines: Sequence[str] = re.findall(
        r"^(?:srun|slurmstepd\S*): (?:error: )?(.*(?:CANCELLED AT|Node failure|NODE FAILURE|job credential).*)$",
        log_tail,
        re.MULTILINE,
    )
    return lines[-1].strip("* ") if lines else ""


def _on(row: Row) -> str:
    return f" on {row.node}" if row.node else ""


def _number(text: str) -> float | None:
    return float(text) if text.isdigit() else None
