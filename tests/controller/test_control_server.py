"""The controller's end of the channel, with a real socket."""

import asyncio

import anyio
import pytest

from agentflow.channel.client import Address, ChannelClosedError, connect
from agentflow.channel.messages import Hello, Play, RunnerReady, ToController
from agentflow.controller.control import Peer, listen
from agentflow.episode import Episode


class HangsUp:
    """A receiver that has enough after the first message."""

    def __init__(self) -> None:
        self.messages: list[ToController] = []
        self.closed = asyncio.Event()

    def joined(self, peer: Peer) -> bool:
        return True

    async def received(self, peer: Peer, message: ToController) -> None:
        self.messages.append(message)
        peer.hang_up()

    def left(self, peer: Peer) -> None:
        self.closed.set()


@pytest.mark.asyncio
async def test_what_a_peer_has_still_sent_when_it_is_hung_up_on_is_not_read() -> None:
    receiver = HangsUp()
    async with (
        listen(receiver, "token", "127.0.0.1", heartbeat_s=0.0) as listening,
        connect(Address(listening.url, "token", "runner-0", 0.0), "runner") as channel,
    ):
        for i in range(10):
            await channel.send(RunnerReady(str(i)))
        await receiver.closed.wait()
    assert receiver.messages == [RunnerReady("0")]


@pytest.mark.asyncio
async def test_without_the_token_of_the_run_nobody_gets_in() -> None:
    receiver = HangsUp()
    async with listen(receiver, "token", "127.0.0.1", heartbeat_s=0.0) as listening:
        with pytest.raises(ChannelClosedError, match="401"):
            async with connect(Address(listening.url, "another token", "runner-0", 0.0), "runner"):
                pass
    assert not receiver.messages


def test_a_message_that_cannot_be_encoded_is_an_error_where_it_is_posted() -> None:
    outbox, _ = anyio.create_memory_object_stream[bytes](10)
    peer = Peer(Hello("runner", "runner-0", 1, "here", "0"), outbox)
    with pytest.raises(OverflowError):
        peer.post(Play(Episode("a", 0, seed=1 << 80), "agent-0", {}, "w"))
