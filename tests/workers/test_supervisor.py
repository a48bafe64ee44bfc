"""A real supervisor with a real engine: what the controller hears, and what is left when either dies."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import anyio
import psutil
import pytest
import pytest_asyncio
from fake_controller import FakeController

from agentflow.channel.messages import Goodbye, Heartbeat, Hello, StartEngine, StopEngine, WorkerDown, WorkerUp
from agentflow.workers.ports import ephemeral_low
from tests.workers.conftest import until

pytestmark = [pytest.mark.engine, pytest.mark.asyncio]

SUPERVISOR = "agentflow.workers.supervisor"
KEY = "key-of-this-run"


@pytest_asyncio.fixture
async def controller() -> AsyncIterator[FakeController]:
    controller = FakeController()
    async with controller.listening():
        yield controller


@pytest.fixture
def start(model: Path, tmp_path: Path) -> StartEngine:
    return StartEngine(
        engine="llamacpp",
        model=str(model),
        served_name="smol",
        api_key=KEY,
        log_path=str(tmp_path / "engine.log"),
        options={"n_parallel": 2, "n_ctx": 512, "cache_mib": 0},
        deadline_s=120,
        heartbeat_s=0.2,
        hang_s=2,
        max_restarts=2,
        orphan_grace_s=60,
    )


def changed(start: StartEngine, **fields: Any) -> StartEngine:
    return StartEngine(**{**{f: getattr(start, f) for f in start.__struct_fields__}, **fields})


@contextmanager
def supervisor(
    controller: FakeController, tmp_path: Path, argv: Sequence[str] = (sys.executable, "-m", SUPERVISOR)
) -> Iterator[subprocess.Popen[bytes]]:
    """The process, or another one that starts it."""
    env = {**os.environ, **controller.address.environment()}
    with (tmp_path / "supervisor.log").open("wb") as log:
        process = subprocess.Popen(argv, env=env, stdout=log, stderr=log, start_new_session=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def cut_off(model: Path, to: Path) -> Path:
    """A model file with all metadata and few of the weights."""
    to.write_bytes(model.read_bytes()[: 3 * 1024 * 1024])
    return to


def alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:  # also where it ends while it is looked at
        return False


async def gone(*pids: int) -> None:
    async def all_gone() -> bool:
        return not any(map(alive, pids))

    await until(all_gone)


async def ended(process: subprocess.Popen[bytes]) -> int:
    with anyio.fail_after(60):
        return await anyio.to_thread.run_sync(process.wait, abandon_on_cancel=True)


async def asks(up: WorkerUp) -> str:
    """Use the worker as a runner would."""
    body = {"model": up.worker.model, "messages": [{"role": "user", "content": "hello"}], "max_tokens": 3}
    headers = {"Authorization": f"Bearer {up.worker.api_key}"}
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{up.worker.url}/v1/chat/completions", json=body, headers=headers) as reply,
    ):
        assert reply.status == 200
        return str((await reply.json())["model"])


async def test_it_brings_an_engine_up_restarts_a_dead_and_a_hung_one_and_gives_up_in_the_end(
    controller: FakeController, start: StartEngine, tmp_path: Path
) -> None:
    with supervisor(controller, tmp_path) as process:
        hello = await controller.greet(start)
        assert (hello.role, hello.name, hello.pid) == ("supervisor", "worker-0", process.pid)
        up = await controller.hear(WorkerUp)
        assert (up.worker.name, up.worker.generation, up.node) == ("worker-0", 0, socket.gethostname())
        assert up.worker.apis == ("chat", "completions", "embeddings")
        assert int(up.worker.url.rpartition(":")[2]) < ephemeral_low()
        assert await asks(up) == "smol"
        while (await controller.hear(Heartbeat)).load.generated_tokens != 3:
            pass

        os.kill(up.pid, signal.SIGKILL)  # dead
        down = await controller.hear(WorkerDown)
        assert down.restarting
        assert "was killed by SIGKILL" in down.error
        assert "ready" in down.log_tail
        again = await controller.hear(WorkerUp)
        assert again.worker.generation == 1
        assert await asks(again) == "smol"

        os.kill(again.pid, signal.SIGSTOP)  # hung
        down = await controller.hear(WorkerDown)
        assert down.restarting
        assert "is hung: no answer and no new token for 2 s" in down.error
        third = await controller.hear(WorkerUp)
        assert third.worker.generation == 2
        await gone(again.pid)

        os.kill(third.pid, signal.SIGKILL)  # and once too often
        down = await controller.hear(WorkerDown)
        assert not down.restarting
        assert "it has been restarted 2 times" in down.error
        assert await ended(process) == 1
        assert "it has been restarted 2 times" in (tmp_path / "supervisor.log").read_text()


async def test_a_lost_controller_finds_its_engine_again_and_stops_it(
    controller: FakeController, start: StartEngine, tmp_path: Path
) -> None:
    with supervisor(controller, tmp_path) as process:
        await controller.greet(start)
        up = await controller.hear(WorkerUp)
        await controller.drop_connections()
        assert (await controller.hear(Hello)).pid == process.pid
        assert await controller.hear(WorkerUp) == up
        await controller.tell(start)  # as a controller does that knows no better
        await controller.hear(Heartbeat)
        assert await asks(up) == "smol"
        await controller.tell(StopEngine(grace_s=10))
        assert (await controller.hear(Goodbye)).reason == "told to stop"
        assert await ended(process) == 0
        await gone(up.pid)


async def test_without_a_controller_it_ends_with_its_engine(start: StartEngine, tmp_path: Path) -> None:
    controller = FakeController()
    async with controller.listening():
        address = controller.address
        with supervisor(controller, tmp_path) as process:
            await controller.greet(changed(start, orphan_grace_s=1))
            up = await controller.hear(WorkerUp)
            await controller.stop_listening()
            assert await ended(process) == 1
            await gone(up.pid)
    assert address.url in (tmp_path / "supervisor.log").read_text()
    assert "There has been no controller for 1 s" in (tmp_path / "supervisor.log").read_text()


async def test_sigkill_of_the_supervisor_takes_the_engine_along(
    controller: FakeController, start: StartEngine, tmp_path: Path
) -> None:
    with supervisor(controller, tmp_path) as process:
        await controller.greet(start)
        up = await controller.hear(WorkerUp)
        process.kill()
        await gone(up.pid)


SCHEDULE = """
import os, sys, anyio
from pathlib import Path
from agentflow.channel.client import Address
from agentflow.schedulers.base import Job
from agentflow.schedulers.local import LocalScheduler
async def main():
    address = Address.from_environment()
    argv = [sys.executable, "-m", "agentflow.workers.supervisor"]
    async with LocalScheduler() as scheduler:
        secrets = {"AGENTFLOW_TOKEN": address.token}
        await scheduler.start(Job("worker", argv, 1, Path(sys.argv[1]), env=address.environment(), secret_env=secrets))
        await anyio.sleep_forever()
