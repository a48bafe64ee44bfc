"""The HTTP front of the embedded engine: wants the run's key, stands between agents and llama.cpp's own server."""

from __future__ import annotations

import hmac
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import msgspec
from aiohttp import web

from agentflow.workers.llamacpp.reply import Assembly, Stream
from agentflow.workers.llamacpp.request import Request, RequestError, prepare

DONE = b"[DONE]"
PASSED = ("/health", "/metrics", "/v1/models")
INNER_ANSWER_S = 60.0  # for the three above; llama.cpp answers /metrics between two batches


class UpstreamError(Exception):
    """llama.cpp answered with an error instead of a (further) chunk."""

    def __init__(self, status: int, body: bytes) -> None:
        super().__init__(status)
        self.status = status
        self.body = body


class Front:
    """The application.

    Args:
        inner_url: llama.cpp's own server, on loopback.
        inner_key: its key, which nobody else knows.
        api_key: what agents must send as bearer token.
        embeds: the model is one that makes embeddings.
    """

    def __init__(self, inner_url: str, inner_key: str, api_key: str, *, embeds: bool) -> None:
        self._inner_url = inner_url
        self._inner_key = inner_key
        self._authorization = f"Bearer {api_key}".encode()
        self._embeds = embeds
        self._session: aiohttp.ClientSession

    def application(self) -> web.Application:
        """An aiohttp application; run it with ``handler_cancellation``, so that an agent that goes away cancels."""
        app = web.Application(client_max_size=0, middlewares=[self._require_key])  # 0: a context may be long
        app.cleanup_ctx.append(self._own_session)
        for path in PASSED:
            app.router.add_get(path, self._pass)
        app.router.add_post("/v1/chat/completions", self._generate)
        app.router.add_post("/v1/completions", self._generate)
        app.router.add_post("/v1/embeddings", self._embed)
        return app

    async def _own_session(self, app: web.Application) -> AsyncIterator[None]:
        # As many connections as there are agents' requests; how long a generation may take is the caller's to say.
        async with aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0),
            timeout=aiohttp.ClientTimeout(total=None),
            headers={"Authorization": f"Bearer {self._inner_key}"},
            trust_env=False,
        ) as self._session:
            yield

    @web.middleware
    async def _require_key(self, request: web.Request, handler: Any) -> web.StreamResponse:
        given = request.headers.get("Authorization", "").encode()
        if request.path != "/health" and not hmac.compare_digest(given, self._authorization):
            return refusal(401, "This worker wants the key of its run as bearer token.")
        response: web.StreamResponse = await handler(request)
        return response

    async def _pass(self, request: web.Request) -> web.Response:
        timeout = aiohttp.ClientTimeout(total=INNER_ANSWER_S)
        async with self._session.get(self._inner_url + request.path, timeout=timeout) as inner:
            return web.Response(status=inner.status, body=await inner.read(), content_type=inner.content_type)

    async def _embed(self, request: web.Request) -> web.Response:
        if not self._embeds:
            return refusal(400, "This worker's model makes no embeddings.")
        body = await request.read()
        async with self._session.post(
            self._inner_url + request.path, data=body, headers={"Content-Type": "application/json"}
        ) as inner:
            return web.Response(status=inner.status, body=await inner.read(), content_type=inner.content_type)

    async def _generate(self, request: web.Request) -> web.StreamResponse:
        try:
            prepared = prepare(await request.read(), chat=request.path == "/v1/chat/completions")
        except RequestError as e:
            return refusal(400, str(e))
        async with self._session.post(
            self._inner_url + request.path, data=prepared.body, headers={"Content-Type": "application/json"}
        ) as inner:
            if inner.status != 200:
                return web.Response(status=inner.status, body=await inner.read(), content_type=inner.content_type)
            if prepared.streamed:
                return await _stream(request, prepared, inner.content)
            return await _plain(prepared, inner.content)


async def _plain(prepared: Request, content: aiohttp.StreamReader) -> web.Response:
    stream, assembly = Stream(prepared), Assembly()
    try:
        async for chunk in chunks(content):
            for out in stream.feed(chunk):
                assembly.add(out)
    except UpstreamError as e:
        return web.Response(status=e.status, body=e.body, content_type="application/json")
    if usage := stream.usage():
        assembly.add(usage)
    return web.Response(body=msgspec.json.encode(assembly.reply()), content_type="application/json")


async def _stream(request: web.Request, prepared: Request, content: aiohttp.StreamReader) -> web.StreamResponse:
    stream = Stream(prepared)
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-cache"})
    await response.prepare(request)
    try:
        async for chunk in chunks(content):
            for out in stream.feed(chunk):
                await response.write(event(msgspec.json.encode(out)))
    except UpstreamError as e:
        await response.write(event(e.body))  # and no [DONE]: the agent sees that it broke
        return response
    if prepared.wants_usage and (usage := stream.usage()):
        await response.write(event(msgspec.json.encode(usage)))
    await response.write(event(DONE))
    return response


def event(data: bytes) -> bytes:
    """One server-sent event."""
    return b"data: " + data + b"\n\n"


async def chunks(content: aiohttp.StreamReader) -> AsyncIterator[dict[str, Any]]:
    """The JSON objects of a stream of server-sent events; comments (llama.cpp's keep-alive) are left out.

    Raises:
        UpstreamError: an event is an error, or the stream ends without ``[DONE]``.
    """
    rest = b""
    async for piece in content.iter_any():
        *events, rest = (rest + piece).split(b"\n\n")
        for one in events:
            kind, _, data = one.strip().partition(b":")
            data = data.strip()
            if data == DONE:
                return
            if kind == b"error":
                raise UpstreamError(500, b'{"error":%b}' % data)
            if kind == b"data":
                chunk = msgspec.json.decode(data, type=dict[str, Any] | None)
                if chunk is None:
                    continue  # llama.cpp begins so where there are several prompts
                if "error" in chunk:
                    raise UpstreamError(_status(chunk["error"]), data)
                yield chunk
    raise UpstreamError(502, b'{"error":{"code":502,"message":"llama.cpp broke off its reply","type":"server_error"}}')


def _status(error: Any) -> int:
    code = error.get("code") if isinstance(error, dict) else None
    return code if isinstance(code, int) and 400 <= code < 600 else 500


def refusal(status: int, message: str) -> web.Response:
    """An error in the shape that OpenAI clients read."""
    error = {"error": {"code": status, "message": message, "type": "invalid_request_error"}}
    return web.Response(status=status, body=msgspec.json.encode(error), content_type="application/json")
