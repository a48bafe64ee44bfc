"""The same runner inside the controller's process."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from player_rig import Controller, controller

from agentflow.channel.client import Address, ChannelClosedError
from agentflow.episode import Outcome
from agentflow.runner.inline import inline_runner
from tests.scripted import scripted

AGENTS = """
import asyncio, os, time
playing = []

class Async:
    async def run(self, data, http_client, base_url):
        playing.append(1)
        assert len(playing) == 1        # one at a time
        await asyncio.sleep(0.1)        # longer than the timeout below
        body = {"model": "default", "messages": []}
        (await http_client.post(base_url + "/chat/completions", json=body)).raise_for_status()
        playing.pop()
        return float(os.environ["OPENAI_API_KEY"] == "use-your-episode-url")

class Plain:
    def run(self, data):
        async def one(): return 1.0
        return asyncio.run(one())
"""


@pytest_asyncio.fixture
async def control(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Controller]:
    monkeypatch.chdir(tmp_path)
    async with controller(tmp_path) as it:
        yield it


@pytest.mark.asyncio
async def test_it_plays_one_at_a_time_without_timeouts_and_restores_the_environment(
    control: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "mine-0123456789")
    before, handlers = dict(os.environ), [signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM)]
    path = control.write(AGENTS, "inline_agents.py")
    async with scripted() as server, inline_runner(control.address("inline")):
        runner = await control.arrival(server.url, episode_timeout_s=0.01)
        agent = await runner.load(f"{path}:Async")
        episodes = [await runner.play(agent, f"item-{i}") for i in range(3)]
        results = [await runner.result(episode) for episode in episodes]
        plain = await runner.played(await runner.load(f"{path}:Plain"), "plain")
    assert [(r.outcome, r.reward, len(r.calls), r.error) for r in results] == [(Outcome.SCORED, 1.0, 1, "")] * 3
    assert plain.reward == 1.0
    assert dict(os.environ) == before
    assert [signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM)] == handlers
    assert await runner.goodbye()


@pytest.mark.asyncio
async def test_an_episode_that_plays_when_the_block_ends_is_cancelled(control: Controller) -> None:
    path = control.write(
        """
        import asyncio
        class A:
            async def run(self, data):
                open("started", "w")
                await asyncio.sleep(1000)
        """,
        "endless.py",
    )
    async with inline_runner(control.address("inline")):
        runner = await control.arrival()
        episode = await runner.play(await runner.load(path))
        await control.until((control.folder / "started").exists)
    assert (await runner.result(episode)).outcome is Outcome.CANCELLED


@pytest.mark.asyncio
async def test_an_error_of_the_block_comes_out_as_it_is(control: Controller) -> None:
    async def block() -> None:
        async with inline_runner(control.address("inline")):
            await control.arrival()
            raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        await block()


@pytest.mark.asyncio
async def test_a_controller_that_is_not_there_is_named() -> None:
    async def block() -> None:
        async with inline_runner(Address("http://127.0.0.1:9/control", "t", "inline")):
            await asyncio.Event().wait()

    with pytest.raises(ChannelClosedError, match="cannot reach the controller"):
        await block()
