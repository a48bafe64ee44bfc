"""The Ray of several nodes that ``.ci/ray`` starts: where it is, and nodes that a test may kill."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import psutil

import agentflow
from agentflow.config import Config, load_config
from agentflow.schedulers.base import Copy, State
from agentflow.schedulers.ray_cluster import RayScheduler

SCRIPTS = Path(__file__).resolve().parent.parent / "clusters"
REPOSITORY = str(Path(agentflow.__file__).resolve().parent.parent)
LIMIT_S = 120
NODES = {"127.0.0.10": 0, "127.0.0.11": 4, "127.0.0.12": 4}  # address: GPUs; each has 4 CPUs


def base() -> Path:
    """Folder of the running cluster; these tests fail without one, they are only run where they are asked for."""
    for name in ("AGENTFLOW_RAY_BASE", "RAY_ADDRESS"):
        assert os.environ.get(name), f"{name} is not set: run .ci/ray, which starts a Ray"
    return Path(os.environ["AGENTFLOW_RAY_BASE"])


def config(*overrides: str) -> Config:
    base()
    return load_config(None, ["scheduler.type=ray", *overrides])[0]


@contextmanager
def another_node(name: str, index: int, gpus: int = 0, cpus: int = 1) -> Iterator[psutil.Process]:
    """A further node; yields its raylet."""
    env = {**os.environ, "GPUS": str(gpus), "CPUS": str(cpus)}
    try:
        subprocess.run([SCRIPTS / "start_ray.sh", base(), name, str(index)], env=env, check=True, timeout=240)
        yield raylet(name)
    finally:
        subprocess.run([SCRIPTS / "stop_ray.sh", base(), name], check=True, timeout=60)


def raylet(name: str) -> psutil.Process:
    """The raylet of a node by its name."""
    node = psutil.Process(int((base() / "run" / f"{name}.pid").read_text()))
    (found,) = [p for p in node.children() if p.name() == "raylet"]
    return found


@contextmanager
def driver(code: str, *arguments: str, **env: str) -> Iterator[subprocess.Popen[str]]:
    """Another controller, as a script; killed at the end of the block if it still runs."""
    command = [sys.executable, "-c", code, *arguments]
    process = subprocess.Popen(
        command, env={**os.environ, "PYTHONPATH": REPOSITORY, **env}, stdout=subprocess.PIPE, text=True
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


async def until(scheduler: RayScheduler, state: State, *names: str) -> list[Copy]:
    """The copies, once all of them are in this state."""
    with anyio.fail_after(LIMIT_S):
        while True:
            copies = await scheduler.copies()
            if all(copies[n].state is state for n in names):
                return [copies[n] for n in names]
            over = [copies[n] for n in names if copies[n].state not in (state, State.PENDING, State.RUNNING)]
            assert not over, over
            await anyio.sleep(0.1)
