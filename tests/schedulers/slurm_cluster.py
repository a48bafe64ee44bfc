"""The Slurm that tests run on: ``.ci/slurm`` starts it. Without it these tests fail; they do not skip."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import anyio

from agentflow.schedulers.base import Copy, Scheduler, State

LIMIT_S = 90.0
DEAD = (State.EXITED, State.FAILED, State.GONE)


def slurm(*argv: str) -> str:
    """Output of one of Slurm's commands."""
    assert shutil.which(argv[0]), f"{argv[0]} is missing: run .ci/slurm, or tests/clusters/start_slurm.sh first"
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, f"{' '.join(argv)}: {done.stderr}"
    return done.stdout


def nodes() -> list[str]:
    """Names of the nodes that are up."""
    return slurm("sinfo", "-h", "-N", "-t", "idle,mix,alloc", "-o", "%N").split()


def job_of(name: str) -> str:
    """Id of the job that holds the step of this copy."""
    found = [
        line.split("|")[0]
        for line in slurm("squeue", "-h", "-s", "-o", "%i|%j").splitlines()
        if line.endswith(f"|{name}")
    ]
    assert len(found) == 1, f"{name} is in {found}"
    return found[0].split(".")[0]


def jobs(name: str) -> list[str]:
    """Jobs of this name that wait or run."""
    return slurm("squeue", "-h", f"--name={name}", "-o", "%i").split()


def folders(parent: Path) -> list[str]:
    """Names of the folders in a folder."""
    return [p.name for p in parent.iterdir() if p.is_dir()]


def files_with(text: str, parent: Path) -> list[Path]:
    """Files below a folder that contain this text."""
    return [p for p in parent.rglob("*") if p.is_file() and text in p.read_text()]


def wait_until(condition: Callable[[], bool], what: str) -> None:
    """Wait for something that other processes do."""
    end = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < end, f"{what} did not happen in {LIMIT_S:.0f} s"
        time.sleep(0.1)


async def copies_when(scheduler: Scheduler, condition: Callable[[dict[str, Copy]], bool], what: str) -> dict[str, Copy]:
    """The copies, once they are as wanted."""
    copies: dict[str, Copy] = {}
    with anyio.move_on_after(LIMIT_S):
        while not condition(copies := await scheduler.copies()):  # noqa: ASYNC110 - Slurm sends no events
            await anyio.sleep(0.1)
        return copies
    raise AssertionError(f"{what} did not happen in {LIMIT_S:.0f} s; there are {copies}")


async def running(scheduler: Scheduler, *names: str) -> list[Copy]:
    """These copies, once Slurm says that all of them run."""
    found = await copies_when(scheduler, lambda c: all(c[n].state is State.RUNNING for n in names), f"{names} running")
    return [found[n] for n in names]


async def dead(scheduler: Scheduler, *names: str) -> list[Copy]:
    """These copies, once all of them are dead."""
    found = await copies_when(scheduler, lambda c: all(c[n].state in DEAD for n in names), f"the end of {names}")
    return [found[n] for n in names]


def fail_node(node: str) -> None:
    """Have Slurm believe that this node has failed; it comes back by itself (ReturnToService)."""
    slurm("scontrol", "update", f"nodename={node}", "state=down", "reason=test")
