"""The HTTP door: any client in any language, one URL an episode."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web
from multidict import CIMultiDict

from agentflow.runner.dialect import Dialect, route
from agentflow.runner.forward import Forwarder
from agentflow.runner.logs import hide_keys_in_logs
from agentflow.runner.reply import CLOSED, EPISODE_OVER, NO_RETRY, Reply, StreamBrokenError, error_reply

# OPENAI_BASE_URL of a runner's environment points below this: episodes share the process, so the environment cannot
# name one of them.
TRIPWIRE_KEY = "use-your-episode-url"
TRIPWIRE = (
    "This request does not say which episode it belongs to, because its client took its URL from the environment. "
    'Give the client the base_url (or http_client) that run() receives; in a child process, "agentflow.episode_env()".'
)
UNKNOWN = "No episode has this URL. Use the base_url that run() receives, whole."

MAX_BODY_BYTES = 256 << 20  # a million tokens of context are 4 MB; what is left is room for images
BACKLOG = 1024
SHUTDOWN_S = 1.0  # for calls still on their way when the runner ends


class Gateway:
    """Serves a forwarder's doors; ``url`` is its root, without a slash at the end."""

    def __init__(self, url: str, forwarder: Forwarder) -> None:
        self.url = url
        self._forwarder = forwarder

    @classmethod
    @asynccontextmanager
    async def serve(cls, forwarder: Forwarder, host: str = "127.0.0.1") -> AsyncIterator[Gateway]:
        """Listen on a free port of ``host`` until the block ends, on the running loop."""
        hide_keys_in_logs()
        gateway = cls("", forwarder)
        app = web.Application(client_max_size=MAX_BODY_BYTES)
        app.router.add_route("*", "/{target:.*}", gateway._handle)
        runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=SHUTDOWN_S)
        await runner.setup()
        try:
            await web.TCPSite(runner, host, 0, backlog=BACKLOG).start()
            address, port = runner.addresses[0][:2]
            gateway.url = f"http://[{address}]:{port}" if ":" in address else f"http://{address}:{port}"
            forwarder.gateway_url = gateway.url
            yield gateway
        finally:
            await runner.cleanup()
            await forwarder.aclose()

    @property
    def tripwire_url(self) -> str:
        """A base URL that answers every request with a 400 that says why."""
        return f"{self.url}/{TRIPWIRE_KEY}/v1"

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        key, _, below = request.raw_path.lstrip("/").partition("/")
        target = f"/{below}"
        door = self._forwarder.door(key)
        if door is None:
            return _whole(self._turned_away(request.method, key, target))
        try:
            body = await request.read()
        except web.HTTPRequestEntityTooLarge:
            message = f"The request is larger than {MAX_BODY_BYTES >> 20} MiB, the most the gateway takes."
            return _whole(error_reply(route(request.method, target).dialect, 413, message))
        # The body is decompressed by now.
        headers = [(k, v) for k, v in request.raw_headers if k.lower() != b"content-encoding"]
        reply = await self._forwarder.forward(door, request.method, target, headers, body)
        return _whole(reply) if reply.stream is None else await _streamed(request, reply)

    def _turned_away(self, method: str, key: str, target: str) -> Reply:
        dialect: Dialect = route(method, target).dialect
        if key == TRIPWIRE_KEY:
            return error_reply(dialect, 400, TRIPWIRE, NO_RETRY)
        if self._forwarder.was_open(key):
            return error_reply(dialect, EPISODE_OVER, CLOSED, NO_RETRY)
        return error_reply(dialect, 404, UNKNOWN, NO_RETRY)


def _whole(reply: Reply) -> web.Response:
    return web.Response(status=reply.status, headers=_headers(reply), body=reply.body)


async def _streamed(request: web.Request, reply: Reply) -> web.StreamResponse:
    response = web.StreamResponse(status=reply.status, headers=_headers(reply))
    stream = reply.stream
    assert stream is not None
    try:
        async for chunk in stream:
            if not response.prepared:
                await response.prepare(request)
            await response.write(chunk)
    except StreamBrokenError:
        # The one way in HTTP to say that a reply which has begun will not be whole.
        if request.transport is not None:
            request.transport.abort()
    finally:
        await stream.aclose()
    return response


def _headers(reply: Reply) -> CIMultiDict[str]:
    return CIMultiDict((name.decode("latin-1"), value.decode("latin-1")) for name, value in reply.headers)
