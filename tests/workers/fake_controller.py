"""The controller's end of the control channel, as far as a supervisor sees it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TypeVar

import aiohttp
import anyio
from aiohttp import web

from agentflow.channel.client import Address
from agentflow.channel.messages import MAX_FRAME_BYTES, Hello, Message, decode_to_controller, encode

LIMIT_S = 120
TOKEN = "token-of-this-run"
M = TypeVar("M", bound=Message)


class FakeController:
    """Records what it is told."""

    def __init__(self) -> None:
        self.heard: list[Message] = []
        self.port = 0
        self._site: web.TCPSite
        self._connections: list[web.WebSocketResponse] = []
        self._news = anyio.Event()
        self._read = 0

    @property
    def address(self) -> Address:
        return Address(f"http://127.0.0.1:{self.port}/control", TOKEN, "worker-0")

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[None]:
        app = web.Application()
        app.router.add_get("/control", self._serve)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        self._site = web.TCPSite(runner, "127.0.0.1", 0)
        await self._site.start()
        self.port = runner.addresses[0][1]
        try:
            yield
        finally:
            await self.drop_connections()
            await runner.cleanup()

    async def drop_connections(self) -> None:
        """Close every connection; new ones are welcome, also while the old ones are being closed."""
        dropped, self._connections = self._connections, []
        for connection in dropped:
            await connection.close()

    async def stop_listening(self) -> None:
        """As a controller that is gone."""
        await self._site.stop()
        await self.drop_connections()

    async def _serve(self, request: web.Request) -> web.WebSocketResponse:
        assert request.headers["Authorization"] == f"Bearer {TOKEN}"
        connection = web.WebSocketResponse(max_msg_size=MAX_FRAME_BYTES)
        await connection.prepare(request)
        self._connections.append(connection)
        async for frame in connection:
            if frame.type is aiohttp.WSMsgType.BINARY:
                self.heard.append(decode_to_controller(frame.data))
                self._news.set()
                self._news = anyio.Event()
        return connection

    async def tell(self, message: Message) -> None:
        """To the one that connected last."""
        await self._connections[-1].send_bytes(encode(message))

    async def hear(self, kind: type[M], limit_s: float = LIMIT_S) -> M:
        """The next message of that kind; those before it count as read."""
        with anyio.fail_after(limit_s):
            while True:
                for i in range(self._read, len(self.heard)):
                    message = self.heard[i]
                    if isinstance(message, kind):
                        self._read = i + 1
                        return message
                await self._news.wait()

    async def greet(self, message: Message) -> Hello:
        """Wait for a Hello and answer it."""
        hello = await self.hear(Hello)
        await self.tell(message)
        return hello
