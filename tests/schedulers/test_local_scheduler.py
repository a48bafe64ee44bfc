"""The local scheduler starts, tells, stops."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import anyio
import pytest
from processes import alive, family, pids, wait_gone

from agentflow.errors import SchedulerError
from agentflow.schedulers.base import Copy, Job, Resources, Scheduler, State
from agentflow.schedulers.local import LocalScheduler

LIMIT_S = 60


def job(
    tmp_path: Path,
    *command: str,
    name: str = "job",
    copies: int = 1,
    gpus: int = 0,
    env: Mapping[str, str] | None = None,
    secret_env: Mapping[str, str] | None = None,
    first_index: int = 0,
) -> Job:
    return Job(
        name, command, copies, tmp_path, Resources(gpus=gpus), env or {}, secret_env or {}, first_index=first_index
    )


async def dead(scheduler: LocalScheduler, *names: str) -> Sequence[Copy]:
    """The copies, once all of them are dead."""
    with anyio.fail_after(LIMIT_S):
        while True:
            copies = await scheduler.copies()
            if all(copies[n].state is not State.RUNNING for n in names):
                return [copies[n] for n in names]
            await scheduler.changed()


@pytest.mark.asyncio
async def test_each_copy_writes_its_own_log_and_knows_its_name(tmp_path: Path) -> None:
    async with LocalScheduler() as scheduler:
        checked: Scheduler = scheduler  # it is one
        await checked.start(job(tmp_path, "sh", "-c", "echo I am $AGENTFLOW_NAME", copies=2, first_index=5))
        for copy in await dead(scheduler, "job-5", "job-6"):
            assert (copy.state, copy.reason) == (State.EXITED, f"{copy.name} exited with code 0")
            assert (tmp_path / f"{copy.name}.log").read_text() == f"I am {copy.name}\n"


@pytest.mark.asyncio
async def test_a_copy_that_fails_is_reported_with_code_and_the_end_of_its_log(tmp_path: Path) -> None:
    async with LocalScheduler() as scheduler:
        await scheduler.start(job(tmp_path, "sh", "-c", "echo out of memory >&2; exit 9"))
        (copy,) = await dead(scheduler, "job-0")
    assert copy.state is State.FAILED
    assert copy.reason == f"job-0 exited with code 9; the end of {tmp_path}/job-0.log:\nout of memory"


@pytest.mark.asyncio
async def test_a_copy_that_is_killed_from_outside_is_reported_with_the_signal(tmp_path: Path) -> None:
    async with LocalScheduler() as scheduler:
        await scheduler.start(job(tmp_path, "sleep", "600"))
        running = (await scheduler.copies())["job-0"]
        assert running.state is State.RUNNING
        assert running.pid is not None
        os.kill(running.pid, signal.SIGKILL)
        (copy,) = await dead(scheduler, "job-0")
    assert copy.state is State.FAILED
    assert copy.reason.startswith("job-0 was killed by SIGKILL")


@pytest.mark.asyncio
async def test_a_copy_that_we_stop_has_exited_and_unknown_names_are_no_error(tmp_path: Path) -> None:
    async with LocalScheduler() as scheduler:
        await scheduler.start(job(tmp_path, "sleep", "600", copies=2))
        await scheduler.stop(["job-0", "nobody"])
        (copy,) = await dead(scheduler, "job-0")
        assert copy.state is State.EXITED
        assert copy.reason == "job-0 was killed by SIGTERM after it was told to stop"
        assert (await scheduler.copies())["job-1"].state is State.RUNNING
        await scheduler.stop(["job-0"])


@pytest.mark.asyncio
async def test_leaving_the_block_leaves_no_process_even_when_it_raises(tmp_path: Path) -> None:
    async def fail_inside() -> None:
        async with LocalScheduler() as scheduler:
            await scheduler.start(job(tmp_path, *family(tmp_path / "pids")))
            await anyio.to_thread.run_sync(pids, tmp_path / "pids")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail_inside()
    assert [p for p in pids(tmp_path / "pids") if alive(p)] == []


@pytest.mark.asyncio
async def test_cancelling_the_block_leaves_no_process(tmp_path: Path) -> None:
    with anyio.CancelScope() as scope:
        async with LocalScheduler() as scheduler:
            await scheduler.start(job(tmp_path, *family(tmp_path / "pids")))
            everyone = await anyio.to_thread.run_sync(pids, tmp_path / "pids")
            scope.cancel()
            await anyio.sleep_forever()
    assert [p for p in everyone if alive(p)] == []


@pytest.mark.asyncio
async def test_gpus_are_given_out_exclusively_and_come_back_when_a_copy_dies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,5,GPU-abc,7")
    show = ["sh", "-c", "echo $CUDA_VISIBLE_DEVICES; exec sleep 600"]
    async with LocalScheduler() as scheduler:
        await scheduler.start(job(tmp_path, *show, name="a", copies=2, gpus=2))
        with pytest.raises(SchedulerError, match=r"b needs 1 GPUs .* 0 of the 4"):
            await scheduler.start(job(tmp_path, *show, name="b", gpus=1))
        await scheduler.start(job(tmp_path, "sh", "-c", "echo none: $CUDA_VISIBLE_DEVICES.", name="cpu"))
        await dead(scheduler, "cpu-0")
        await scheduler.stop(["a-0"])
        await dead(scheduler, "a-0")
        await scheduler.start(job(tmp_path, "sh", "-c", "echo $CUDA_VISIBLE_DEVICES", name="b", copies=2, gpus=1))
        await dead(scheduler, "b-0", "b-1")
    assert (tmp_path / "cpu-0.log").read_text() == "none: .\n"
    assert [(tmp_path / f"b-{i}.log").read_text() for i in (0, 1)] == ["3\n", "5\n"]


@pytest.mark.asyncio
async def test_too_few_gpus_are_refused_before_anything_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1,2,3,4,5,6,7")
    async with LocalScheduler() as scheduler:
        with pytest.raises(SchedulerError, match=r"needs 12 GPUs \(12 copies of 1\), but 8 of the 8"):
            await scheduler.start(job(tmp_path, "sleep", "600", copies=12, gpus=1))
        assert await scheduler.copies() == {}
    async with LocalScheduler(n_gpus=2) as scheduler:
        with pytest.raises(SchedulerError, match=r"needs 3 GPUs \(3 copies of 1\), but 2 of the 2"):
            await scheduler.start(job(tmp_path, "sleep", "600", copies=3, gpus=1))


@pytest.mark.asyncio
async def test_a_secret_reaches_the_process_and_nothing_else(tmp_path: Path) -> None:
    secret = "s3cr3t"
    asked = job(tmp_path, "sh", "-c", 'test "$TOKEN" = s3cr""3t && cat /proc/$$/cmdline', secret_env={"TOKEN": secret})
    async with LocalScheduler() as scheduler:
        assert secret not in scheduler.render(asked)
        await scheduler.start(asked)
        (copy,) = await dead(scheduler, "job-0")
        assert copy.state is State.EXITED, copy.reason
        assert secret not in repr(await scheduler.copies())
    assert secret not in (tmp_path / "job-0.log").read_text()


def test_render_shows_a_command_that_a_shell_would_run(tmp_path: Path) -> None:
    asked = job(tmp_path, "python", "-c", "print('a b')", gpus=2, env={"X": "1 2"}, secret_env={"TOKEN": "t"})
    assert LocalScheduler().render(asked).splitlines() == [
        f"# job-0: output in {tmp_path}/job-0.log",
        "# job-0: 2 GPUs of its own through CUDA_VISIBLE_DEVICES",
        "# job-0: secrets in its environment: TOKEN",
        """env AGENTFLOW_NAME=job-0 'X=1 2' python -c 'print('"'"'a b'"'"')'""",
    ]


@pytest.mark.asyncio
async def test_a_copy_runs_the_same_agentflow_from_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import agentflow

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", "elsewhere")
    code = "import agentflow, os; print(agentflow.__file__); print(os.getcwd())"
    async with LocalScheduler() as scheduler:
        await scheduler.start(job(tmp_path, sys.executable, "-c", code))
        await dead(scheduler, "job-0")
    assert (tmp_path / "job-0.log").read_text().split() == [agentflow.__file__, str(tmp_path)]


@pytest.mark.asyncio
async def test_a_name_is_used_once(tmp_path: Path) -> None:
    async with LocalScheduler() as scheduler:
        await scheduler.start(job(tmp_path, "true"))
        with pytest.raises(SchedulerError, match="job-0 has been started before"):
            await scheduler.start(job(tmp_path, "true"))


@pytest.mark.asyncio
async def test_a_log_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    async with LocalScheduler() as scheduler:
        with pytest.raises(SchedulerError, match=r"log folder .*file/logs cannot be made"):
            await scheduler.start(job(tmp_path / "file" / "logs", "true"))


def test_sigkill_of_the_controller_leaves_no_process(tmp_path: Path) -> None:
    controller = (
        "import sys, anyio; from pathlib import Path\n"
        "from agentflow.schedulers.local import LocalScheduler\n"
        "from agentflow.schedulers.base import Job\n"
        "async def main():\n"
        "    async with LocalScheduler() as s:\n"
        "        await s.start(Job('job', sys.argv[2:], 1, Path(sys.argv[1])))\n"
        "        await anyio.sleep_forever()\n"
        "anyio.run(main)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", controller, str(tmp_path), *family(tmp_path / "pids")])
    everyone = pids(tmp_path / "pids")
    process.kill()
    process.wait()
    wait_gone(everyone)
