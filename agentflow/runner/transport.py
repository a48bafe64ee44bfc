"""The in-process door: an HTTP client whose requests to its episode's URL never touch a socket."""

from __future__ import annotations

import asyncio
import datetime
import functools
import importlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from agentflow.runner.connections import CONNECT_TIMEOUT_S, tls
from agentflow.runner.reply import ByteStream, Reply, StreamBrokenError

if TYPE_CHECKING:
    from agentflow.runner.core import Core

Headers = Iterable[tuple[bytes, bytes]]
Forward = Callable[[str, str, Headers, bytes], Awaitable[Reply]]  # method, target below the key, headers, body


def in_process_client(core: Core, root: str, forward: Forward) -> Any:
    """An async client for one episode.

    Args:
        root: what the episode's URLs begin with, without ``/v1``.
        forward: the core.

    Returns:
        ``httpx2.AsyncClient`` or ``httpx.AsyncClient``, by ``settings.http_client``. SDKs take its timeout over; it
        is longer than any call can take, so that a slow model is not cut off by a default of 5 or 600 seconds.
    """
    library, transport = _library(core.settings.http_client)
    return library.AsyncClient(
        transport=transport(core, root, forward), timeout=_timeout(core.settings.http_client, longest_call_s(core))
    )


def sync_client(core: Core) -> Any:
    """A blocking client; it reaches the gateway through its socket, on the door thread's loop."""
    library, _ = _library(core.settings.http_client)
    transport = library.HTTPTransport(verify=tls(), trust_env=False)
    return library.Client(
        transport=transport, timeout=_timeout(core.settings.http_client, longest_call_s(core)), trust_env=False
    )


def longest_call_s(core: Core) -> float:
    """No call takes longer, whatever happens to it: each try its timeout, a wait for a place before it, the rest."""
    settings = core.settings
    return (settings.request_retries + 3) * 2 * settings.request_timeout_s + settings.retry_window_s


@functools.cache
def _library(name: str) -> tuple[Any, Any]:
    """``httpx2`` or ``httpx``, and the transport class for it: they share an interface, but no base class."""
    library: Any = importlib.import_module(name)

    class Body(library.AsyncByteStream):  # type: ignore[misc]
        def __init__(self, stream: ByteStream, timeout_s: float | None) -> None:
            self._stream = stream
            self._timeout_s = timeout_s

        async def __aiter__(self) -> AsyncIterator[bytes]:
            try:
                while True:
                    async with asyncio.timeout(self._timeout_s):
                        chunk = await anext(self._stream, b"")
                    if not chunk:
                        return
                    yield chunk
            except StreamBrokenError as e:
                raise library.RemoteProtocolError(str(e)) from e
            except TimeoutError as e:
                raise library.ReadTimeout("the client's own timeout passed between two pieces of a stream") from e

        async def aclose(self) -> None:
            await self._stream.aclose()

    class InProcess(library.AsyncBaseTransport):  # type: ignore[misc]
        def __init__(self, core: Core, root: str, forward: Forward) -> None:
            self._core = core
            self._forward = forward
            self._longest_s = longest_call_s(core)
            url = urlsplit(f"{root}/")
            self._netloc, self._path = url.netloc.encode(), url.path.encode()

        async def handle_async_request(self, request: Any) -> Any:
            url = request.url
            target = url.raw_path
            if not target.startswith(self._path) or url.netloc != self._netloc:
                return await self._core.connections.here().others().handle_async_request(request)
            started = time.perf_counter()
            body = await request.aread()
            ask = self._forward(request.method, target[len(self._path) - 1 :].decode(), request.headers.raw, body)
            timeout_s = self._own_timeout(request)
            if timeout_s is None:
                reply = await ask
            else:
                try:
                    async with asyncio.timeout(timeout_s):
                        reply = await ask
                except TimeoutError as e:
                    raise library.ReadTimeout(f"no answer within the client's own {timeout_s:g} s") from e
            if reply.stream is not None:
                return library.Response(reply.status, headers=reply.headers, stream=Body(reply.stream, timeout_s))
            response = library.Response(reply.status, headers=reply.headers, content=reply.body)
            response.elapsed = datetime.timedelta(seconds=time.perf_counter() - started)
            return response

        def _own_timeout(self, request: Any) -> float | None:
            """The agent's own read timeout, where it set one that can matter."""
            timeout: float | None = request.extensions.get("timeout", {}).get("read")
            return timeout if timeout is not None and timeout < self._longest_s else None

    return library, InProcess


@functools.cache
def _timeout(library: str, seconds: float) -> Any:
    return _library(library)[0].Timeout(seconds, connect=CONNECT_TIMEOUT_S)