anyio.run(main)
"""


async def test_sigkill_of_the_process_that_scheduled_it_leaves_nothing(
    controller: FakeController, start: StartEngine, tmp_path: Path
) -> None:
    """Without the lease: its controller, played by this test, lives on."""
    with supervisor(controller, tmp_path, [sys.executable, "-c", SCHEDULE, str(tmp_path)]) as scheduling:
        await controller.greet(start)
        up = await controller.hear(WorkerUp)
        everyone = [p.pid for p in psutil.Process(scheduling.pid).children(recursive=True)]
        assert up.pid in everyone
        assert len(everyone) == 4  # guard, supervisor, guard, engine
        scheduling.kill()
        await gone(*everyone)


async def test_sigterm_stops_both_also_with_a_call_in_flight_and_ctrl_c_neither(
    controller: FakeController, start: StartEngine, tmp_path: Path
) -> None:
    with supervisor(controller, tmp_path) as process:
        await controller.greet(start)
        up = await controller.hear(WorkerUp)
        process.send_signal(signal.SIGINT)
        assert await asks(up) == "smol"
        body = {"messages": [{"role": "user", "content": "go"}], "max_tokens": 400, "ignore_eos": True, "stream": True}
        headers = {"Authorization": f"Bearer {KEY}"}
        async with (
            aiohttp.ClientSession() as session,
            session.post(f"{up.worker.url}/v1/chat/completions", json=body, headers=headers) as reply,
        ):
            await reply.content.readline()
            process.send_signal(signal.SIGTERM)
            assert (await controller.hear(Goodbye)).reason == "told to stop by SIGTERM"
            assert await ended(process) == 0
        await gone(up.pid)


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"model": "no-such-file.gguf"}, "The model no-such-file.gguf is not a file"),
        ({"engine": "vllm2"}, "There is no engine vllm2"),
        ({"options": {"n_slots": 1}}, "llamacpp.n_slots is not an option"),
    ],
)
async def test_what_cannot_be_started_is_said_in_one_sentence(
    controller: FakeController, start: StartEngine, tmp_path: Path, fields: dict[str, Any], sentence: str
) -> None:
    with supervisor(controller, tmp_path) as process:
        await controller.greet(changed(start, **fields))
        down = await controller.hear(WorkerDown)
        assert sentence in down.error
        assert not down.restarting
        assert await ended(process) == 1


async def test_an_engine_that_never_comes_up_is_reported_at_once_with_the_end_of_its_log(
    controller: FakeController, start: StartEngine, tmp_path: Path
) -> None:
    broken = cut_off(Path(start.model), tmp_path / "broken.gguf")
    with supervisor(controller, tmp_path) as process:
        await controller.greet(changed(start, model=str(broken), deadline_s=3600))
        down = await controller.hear(WorkerDown)
        assert "exited with code 1 before it was healthy" in down.error
        assert "llama.cpp cannot serve" in down.log_tail
        assert not down.restarting
        assert await ended(process) == 1


async def test_secrets_are_in_no_command_line_and_no_log(
    controller: FakeController, start: StartEngine, tmp_path: Path
) -> None:
    with supervisor(controller, tmp_path) as process:
        await controller.greet(start)
        up = await controller.hear(WorkerUp)
        for one in psutil.Process(process.pid).children(recursive=True):
            assert KEY not in " ".join(one.cmdline())
        assert "AGENTFLOW_TOKEN" not in psutil.Process(up.pid).environ()
    for log in (tmp_path / "supervisor.log", tmp_path / "engine.log"):
        assert KEY not in log.read_text()
