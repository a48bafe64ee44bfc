"""Nodes of Ray that die, controllers that die, and a Ray that is started here: nothing is left behind."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import anyio
import psutil
import pytest
from processes import FAMILY_SIZE, alive, family, pids, wait_gone
from ray_nodes import another_node, base, config, driver, until

from agentflow.schedulers.base import Job, Resources, State
from agentflow.schedulers.ray_cluster import RayScheduler

pytestmark = [pytest.mark.ray, pytest.mark.timeout(600)]

CONTROLLER = """
import json, os, signal, sys
from pathlib import Path
import anyio, psutil
from agentflow.config import load_config
from agentflow.schedulers import make_scheduler
from agentflow.schedulers.base import Job, State

async def main():
    with anyio.open_signal_receiver(signal.SIGTERM) as signals:
        async with make_scheduler(load_config(None, ["scheduler.type=ray"])[0]) as scheduler:
            await scheduler.start(Job("job", sys.argv[2:], 2, Path(sys.argv[1])))
            while any(c.state is State.PENDING for c in (await scheduler.copies()).values()):
                await anyio.sleep(0.1)
            print(json.dumps([p.pid for p in psutil.Process().children(recursive=True)]), flush=True)
            async for _ in signals:
                break
        print("left in order", flush=True)
        async for _ in signals:
            break
    print("still ours", flush=True)
anyio.run(main)
"""


@pytest.mark.asyncio
async def test_a_node_that_dies_is_seen_and_its_copy_runs_elsewhere_later(tmp_path: Path) -> None:
    with another_node("n5", 5, gpus=8) as raylet:
        async with RayScheduler(config()) as scheduler:
            await scheduler.start(Job("job", family(tmp_path / "pids"), 1, tmp_path, Resources(gpus=8)))
            await scheduler.start(Job("other", ("sleep", "600"), 1, tmp_path, Resources(gpus=4)))
            everyone = await anyio.to_thread.run_sync(pids, tmp_path / "pids")
            (copy, _) = await until(scheduler, State.RUNNING, "job-0", "other-0")
            assert copy.node == "127.0.0.15"
            raylet.kill()
            (copy,) = await until(scheduler, State.GONE, "job-0")
            assert copy.reason == "job-0 is gone with its node 127.0.0.15, which died or left the Ray cluster"
            await anyio.to_thread.run_sync(wait_gone, everyone)
            other = (await scheduler.copies())["other-0"]
            assert other.state is State.RUNNING, other.reason


def test_sigkill_of_the_controller_leaves_no_process(tmp_path: Path) -> None:
    base()
    with driver(CONTROLLER, str(tmp_path), *family(tmp_path / "pids")) as controller:
        everyone = pids(tmp_path / "pids", 2 * FAMILY_SIZE, limit_s=240)
        controller.kill()
    wait_gone(everyone)


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
def test_a_ray_that_is_started_here_ends_with_its_controller(tmp_path: Path, end: signal.Signals) -> None:
    base()
    with driver(CONTROLLER, str(tmp_path), *family(tmp_path / "pids"), RAY_ADDRESS="") as controller:
        assert controller.stdout is not None
        names = {p: psutil.Process(p).name() for p in json.loads(controller.stdout.readline())}
        assert {"raylet", "gcs_server"} <= set(names.values())
        # After a SIGKILL two agents of Ray try for a minute to tell its dead head of their dead raylet, and then end.
        everyone = [p for p, name in names.items() if end is signal.SIGTERM or not name.startswith("ray::")]
        everyone += pids(tmp_path / "pids", 2 * FAMILY_SIZE, limit_s=240)
        controller.send_signal(end)
        if end is signal.SIGTERM:
            assert controller.stdout.readline() == "left in order\n"
            controller.send_signal(end)
            assert controller.stdout.readline() == "still ours\n"
        assert controller.wait(60) == (0 if end is signal.SIGTERM else -end)
    wait_gone(everyone)
    assert alive(int((base() / "run" / "head.pid").read_text()))  # somebody else's


@pytest.mark.asyncio
async def test_a_ray_that_was_joined_before_is_used_and_left_joined(tmp_path: Path) -> None:
    import ray

    base()
    ray.init(os.environ["RAY_ADDRESS"], log_to_driver=False, configure_logging=False)
    try:
        async with RayScheduler(config("scheduler.ray.runtime_env={env_vars: {LEVEL: high}}")) as scheduler:
            await scheduler.start(Job("job", ("sh", "-c", "echo $LEVEL"), 1, tmp_path))
            await until(scheduler, State.EXITED, "job-0")
        assert (tmp_path / "job-0.log").read_text() == "high\n"
        assert ray.is_initialized()
    finally:
        ray.shutdown()
