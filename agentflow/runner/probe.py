"""Whether this runner can reach each worker, asked once, so that a closed port is named before calls fail at it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from urllib.parse import urlsplit

import anyio.abc

from agentflow.channel.messages import WorkerInfo, WorkerUnreachable
from agentflow.errors import system_reason
from agentflow.proxy import proxy_to
from agentflow.runner.connections import CONNECT_TIMEOUT_S


class Probe:
    """Opens a connection to every worker that it has not seen at that address.

    Args:
        tell: is given what could not be reached.
    """

    def __init__(self, tell: Callable[[WorkerUnreachable], None]) -> None:
        self._tell = tell
        self._seen: set[tuple[str, str]] = set()

    def look(self, workers: Iterable[WorkerInfo], tasks: anyio.abc.TaskGroup) -> None:
        """Try those that are new, each in a task of its own."""
        for worker in workers:
            if not worker.healthy or (worker.name, worker.url) in self._seen:
                continue
            self._seen.add((worker.name, worker.url))
            if not (worker.is_external and proxy_to(worker.url)):  # what lies behind a proxy is not reached directly
                tasks.start_soon(self._try, worker)

    async def _try(self, worker: WorkerInfo) -> None:
        url = urlsplit(worker.url)
        host, port = url.hostname or "", url.port or (443 if url.scheme == "https" else 80)
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                _, writer = await asyncio.open_connection(host, port)
        except TimeoutError:
            self._tell(WorkerUnreachable(worker.name, f"{host}:{port}", f"no answer within {CONNECT_TIMEOUT_S:g} s"))
        except OSError as e:
            self._tell(WorkerUnreachable(worker.name, f"{host}:{port}", system_reason(e)))
        else:
            writer.close()
