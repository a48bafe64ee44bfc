"""What runners cannot reach is said to the user where the network is to blame, and nowhere else."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from agentflow import load_config
from agentflow.channel.messages import Hello, WorkerDown, WorkerUnreachable
from agentflow.controller.control import Peer
from agentflow.controller.controller import Controller
from tests.scripted import scripted

pytestmark = pytest.mark.asyncio


def peer(role: str, name: str) -> Peer:
    return Peer(Hello(role, name, 1, "node1", ""), anyio.create_memory_object_stream[bytes](10)[0])


@asynccontextmanager
async def controlled(run_dir: Path, said: list[str]) -> AsyncIterator[Controller]:
    """A controller whose one worker is called endpoint-0."""
    async with scripted() as server:
        config, _ = load_config(None, [f"base_url={server.url}", "rollout.runners=inline"])
        async with Controller(config, run_dir=run_dir, on_message=said.append) as controller:
            yield controller


async def test_a_worker_that_is_up_is_said_to_be_out_of_reach_and_one_that_is_gone_or_down_is_not(
    tmp_path: Path,
) -> None:
    said: list[str] = []
    runner = peer("runner", "runner-7")
    async with controlled(tmp_path / "r", said) as controller:
        await controller.received(runner, WorkerUnreachable("gone-0", "10.0.0.7:1", "Connection refused"))
        assert said == []
        await controller.received(runner, WorkerUnreachable("endpoint-0", "10.0.0.7:2", "Connection refused"))
        assert said.pop().startswith("runner-7 on node1 cannot reach endpoint-0 at 10.0.0.7:2 (Connection refused): ")
        await controller.received(peer("supervisor", "endpoint-0"), WorkerDown("endpoint-0", "It ended."))
        await controller.received(runner, WorkerUnreachable("endpoint-0", "10.0.0.7:3", "Connection refused"))
        assert said == []


async def test_nothing_is_said_to_be_out_of_reach_once_the_controller_is_ending(tmp_path: Path) -> None:
    said: list[str] = []
    async with controlled(tmp_path / "r", said) as controller:
        pass
    assert controller.workers.is_healthy("endpoint-0")
    runner = peer("runner", "runner-7")
    await controller.received(runner, WorkerUnreachable("endpoint-0", "10.0.0.7:2", "Connection refused"))
    assert said == []
