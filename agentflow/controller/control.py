"""The controller's end of the control channel: a WebSocket server that turns sockets into peers.

A peer is a connected runner or supervisor. Its messages are handed over one after the other; its socket's end is the
news that the process, its node or the network between is gone.
"""

from __future__ import annotations

import contextlib
import hmac
import logging
import math
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Protocol

import anyio
import msgspec
from aiohttp import WSMsgType, web
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from agentflow.channel.messages import (
    MAX_FRAME_BYTES,
    Goodbye,
    Hello,
    Message,
    ToController,
    decode_to_controller,
    encode,
)
from agentflow.errors import SchedulerError

log = logging.getLogger(__name__)

HELLO_TIMEOUT_S = 30.0
LOOPBACK = "127.0.0.1"


class Peer:
    """A connected process. ``post`` never blocks: what is in flight to a peer is bounded by what admission lets in."""

    def __init__(self, hello: Hello, outbox: MemoryObjectSendStream[bytes]) -> None:
        self.hello = hello
        self.said_goodbye: Goodbye | None = None
        self.hung_up = False
        self._outbox = outbox

    @property
    def name(self) -> str:
        """The name of its copy, for instance ``runner-0``."""
        return self.hello.name

    def post(self, message: Message) -> None:
        """Send; a message to a peer that is going away is dropped, and its leaving is news of its own.

        Encoded here and now: what has no encoding is an error of the caller, not of the channel.
        """
        frame = encode(message)
        try:
            self._outbox.send_nowait(frame)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            log.debug("%s went away before %s was sent", self.name, type(message).__name__)

    def hang_up(self) -> None:
        """Close the channel; the process sees it and ends. What it has still sent is not read."""
        self.hung_up = True
        self._outbox.close()


class Receiver(Protocol):
    """What the controller does with peers."""

    def joined(self, peer: Peer) -> bool:
        """A process said Hello; False turns it away (an unknown or fenced name)."""

    def received(self, peer: Peer, message: ToController) -> Awaitable[None]:
        """A message of a peer; the next one is read when this returns."""

    def left(self, peer: Peer) -> None:
        """A peer's socket closed."""


@dataclass(frozen=True)
class Listening:
    """Where the control server listens: ``ws://host:port/control``."""

    url: str


@asynccontextmanager
async def listen(receiver: Receiver, token: str, host: str, heartbeat_s: float) -> AsyncIterator[Listening]:
    """Serve the control channel on an ephemeral port until the block ends.

    Args:
        token: the run's bearer token.
        host: address to bind to; loopback unless the configuration names another.
        heartbeat_s: ping interval that finds dead TCP connections; 0 switches it off (a debugger may hold us up).

    Raises:
        SchedulerError: the address cannot be bound.
    """
    connection = _connection_handler(receiver, token, heartbeat_s)
    app = web.Application()
    app.router.add_get("/control", connection)
    runner = web.AppRunner(app, handle_signals=False, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, 0)
        try:
            await site.start()
        except OSError as e:
            raise SchedulerError(
                f"The controller cannot listen on {host}: {e.strerror}; set cluster.controller_host to an address of "
                "this machine."
            ) from e
        port = runner.addresses[0][1]
        yield Listening(f"ws://{host}:{port}/control")
    finally:
        with anyio.CancelScope(shield=True):
            await runner.cleanup()


def _connection_handler(
    receiver: Receiver, token: str, heartbeat_s: float
) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    expected = f"Bearer {token}".encode()

    async def connection(request: web.Request) -> web.StreamResponse:
        if not hmac.compare_digest(request.headers.get("Authorization", "").encode(), expected):
            raise web.HTTPUnauthorized(text="The control channel wants the token of this run.")
        socket = web.WebSocketResponse(heartbeat=heartbeat_s or None, max_msg_size=MAX_FRAME_BYTES, compress=False)
        await socket.prepare(request)
        hello = await _hello(socket)
        if hello is not None:
            outbox, inbox = anyio.create_memory_object_stream[bytes](math.inf)
            peer = Peer(hello, outbox)
            if receiver.joined(peer):
                await _serve(receiver, peer, socket, inbox)
        await socket.close()
        return socket

    return connection


async def _hello(socket: web.WebSocketResponse) -> Hello | None:
    with anyio.move_on_after(HELLO_TIMEOUT_S):
        frame = await socket.receive()
        if frame.type is WSMsgType.BINARY:
            with contextlib.suppress(msgspec.DecodeError):
                message = decode_to_controller(frame.data)
                return message if isinstance(message, Hello) else None
    return None


async def _serve(
    receiver: Receiver, peer: Peer, socket: web.WebSocketResponse, inbox: MemoryObjectReceiveStream[bytes]
) -> None:
    async def write() -> None:
        async with inbox:
            async for frame in inbox:
                try:
                    await socket.send_bytes(frame)
                except ConnectionError:
                    return
        await socket.close()

    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(write)
            async for frame in socket:
                if frame.type is not WSMsgType.BINARY or peer.hung_up:
                    break
                try:
                    message = decode_to_controller(frame.data)
                except msgspec.DecodeError as e:
                    log.error("%s sent a frame that is no message (%s); hanging up", peer.name, e)
                    break
                if isinstance(message, Goodbye):
                    peer.said_goodbye = message
                    continue
                await receiver.received(peer, message)
            tasks.cancel_scope.cancel()
    finally:
        receiver.left(peer)
