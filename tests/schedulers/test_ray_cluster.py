"""The Ray scheduler on a real Ray of several nodes: starts, tells, stops."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest
from processes import alive, family, pids, wait_gone
from ray_nodes import LIMIT_S, NODES, base, config, until

from agentflow.errors import SchedulerError
from agentflow.schedulers import ray_cluster
from agentflow.schedulers.base import Job, Resources, Scheduler, State
from agentflow.schedulers.ray_cluster import RayScheduler

pytestmark = [pytest.mark.ray, pytest.mark.asyncio, pytest.mark.timeout(600)]
SHOW_GPUS = ("sh", "-c", "echo gpus: $CUDA_VISIBLE_DEVICES.; exec sleep 600")


def job(
    tmp_path: Path,
    *command: str,
    name: str = "job",
    copies: int = 1,
    gpus: int = 0,
    env: Mapping[str, str] | None = None,
    secret_env: Mapping[str, str] | None = None,
    **more: Any,
) -> Job:
    return Job(name, command, copies, tmp_path, Resources(gpus=gpus), env or {}, secret_env or {}, **more)


async def test_each_copy_writes_its_own_log_and_knows_its_name(tmp_path: Path) -> None:
    async with RayScheduler(config()) as scheduler:
        checked: Scheduler = scheduler  # it is one
        say = "echo I am $AGENTFLOW_NAME, $GREETING, in $PWD"
        await checked.start(job(tmp_path, "sh", "-c", say, copies=2, first_index=5, env={"GREETING": "hello"}))
        for copy in await until(scheduler, State.EXITED, "job-5", "job-6"):
            assert copy.reason == f"{copy.name} exited with code 0"
            assert copy.node in NODES
            assert (tmp_path / f"{copy.name}.log").read_text() == f"I am {copy.name}, hello, in {os.getcwd()}\n"


async def test_a_copy_that_fails_is_reported_with_code_and_the_end_of_its_log(tmp_path: Path) -> None:
    async with RayScheduler(config()) as scheduler:
        await scheduler.start(job(tmp_path, "sh", "-c", "echo out of memory >&2; exit 9"))
        (copy,) = await until(scheduler, State.FAILED, "job-0")
    assert copy.reason == f"job-0 exited with code 9; the end of {tmp_path}/job-0.log:\nout of memory"


async def test_where_the_log_cannot_be_written_the_last_lines_are_kept_and_it_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "job-0.log").mkdir()
    async with RayScheduler(config()) as scheduler:
        await scheduler.start(job(tmp_path, "sh", "-c", "seq 100000; echo the end; exit 1"))
        (copy,) = await until(scheduler, State.FAILED, "job-0")
    assert f"({tmp_path}/job-0.log cannot be written on {copy.node}: Is a directory):\n99982\n" in copy.reason
    assert copy.reason.endswith("\n100000\nthe end")
    assert "let cluster.fileroot name a folder that all nodes share" in caplog.text


async def test_a_command_that_is_killed_is_reported_with_the_signal(tmp_path: Path) -> None:
    async with RayScheduler(config()) as scheduler:
        await scheduler.start(job(tmp_path, "sleep", "600"))
        (running,) = await until(scheduler, State.RUNNING, "job-0")
        assert running.pid is not None
        os.kill(running.pid, signal.SIGKILL)
        (copy,) = await until(scheduler, State.FAILED, "job-0")
    assert copy.reason.startswith("job-0 was killed by SIGKILL")


async def test_stop_ends_children_and_daemons_and_kills_what_ignores_term(tmp_path: Path) -> None:
    async with RayScheduler(config()) as scheduler:
        await scheduler.start(job(tmp_path, *family(tmp_path / "pids", "stubborn")))
        await scheduler.start(job(tmp_path, "sleep", "600", name="other"))
        everyone = await anyio.to_thread.run_sync(pids, tmp_path / "pids")
        await until(scheduler, State.RUNNING, "job-0", "other-0")
        await scheduler.stop(["job-0", "nobody"], grace_s=0.5)
        assert [p for p in everyone if alive(p)] == []
        (copy,) = await until(scheduler, State.EXITED, "job-0")
        assert copy.reason == "job-0 was killed by SIGKILL after it was told to stop"
        assert (await scheduler.copies())["other-0"].state is State.RUNNING


async def test_leaving_the_block_by_an_error_leaves_no_process_but_the_cluster(tmp_path: Path) -> None:
    async def fail_inside() -> None:
        async with RayScheduler(config()) as scheduler:
            await scheduler.start(job(tmp_path, *family(tmp_path / "pids")))
            await scheduler.start(job(tmp_path, "sleep", "600", name="early", copies=2))  # may not have started yet
            await anyio.to_thread.run_sync(pids, tmp_path / "pids")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail_inside()
    assert [p for p in pids(tmp_path / "pids") if alive(p)] == []
    for node in ("head", "n1", "n2"):
        assert alive(int((base() / "run" / f"{node}.pid").read_text()))
    actors = [p.pid for p in psutil.process_iter(["cmdline"]) if "ray::Host" in " ".join(p.info["cmdline"] or ())]
    await anyio.to_thread.run_sync(wait_gone, actors)


@pytest.mark.parametrize("way", ["ray.kill", "SIGKILL"])
async def test_an_actor_that_is_killed_from_outside_takes_all_of_its_copy_along(tmp_path: Path, way: str) -> None:
    import ray

    async with RayScheduler(config()) as scheduler:
        await scheduler.start(job(tmp_path, *family(tmp_path / "pids")))
        everyone = await anyio.to_thread.run_sync(pids, tmp_path / "pids")
        (copy,) = await until(scheduler, State.RUNNING, "job-0")
        if way == "ray.kill":  # as its dashboard does
            ray.kill(scheduler._hosted["job-0"].actor)
        else:
            assert copy.pid is not None
            os.kill(actor_of(copy.pid), signal.SIGKILL)
        (copy,) = await until(scheduler, State.GONE, "job-0")
        assert copy.reason.startswith(f"job-0 is gone with its actor on {copy.node}: The actor is dead because")
        await anyio.to_thread.run_sync(wait_gone, everyone)


def actor_of(pid: int) -> int:
    """Pid of the actor's process above a command: command, guard, its shield, actor."""
    guard = psutil.Process(pid).parent()
    assert guard is not None
    shield = guard.parent()
    assert shield is not None
    return shield.ppid()


