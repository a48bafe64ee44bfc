"""A house with doors: a forwarder, its gateway, and scripted workers behind it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from agentflow.channel.messages import Message, RunnerSettings, WorkerInfo
from agentflow.episode import Episode
from agentflow.runner.door import EpisodeDoor
from agentflow.runner.forward import Forwarder
from agentflow.runner.gateway import Gateway
from tests.scripted import Handler, Server, scripted

ALL_APIS = ("chat", "responses", "completions", "messages", "embeddings")


@dataclass
class House:
    """``servers`` by worker name w0, w1, ...; ``told`` is what the controller was told."""

    forwarder: Forwarder
    gateway: Gateway
    servers: dict[str, Server]
    workers: dict[str, WorkerInfo]
    told: list[Message] = field(default_factory=list)

    def open(self, episode: Episode | None = None, worker: str = "w0", roles: tuple[str, ...] = ()) -> EpisodeDoor:
        return self.forwarder.open_episode(episode or Episode("item", 0, seed=1), worker, roles)

    def heard(self, kind: type[Message]) -> list[Any]:
        return [m for m in self.told if isinstance(m, kind)]

    def change(self, name: str, **changes: Any) -> None:
        """Push a table in which one worker is different."""
        self.workers[name] = msgspec.structs.replace(self.workers[name], **changes)
        self.push()

    def push(self) -> None:
        self.forwarder.set_workers(tuple(self.workers.values()))


def lines(door: EpisodeDoor) -> list[dict[str, Any]]:
    """The trace, decoded."""
    return [msgspec.json.decode(line) for line in b"".join(door.trace()).splitlines()]


HouseMaker = Callable[..., AbstractAsyncContextManager[House]]


@asynccontextmanager
async def _house(
    *handlers: Handler | None,
    apis: tuple[str, ...] = ALL_APIS,
    workers: tuple[WorkerInfo, ...] = (),
    **settings: Any,
) -> AsyncIterator[House]:
    told: list[Message] = []
    quick = {"request_timeout_s": 30.0, "retry_window_s": 20.0, **settings}
    forwarder = Forwarder(RunnerSettings(**quick), told.append)
    async with AsyncExitStack() as stack:
        servers = {f"w{i}": await stack.enter_async_context(scripted(h)) for i, h in enumerate(handlers)}
        table = {
            name: WorkerInfo(name, server.url, "served-model", api_key="worker-key-0123", apis=apis)
            for name, server in servers.items()
        } | {w.name: w for w in workers}
        gateway = await stack.enter_async_context(Gateway.serve(forwarder))
        house = House(forwarder, gateway, servers, table, told)
        house.push()
        yield house


@pytest.fixture
def house() -> HouseMaker:
    """``async with house(handler, handler, setting=...) as h``: one scripted worker a handler."""
    return _house


@pytest.fixture
def no_backoff(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retries come at once."""
    monkeypatch.setattr("agentflow.runner.policy.BACKOFF_FIRST_S", 0.0)


async def waiting(*doors: EpisodeDoor, calls: int = 1) -> None:
    """Until so many calls of each of these have come to where they wait for a worker, or for a place at it."""
    while any(sum(bool(e.clock.deadline) for e in list(door.in_flight)) < calls for door in doors):  # noqa: ASYNC110
        await asyncio.sleep(0.01)  # nothing tells of it, and they may be on other loops


def pass_time(seconds: float) -> None:
    """Let so many seconds pass at once on the running loop's clock: a limit ends when the test says so."""
    loop = asyncio.get_running_loop()
    earlier = loop.time
    loop.time = lambda: earlier() + seconds  # type: ignore[method-assign]
