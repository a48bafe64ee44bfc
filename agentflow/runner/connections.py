"""Connections to workers and, for agents that ask, to other hosts: one set an event loop."""

from __future__ import annotations

import asyncio
import functools
import importlib
import ssl
import threading
from typing import Any

import aiohttp

CONNECT_TIMEOUT_S = 10.0  # a node that is gone drops packets; its calls should be elsewhere by then
# uvicorn (vLLM, SGLang) and llama.cpp close idle connections after 5 s; a connection that is reused just then breaks.
KEEPALIVE_S = 3.0
READ_BUFFER_BYTES = (
    1 << 18
)  # aiohttp pauses reading beyond twice this; replies with logprobs are larger than its 64 KiB


@functools.cache
def tls() -> ssl.SSLContext:
    """The process's one TLS context; making one costs 20-50 ms."""
    return ssl.create_default_context()


class Connections:
    """What one event loop holds open."""

    def __init__(self, concurrency: int, http_library: str) -> None:
        self._concurrency = concurrency
        self._http_library = http_library
        self._others: Any = None
        # No limit here: calls in flight are limited a worker, by its lane. A proxy is named by the call that needs it.
        self.workers = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ssl=tls(), keepalive_timeout=KEEPALIVE_S),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_S),
            cookie_jar=aiohttp.DummyCookieJar(),
            read_bufsize=READ_BUFFER_BYTES,
            trust_env=False,
        )

    def others(self) -> Any:
        """The shared transport to hosts that are no workers (``httpx2`` or ``httpx``)."""
        if self._others is None:
            library = importlib.import_module(self._http_library)
            limits = library.Limits(max_connections=None, max_keepalive_connections=self._concurrency)
            self._others = library.AsyncHTTPTransport(verify=tls(), trust_env=False, limits=limits)
        return self._others

    async def aclose(self) -> None:
        """Close all of them."""
        await self.workers.close()
        if self._others is not None:
            await self._others.aclose()


class ConnectionsByLoop:
    """:class:`Connections` of the running loop, made when first asked for."""

    def __init__(self, concurrency: int, http_library: str) -> None:
        self._concurrency = concurrency
        self._http_library = http_library
        self._lock = threading.Lock()
        self._by_loop: dict[asyncio.AbstractEventLoop, Connections] = {}

    def here(self) -> Connections:
        """Those of the running loop."""
        loop = asyncio.get_running_loop()
        found = self._by_loop.get(loop)
        if found is None:
            found = Connections(self._concurrency, self._http_library)
            with self._lock:
                # An agent may run a loop of its own for a moment (asyncio.run in a thread): forget those that ended.
                self._by_loop = {k: v for k, v in self._by_loop.items() if not k.is_closed()} | {loop: found}
        return found

    async def aclose(self) -> None:
        """Close those of the running loop."""
        with self._lock:
            found = self._by_loop.pop(asyncio.get_running_loop(), None)
        if found is not None:
            await found.aclose()
