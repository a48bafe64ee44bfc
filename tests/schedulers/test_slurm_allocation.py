"""Inside an allocation copies are steps of it: on a real Slurm."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from processes import alive, family, pids, wait_gone
from slurm_cluster import dead, running, slurm, wait_until

from agentflow.errors import SchedulerError
from agentflow.schedulers.base import Job, Resources, Scheduler, State
from agentflow.schedulers.slurm_allocation import AllocationScheduler, seat_copies
from agentflow.schedulers.slurm_plan import SlurmPlan
from agentflow.schedulers.slurm_steps import Seat

TRAP = "trap 'echo told to end; exit 0' TERM"
LOOP = "while :; do sleep 0.1; done"
FOREVER = f"{TRAP}; {LOOP}"


def job(tmp_path: Path, *command: str, copies: int = 1, gpus: int = 0, **more: Any) -> Job:
    return Job("job", command, copies, tmp_path, Resources(1, gpus), **more)


def test_copies_with_gpus_take_seats_that_nobody_has(tmp_path: Path) -> None:
    taken = [Seat("7", "n1", 0, 2), Seat("7", "n2", 0, 0)]  # the second one has no GPUs
    seats = seat_copies(job(tmp_path, "x", copies=3, gpus=2), "7", ["n1", "n2"], 4, taken)
    assert seats == [Seat("7", "n2", 0, 2), Seat("7", "n1", 2, 2), Seat("7", "n2", 2, 2)]
    with pytest.raises(
        SchedulerError, match=r"needs 4 times 2 GPUs, but the allocation 7 has room for 3 \(2 nodes of 4"
    ):
        seat_copies(job(tmp_path, "x", copies=4, gpus=2), "7", ["n1", "n2"], 4, taken)


def test_copies_without_gpus_are_spread_over_the_nodes(tmp_path: Path) -> None:
    taken = [Seat("7", "n1"), Seat("7", "n1", 0, 4)]
    seats = seat_copies(job(tmp_path, "x", copies=4), "7", ["n1", "n2"], 4, taken)
    assert [s.node for s in seats] == ["n2", "n2", "n1", "n2"]


@pytest.fixture
def allocation(tmp_path: Path) -> Iterator[str]:
    """A job of two nodes that runs nothing of its own."""
    name = f"test-{tmp_path.name}-{os.getpid()}"
    argv = [
        "salloc",
        "--no-shell",
        "--nodes=2",
        "--ntasks-per-node=1",
        "--gres=gpu:4",
        "--time=60",
        f"--job-name={name}",
    ]
    subprocess.run(argv, check=True, timeout=60, capture_output=True)
    (job_id,) = slurm("squeue", "-h", f"--name={name}", "-o", "%i").split()
    yield job_id
    slurm("scancel", job_id)
    wait_until(lambda: not slurm("squeue", "-h", f"--name={name}", "-o", "%i"), "the end of the allocation")


def environ(job_id: str) -> dict[str, str]:
    return {"SLURM_JOB_NODELIST": slurm("squeue", "-h", "-j", job_id, "-o", "%N").strip(), "SLURM_GPUS_ON_NODE": "4"}


def scheduler(job_id: str, **plan: Any) -> AllocationScheduler:
    return AllocationScheduler(SlurmPlan("unused", **plan), job_id, environ(job_id))


@pytest.mark.slurm
@pytest.mark.asyncio
async def test_steps_of_the_allocation_have_their_own_nodes_gpus_and_logs(tmp_path: Path, allocation: str) -> None:
    # It can be told to end once it has said something.
    show = f'{TRAP}; echo "$AGENTFLOW_NAME: job $SLURM_JOB_ID gpus $CUDA_VISIBLE_DEVICES token $TOKEN"; {LOOP}'
    async with scheduler(allocation) as ours:
        checked: Scheduler = ours  # it is one
        await checked.start(job(tmp_path, "sh", "-c", show, copies=4, gpus=2, secret_env={"TOKEN": "s"}))
        copies = await running(ours, *(f"job-{i}" for i in range(4)))
        logs = [tmp_path / f"job-{i}.log" for i in range(4)]
        wait_until(lambda: all(log.exists() and "token s\n" in log.read_text() for log in logs), "all of their words")
        words = [re.search(r"^(\S+): job (\d+) gpus (\S+) token s$", log.read_text(), re.MULTILINE) for log in logs]
        said = [w.groups() for w in words if w is not None]
        assert [(name, job_id) for name, job_id, _ in said] == [(c.name, allocation) for c in copies]
        places = {(c.node, gpus) for c, (_, _, gpus) in zip(copies, said, strict=True)}
        assert len(places) == 4
        assert {gpus for _, gpus in places} == {"0,1", "2,3"}
        with pytest.raises(SchedulerError, match="has room for 0"):
            await ours.start(job(tmp_path, "true", gpus=1, first_index=4))
        await ours.stop(["job-1"], grace_s=30)
        (copy,) = await dead(ours, "job-1")
        assert copy.state is State.EXITED
        assert "told to end" in logs[1].read_text()
        await ours.start(job(tmp_path, "sh", "-c", show, gpus=2, first_index=4))
        (replacement,) = await running(ours, "job-4")
        assert replacement.node == copy.node
    assert slurm("squeue", "-h", "-j", allocation, "-o", "%T").strip() == "RUNNING", "the allocation is not ours to end"
    assert slurm("squeue", "-h", "-s", "-j", allocation, "-o", "%j").split() in ([], ["extern"])


@pytest.mark.slurm
@pytest.mark.asyncio
async def test_a_step_that_fails_is_told_with_its_code_and_one_that_was_cancelled_is_gone(
    tmp_path: Path, allocation: str
) -> None:
    async with scheduler(allocation) as ours:
        await ours.start(job(tmp_path, "sh", "-c", f"[ $AGENTFLOW_NAME = job-0 ] && exit 5; {FOREVER}", copies=2))
        (bad,) = await dead(ours, "job-0")
        assert bad.state is State.FAILED
        assert "job-0 exited with code 5" in bad.reason
        await running(ours, "job-1")
        steps = slurm("squeue", "-h", "-s", "-j", allocation, "-o", "%i|%j").split()
        (step,) = [s.split("|")[0] for s in steps if s.endswith("|job-1")]
        slurm("scancel", step)
        (gone,) = await dead(ours, "job-1")
        assert gone.state is State.GONE


@pytest.mark.slurm
@pytest.mark.asyncio
async def test_leaving_the_block_leaves_no_process_of_the_allocations_steps(tmp_path: Path, allocation: str) -> None:
    async with scheduler(allocation) as ours:
        await ours.start(job(tmp_path, *family(tmp_path / "pids")))
        everyone = await anyio.to_thread.run_sync(pids, tmp_path / "pids")
    wait_gone(everyone)


CONTROLLER = """
import sys, anyio, signal
from pathlib import Path
from agentflow.schedulers.base import Job
from agentflow.schedulers.slurm_allocation import AllocationScheduler
from agentflow.schedulers.slurm_plan import SlurmPlan
async def main():
    folder, job_id, nodes, before, *command = sys.argv[1:]
    with anyio.open_signal_receiver(signal.SIGTERM) as signals:
        plan = SlurmPlan("unused", signal_before_s=float(before))
        async with AllocationScheduler(plan, job_id, {"SLURM_JOB_NODELIST": nodes}) as s:
            await s.start(Job("job", command, 1, Path(folder)))
            print("started", flush=True)
            async for _ in signals:
                print("told to end", flush=True)
                return
