"""A supervisor's link to its controller: it lasts over broken connections, up to a grace."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from contextlib import suppress

import anyio

from agentflow.channel.client import Address, Channel, ChannelClosedError, connect
from agentflow.channel.messages import Message, ToProcess

FIRST_RETRY_S = 0.2
LONGEST_RETRY_S = 5.0


class Link:
    """Speaks to the controller when it is there.

    Args:
        role: as which this process says Hello.
        grace_s: how long to try without a connection. May be set at any time.
    """

    def __init__(self, address: Address, role: str, grace_s: float) -> None:
        self._address = address
        self._role = role
        self.grace_s = grace_s
        self._channel: Channel | None = None
        self._status: Message | None = None

    async def say(self, message: Message) -> None:
        """Send if there is a connection, else drop it: the next one of its kind says more."""
        if self._channel is not None:
            with suppress(ChannelClosedError):  # the reading side sees that, too
                await self._channel.send(message)

    async def set_status(self, status: Message) -> None:
        """Say what this process is now, and say it again to every controller that it connects to."""
        self._status = status
        await self.say(status)

    async def hold(self, receive: Callable[[ToProcess], Awaitable[None]]) -> None:
        """Connect, hand messages to ``receive``, connect again when the connection breaks.

        Raises:
            ChannelClosedError: there has been no controller for the grace.
        """
        lost_at, retry_s = time.monotonic(), FIRST_RETRY_S
        while True:
            reason = "it closed the connection"
            try:
                async with connect(self._address, self._role) as channel:
                    self._channel = channel
                    retry_s = FIRST_RETRY_S
                    if self._status is not None:
                        await channel.send(self._status)
                    async for message in channel:
                        await receive(message)
            except ChannelClosedError as e:
                reason = str(e)
            if self._channel is not None:
                self._channel = None
                lost_at = time.monotonic()
            left = self.grace_s - (time.monotonic() - lost_at)
            if left <= 0:
                raise ChannelClosedError(f"There has been no controller for {self.grace_s:g} s: {reason}")
            await anyio.sleep(min(retry_s, left))
            retry_s = min(2 * retry_s, LONGEST_RETRY_S)
