"""A fleet on a scheduler that does what the test says."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

import anyio
import anyio.lowlevel
import pytest

from agentflow.channel.messages import Goodbye, Hello
from agentflow.controller.background import background
from agentflow.controller.control import Peer
from agentflow.controller.fleet import MAX_FRUITLESS, Fleet, Member
from agentflow.controller.retry import RunnerEnd
from agentflow.errors import RunnerError
from agentflow.schedulers.base import Copy, Job, State

pytestmark = pytest.mark.asyncio


class Stage:
    """A scheduler whose copies live until they are ended by name."""

    def __init__(self) -> None:
        self.known: dict[str, Copy] = {}
        self.stopped: list[str] = []
        self.changed = anyio.Event()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    async def start(self, job: Job) -> None:
        for name in job.copy_names:
            self.known[name] = Copy(name, State.RUNNING, node="here")
        self.changed.set()
        self.changed = anyio.Event()

    async def copies(self) -> dict[str, Copy]:
        return dict(self.known)

    async def stop(self, names: Sequence[str], grace_s: float = 5.0) -> None:
        self.stopped += names

    def render(self, job: Job) -> str:
        return ""

    def end(self, name: str, state: State = State.FAILED) -> None:
        self.known[name] = replace(self.known[name], state=state, reason=f"{name} ended")

    async def until(self, name: str) -> None:
        while name not in self.known:
            await self.changed.wait()


class House:
    """A fleet that is running, and what became of its copies."""

    def __init__(self, size: int = 1) -> None:
        self.stage = Stage()
        self.gone: list[tuple[str, RunnerEnd, str]] = []
        self.fleet = Fleet(
            "runner",
            self.stage,
            Job("runner", ("true",), size, Path()),
            size,
            away_grace_s=0.0,
            on_gone=self.bury,
            give_up=RunnerError,
        )

    def bury(self, member: Member, end: RunnerEnd, reason: str) -> None:
        self.gone.append((member.name, end, reason))

    def join(self, name: str) -> Peer | None:
        outbox, _ = anyio.create_memory_object_stream[bytes](10)
        peer = Peer(Hello("runner", name, 1, "here", "0"), outbox)
        return peer if self.fleet.joined(peer) is not None else None


@asynccontextmanager
async def running(size: int = 1) -> AsyncIterator[House]:
    house = House(size)
    async with background() as tasks:
        tasks.start_soon(house.fleet.run)
        await house.stage.until(f"runner-{size - 1}")
        yield house


async def test_a_copy_that_dies_is_replaced_and_its_name_is_never_used_again() -> None:
    async with running() as house:
        assert house.join("runner-0") is not None
        house.fleet.fruitful()
        house.fleet.left(house.fleet.members["runner-0"].peer)  # type: ignore[arg-type]
        house.stage.end("runner-0")
        await house.stage.until("runner-1")
        assert house.gone == [("runner-0", RunnerEnd.CRASHED, "runner-0 ended")]
        assert house.join("runner-0") is None, "the dead were let in again"
        assert house.join("runner-1") is not None
        assert house.join("stranger") is None
        assert house.join("runner-1") is None, "two of one name"


async def test_a_node_that_is_gone_is_told_from_a_crash() -> None:
    async with running() as house:
        house.stage.end("runner-0", State.GONE)
        await house.stage.until("runner-1")
        assert [end for _, end, _ in house.gone] == [RunnerEnd.NODE]


async def test_a_copy_that_went_silent_is_stopped_and_replaced() -> None:
    async with running() as house:
        peer = house.join("runner-0")
        assert peer is not None
        house.fleet.left(peer)
        await house.stage.until("runner-1")
        assert house.stage.stopped == ["runner-0"]
        assert "went silent" in house.gone[0][2]


async def test_the_reason_that_a_copy_gave_when_it_left_is_what_is_told() -> None:
    async with running() as house:
        peer = house.join("runner-0")
        assert peer is not None
        peer.said_goodbye = Goodbye("an episode did not let go")
        house.fleet.left(peer)
        house.stage.end("runner-0")
        await house.stage.until("runner-1")
        assert house.gone[0][2] == "runner-0 left: an episode did not let go"


async def play_deaths(fruitful: bool) -> House:
    async with running() as house:
        for i in range(MAX_FRUITLESS + 1):
            name = f"runner-{i}"
            await house.stage.until(name)
            if fruitful:
                house.fleet.fruitful()
            house.stage.end(name)
    return house


async def test_copies_that_die_as_soon_as_they_start_are_given_up() -> None:
    with pytest.raises(RunnerError, match="runner-2 ended"):
        await play_deaths(fruitful=False)


async def test_copies_that_did_what_they_are_for_are_replaced_for_as_long_as_it_takes() -> None:
    assert len((await play_deaths(fruitful=True)).gone) >= MAX_FRUITLESS


async def test_a_fleet_that_is_closing_replaces_nobody() -> None:
    async with running() as house:
        house.fleet.close()
        house.stage.end("runner-0")
        while not house.gone:
            await anyio.lowlevel.checkpoint()
        assert not house.fleet.alive
        assert list(house.stage.known) == ["runner-0"]