anyio.run(main)
"""


def controller(tmp_path: Path, job_id: str, before_s: float) -> subprocess.Popen[str]:
    argv = [str(tmp_path), job_id, environ(job_id)["SLURM_JOB_NODELIST"], str(before_s), *family(tmp_path / "pids")]
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(CONTROLLER), *argv], stdout=subprocess.PIPE, text=True
    )


@pytest.mark.slurm
def test_sigkill_of_the_controller_leaves_no_step(tmp_path: Path, allocation: str) -> None:
    process = controller(tmp_path, allocation, 1)
    everyone = pids(tmp_path / "pids")
    process.send_signal(signal.SIGKILL)
    process.wait()
    wait_gone(everyone)
    wait_until(lambda: "job-0" not in slurm("squeue", "-h", "-s", "-j", allocation, "-o", "%j"), "the end of the step")


@pytest.mark.slurm
def test_before_the_wall_time_is_over_a_controller_that_listens_is_told_and_leaves_nothing(
    tmp_path: Path, allocation: str
) -> None:
    process = controller(tmp_path, allocation, before_s=1000 * 24 * 3600)
    out, _ = process.communicate(timeout=60)
    assert out.split("\n") == ["started", "told to end", ""]
    assert process.returncode == 0
    assert [p for p in map(int, (tmp_path / "pids").read_text().split()) if alive(p)] == []
