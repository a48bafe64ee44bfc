"""The controller's end of the channel, with a real socket."""

import asyncio

import pytest

from agentflow.channel.client import Address, connect
from agentflow.channel.messages import RunnerReady, ToController
from agentflow.controller.control import Peer, listen


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