async def test_more_gpus_than_the_cluster_has_are_refused_before_anything_starts(tmp_path: Path) -> None:
    async with RayScheduler(config()) as scheduler:
        with pytest.raises(
            SchedulerError, match=r"job needs 12 times 1 CPU and 1 GPU, .* there is room for 8: .* 4 GPUs"
        ):
            await scheduler.start(job(tmp_path, "sleep", "600", copies=12, gpus=1))
        with pytest.raises(SchedulerError, match=r"job needs 1 times 1 CPU and 5 GPUs, .* room for 0"):
            await scheduler.start(job(tmp_path, "sleep", "600", gpus=5))
        assert await scheduler.copies() == {}


async def said(*logs: Path) -> None:
    """Wait until each of these has a whole line."""
    with anyio.fail_after(LIMIT_S):
        while not all(log.exists() and log.read_text().endswith("\n") for log in logs):  # noqa: ASYNC110
            await anyio.sleep(0.1)


async def test_each_copy_has_its_own_gpus_of_one_node_and_one_without_sees_none(tmp_path: Path) -> None:
    async with RayScheduler(config()) as scheduler:
        await scheduler.start(job(tmp_path, *SHOW_GPUS, name="pair", copies=4, gpus=2))
        await scheduler.start(job(tmp_path, *SHOW_GPUS, name="cpu"))
        pairs = await until(scheduler, State.RUNNING, *(f"pair-{i}" for i in range(4)))
        await until(scheduler, State.RUNNING, "cpu-0")
        await said(*(tmp_path / f"{name}.log" for name in ("cpu-0", *(f"pair-{i}" for i in range(4)))))
        await scheduler.stop([*(f"pair-{i}" for i in range(4)), "cpu-0"])
    seen = sorted((c.node, (tmp_path / f"{c.name}.log").read_text()) for c in pairs)
    assert seen == [(node, f"gpus: {both}.\n") for node in ("127.0.0.11", "127.0.0.12") for both in ("0,1", "2,3")]
    assert (tmp_path / "cpu-0.log").read_text() == "gpus: .\n"


async def test_a_copy_without_a_place_says_what_is_missing_and_starts_when_it_is_free(tmp_path: Path) -> None:
    async with RayScheduler(config()) as scheduler:
        await scheduler.start(job(tmp_path, "sleep", "600", name="full", copies=2, gpus=4))
        await until(scheduler, State.RUNNING, "full-0", "full-1")
        await scheduler.start(job(tmp_path, "sleep", "600", name="late", copies=2, gpus=3))
        says = (
            r"late-0 waits for a node with 1 CPU and 3 GPUs free; free in the whole cluster: .* of 12 CPUs, 0 of 8 GPUs"
        )
        with anyio.fail_after(LIMIT_S):  # Ray's view of what is free is some tenths of a second old
            while not re.fullmatch(says, (late := (await scheduler.copies())["late-0"]).reason):  # noqa: ASYNC110
                await anyio.sleep(0.1)
        assert late.state is State.PENDING
        await scheduler.stop(["late-0"])
        assert (await scheduler.copies())["late-0"].state is State.EXITED
        await scheduler.stop(["full-1"])
        await until(scheduler, State.RUNNING, "late-1", "full-0")


