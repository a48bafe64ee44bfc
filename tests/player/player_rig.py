"""A small controller that starts real runner processes, and says to them what a test says."""

from __future__ import annotations

import asyncio
import os
import sys
import textwrap
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from aiohttp import WSMsgType, web

from agentflow.channel.client import Address
from agentflow.channel.messages import (
    MAX_FRAME_BYTES,
    AgentLoaded,
    AgentRefused,
    AgentSpec,
    EpisodeEnded,
    Goodbye,
    Hello,
    LoadAgent,
    Message,
    Play,
    RunnerReady,
    RunnerSettings,
    SetUpRunner,
    TraceChunk,
    WorkerInfo,
    decode_to_controller,
    encode,
)
from agentflow.episode import Episode, EpisodeResult

TOKEN = "run-token-0123456789"
PATIENCE_S = 120.0  # a machine that does other things takes half a minute to import an SDK
M = TypeVar("M", bound=Message)


@dataclass
class Runner:
    """One runner as its controller sees it: every message it sent, and the process where it is one of its own."""

    request: web.Request
    socket: web.WebSocketResponse
    hello: Hello
    messages: list[Message] = field(default_factory=list)
    closed: bool = False
    process: asyncio.subprocess.Process | None = None
    log: Path = Path()
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def say(self, message: Message) -> None:
        await self.socket.send_bytes(encode(message))

    def drop(self) -> None:
        """What a killed controller does: the connection is gone, without a word."""
        transport = self.request.transport
        assert transport is not None
        transport.abort()

    async def see(self, kind: type[M], where: Callable[[M], bool] = lambda _: True, *, count: int = 1) -> list[M]:
        """Wait for so many messages of a kind."""

        def seen() -> list[M]:
            return [m for m in self.messages if isinstance(m, kind) and where(m)]

        with suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE_S), self.changed:
                await self.changed.wait_for(lambda: len(seen()) >= count or self.closed)
        assert len(seen()) >= count, f"no {kind.__name__}; the runner said {self.messages}; its log: {self.log_text()}"
        return seen()

    async def load(self, path: str = "", **spec: Any) -> AgentLoaded:
        key = f"agent-{len(self.messages)}"
        await self.say(LoadAgent(key, AgentSpec(path, **spec)))
        answers = AgentLoaded | AgentRefused
        (answer,) = await self.see(Message, lambda m: isinstance(m, answers) and m.key == key)
        assert isinstance(answer, AgentLoaded), answer
        return answer

    async def refused(self, path: str = "", **spec: Any) -> AgentRefused:
        await self.say(LoadAgent("refused", AgentSpec(path, **spec)))
        return (await self.see(AgentRefused))[-1]

    async def play(
        self, agent: AgentLoaded, item: str = "item", data: dict[str, Any] | None = None, **k: int
    ) -> Episode:
        episode = Episode(item, k.get("sample", 0), k.get("attempt", 0), seed=1)
        await self.say(Play(episode, agent.key, data or {}, worker="w0"))
        return episode

    async def result(self, episode: Episode) -> EpisodeResult:
        (ended,) = await self.see(EpisodeEnded, lambda m: m.episode == episode)
        return ended.result

    async def played(self, agent: AgentLoaded, item: str = "item", data: dict[str, Any] | None = None) -> EpisodeResult:
        return await self.result(await self.play(agent, item, data))

    def trace(self, episode: Episode) -> bytes:
        return b"".join(m.data for m in self.messages if isinstance(m, TraceChunk) and m.episode == episode)

    async def exit_code(self) -> int:
        assert self.process is not None
        async with asyncio.timeout(PATIENCE_S):
            return await self.process.wait()

    async def goodbye(self) -> str:
        return (await self.see(Goodbye))[0].reason

    def log_text(self) -> str:
        return self.log.read_text() if self.log.is_file() else ""


class Controller:
    """Listens; see :func:`controller`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.url = ""
        self._arrivals: asyncio.Queue[Runner] = asyncio.Queue()
        self._processes: list[asyncio.subprocess.Process] = []

    def address(self, name: str = "runner-0") -> Address:
        return Address(self.url, TOKEN, name, heartbeat_s=0)

    def write(self, text: str, name: str = "agent.py") -> str:
        (self.folder / name).write_text(textwrap.dedent(text))
        return name

    async def until(self, happened: Callable[[], bool]) -> None:
        """Wait for something that user code does outside our sight, such as writing a file."""
        async with asyncio.timeout(PATIENCE_S):
            while not happened():  # noqa: ASYNC110 - another process does it
                await asyncio.sleep(0.02)

    async def start_process(self, environ: dict[str, str] | None = None) -> asyncio.subprocess.Process:
        env = os.environ | self.address().environment() | {"PYTHONPATH": str(Path(__file__).parents[2])}
        self.log = self.folder / f"runner-{len(self._processes)}.log"
        with self.log.open("wb") as log:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "agentflow.runner.main"),
                cwd=self.folder,
                env=env | (environ or {}),
                stdout=log,
                stderr=log,
            )
        self._processes.append(process)
        return process

    async def arrival(self, worker_url: str = "http://127.0.0.1:9", **settings: Any) -> Runner:
        """Wait for a runner and set it up with one worker."""
        async with asyncio.timeout(PATIENCE_S):
            runner = await self._arrivals.get()
        worker = WorkerInfo("w0", worker_url, "scripted", api_key="worker-key-0123456789", apis=("chat", "completions"))
        defaults: dict[str, Any] = {"concurrency": 8, "cancel_grace_s": 1.0, "episode_timeout_s": PATIENCE_S}
        await runner.say(SetUpRunner(RunnerSettings(**defaults | settings), (worker,)))
        await runner.see(RunnerReady)
        return runner

    async def runner(
        self, worker_url: str = "http://127.0.0.1:9", environ: dict[str, str] | None = None, **k: Any
    ) -> Runner:
        """Start a runner process and set it up."""
        process = await self.start_process(environ)
        runner = await self.arrival(worker_url, **k)
        runner.process, runner.log = process, self.log
        return runner

    async def stop(self) -> None:
        for process in self._processes:
            if process.returncode is None:
                process.kill()
            await process.wait()

    async def handle(self, request: web.Request) -> web.WebSocketResponse:
        assert request.headers["Authorization"] == f"Bearer {TOKEN}"
        socket = web.WebSocketResponse(max_msg_size=MAX_FRAME_BYTES)
        await socket.prepare(request)
        runner: Runner | None = None
        async for frame in socket:
            if frame.type is not WSMsgType.BINARY:
                continue
            message = decode_to_controller(frame.data)
            if runner is None:
                assert isinstance(message, Hello)
                runner = Runner(request, socket, message)
                self._arrivals.put_nowait(runner)
            async with runner.changed:
                runner.messages.append(message)
                runner.changed.notify_all()
        if runner is not None:
            async with runner.changed:
                runner.closed = True
                runner.changed.notify_all()
        return socket


@asynccontextmanager
async def controller(folder: Path) -> AsyncIterator[Controller]:
    """A controller whose runners work in ``folder``; kills those left at the end."""
    it = Controller(folder)
    app = web.Application()
    app.router.add_get("/control", it.handle)
    runner = web.AppRunner(app, shutdown_timeout=1.0)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    it.url = f"http://127.0.0.1:{runner.addresses[0][1]}/control"
    try:
        yield it
    finally:
        await it.stop()
        await runner.cleanup()
