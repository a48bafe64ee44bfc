"""The end of the control channel that runners and supervisors hold."""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

import aiohttp

from agentflow import __version__
from agentflow.channel.messages import (
    MAX_FRAME_BYTES,
    Hello,
    Message,
    ToProcess,
    decode_to_process,
    encode,
)
from agentflow.errors import AgentflowError

CONNECT_TIMEOUT_S = 30.0


class ChannelClosedError(AgentflowError):
    """The controller is gone, or this process was told off."""


@dataclass(frozen=True)
class Address:
    """Where the controller listens, and what this process is called there.

    Read from the environment that the scheduler hands over: ``AGENTFLOW_CONTROL_URL``, ``AGENTFLOW_TOKEN`` (or
    ``AGENTFLOW_TOKEN_FILE``, a 0600 file), ``AGENTFLOW_NAME``, and ``AGENTFLOW_HEARTBEAT_S`` (0: none, for a
    controller that a debugger may hold up).
    """

    url: str
    token: str
    name: str
    heartbeat_s: float = 30.0

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] = os.environ) -> Address:
        """Raises KeyError naming the variable that is missing."""
        token = environ.get("AGENTFLOW_TOKEN")
        if token is None:
            with open(environ["AGENTFLOW_TOKEN_FILE"], encoding="utf-8") as f:
                token = f.read().strip()
        return cls(
            url=environ["AGENTFLOW_CONTROL_URL"],
            token=token,
            name=environ["AGENTFLOW_NAME"],
            heartbeat_s=float(environ.get("AGENTFLOW_HEARTBEAT_S", "30")),
        )

    def environment(self) -> dict[str, str]:
        """The inverse of :meth:`from_environment`."""
        return {
            "AGENTFLOW_CONTROL_URL": self.url,
            "AGENTFLOW_TOKEN": self.token,
            "AGENTFLOW_NAME": self.name,
            "AGENTFLOW_HEARTBEAT_S": str(self.heartbeat_s),
        }


class Channel:
    """An open channel. ``send`` may be awaited from any task of its loop; iterate to receive."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket

    async def send(self, message: Message) -> None:
        """Send one message; raises :class:`ChannelClosedError` when the controller is gone."""
        try:
            await self._socket.send_bytes(encode(message))
        except (ConnectionError, aiohttp.ClientError) as e:
            raise ChannelClosedError(f"The control channel to the controller broke: {e!r}") from e

    async def __aiter__(self) -> AsyncIterator[ToProcess]:
        async for frame in self._socket:
            if frame.type is not aiohttp.WSMsgType.BINARY:
                break
            yield decode_to_process(frame.data)


@asynccontextmanager
async def connect(address: Address, role: str) -> AsyncIterator[Channel]:
    """Connect, say Hello, and hand over the channel; it is closed when the block ends.

    Raises:
        ChannelClosedError: the controller cannot be reached or refuses the token.
    """
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_S)
    # trust_env stays off: a proxy in the environment is never used for our own addresses.
    async with aiohttp.ClientSession(timeout=timeout, trust_env=False) as session:
        try:
            ws = await session.ws_connect(
                address.url,
                headers={"Authorization": f"Bearer {address.token}"},
                heartbeat=address.heartbeat_s or None,
                max_msg_size=MAX_FRAME_BYTES,
            )
        except (aiohttp.ClientError, TimeoutError, OSError) as e:
            raise ChannelClosedError(
                f"{role} {address.name} on {socket.gethostname()} cannot reach the controller at {address.url}: {e!r}"
            ) from e
        async with ws:
            channel = Channel(ws)
            await channel.send(Hello(role, address.name, os.getpid(), socket.gethostname(), __version__))
            yield channel