async def test_copies_are_spread_over_the_nodes(tmp_path: Path) -> None:
    async with RayScheduler(config()) as scheduler:
        await scheduler.start(job(tmp_path, "sleep", "600", copies=6))
        running = await until(scheduler, State.RUNNING, *(f"job-{i}" for i in range(6)))
    assert sorted(c.node for c in running) == sorted([*NODES, *NODES])


async def test_a_secret_reaches_the_process_and_nothing_that_ray_keeps_or_shows(tmp_path: Path) -> None:
    import ray

    secret = f"s3cr3t-{os.getpid()}"
    check = ("sh", "-c", f'test "$TOKEN" = {secret[:3]}""{secret[3:]} && cat /proc/$$/cmdline')
    async with RayScheduler(config()) as scheduler:
        await scheduler.start(job(tmp_path, *check, secret_env={"TOKEN": secret}))
        (copy,) = await until(scheduler, State.EXITED, "job-0")
        assert secret not in repr(copy)
        assert secret not in repr(ray._private.state.actors())
    assert secret not in (tmp_path / "job-0.log").read_text()
    logs = [p for p in (base() / "t").rglob("*") if p.is_file()]
    assert logs
    assert [p for p in logs if secret.encode() in p.read_bytes()] == []


async def test_the_users_code_travels_by_runtime_env(tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "my_agent.py").write_text("print('an agent')\n")
    env = f"scheduler.ray.runtime_env={{working_dir: {tmp_path}/code, env_vars: {{LEVEL: high}}}}"
    code = "import os, my_agent; print(os.path.exists('my_agent.py'), os.environ['LEVEL'])"
    async with RayScheduler(config(env)) as scheduler:
        await scheduler.start(job(tmp_path, sys.executable, "-c", code))
        await until(scheduler, State.EXITED, "job-0")
    assert (tmp_path / "job-0.log").read_text() == "an agent\nTrue high\n"


async def test_a_runtime_env_that_cannot_be_had_is_named(tmp_path: Path) -> None:
    with pytest.raises(SchedulerError, match=r"Ray at .* cannot be used: .*/nowhere"):
        await RayScheduler(config("scheduler.ray.runtime_env={working_dir: /nowhere}")).__aenter__()


async def test_a_process_that_ray_does_not_start_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_cluster, "START_S", 3)
    async with RayScheduler(config("scheduler.ray.runtime_env={py_executable: /nowhere/python}")) as scheduler:
        await scheduler.start(job(tmp_path, "true"))
        (copy,) = await until(scheduler, State.FAILED, "job-0")
    assert copy.reason == f"job-0 had a place on {copy.node}, but Ray started no process there in 3 s"


async def test_a_copy_runs_this_agentflow_with_the_jobs_own_folders(tmp_path: Path) -> None:
    import agentflow

    code = "import agentflow, sys; print(agentflow.__file__, sys.executable, 'elsewhere' in ' '.join(sys.path))"
    async with RayScheduler(config()) as scheduler:
        await scheduler.start(job(tmp_path, sys.executable, "-c", code, env={"PYTHONPATH": "/elsewhere"}))
        await until(scheduler, State.EXITED, "job-0")
    assert (tmp_path / "job-0.log").read_text().split() == [agentflow.__file__, sys.executable, "True"]


async def test_a_name_is_used_once(tmp_path: Path) -> None:
    async with RayScheduler(config()) as scheduler:
        await scheduler.start(job(tmp_path, "true"))
        with pytest.raises(SchedulerError, match="job-0 has been started before"):
            await scheduler.start(job(tmp_path, "true"))


@pytest.mark.parametrize(
    ("address", "complaint"),
    [
        ("127.0.0.1:1", r"Ray at 127.0.0.1:1 cannot be reached \(.*\): is it the HOST:PORT of the head"),
        ("ray://127.0.0.10:10001", "is the address of a Ray client, which cannot own what it starts"),
        ("127.0.0.10:head", "cannot be reached"),
    ],
)
async def test_a_cluster_that_is_not_there_is_named(address: str, complaint: str) -> None:
    with pytest.raises(SchedulerError, match=complaint):
        await RayScheduler(config(f"scheduler.ray.address={address}")).__aenter__()


async def test_ray_prints_nothing_into_our_terminal(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    async with RayScheduler(config()) as scheduler:
        await scheduler.start(job(tmp_path, "sh", "-c", "echo out; echo err >&2; exec sleep 600"))
        (copy,) = await until(scheduler, State.RUNNING, "job-0")
        assert copy.pid is not None
        os.kill(actor_of(copy.pid), signal.SIGKILL)
        await until(scheduler, State.GONE, "job-0")
    assert capfd.readouterr() == ("", "")
