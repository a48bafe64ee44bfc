"""The worker table as the doors use it: pushed as a whole, read without a lock, awaited from any loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Protocol

from yarl import URL

from agentflow.channel.messages import RoleSettings, WorkerInfo
from agentflow.episode import DEFAULT_ROLE
from agentflow.runner.dialect import Dialect
from agentflow.runner.lane import Lane
from agentflow.runner.policy import choose


class InFlight(Protocol):
    """A call on its way to a worker."""

    def worker_gone(self, endpoint: Endpoint) -> None:
        """That worker is gone; from any thread."""


class Endpoint:
    """One incarnation of a worker: what it serves, its entrance, and the calls on their way to it."""

    def __init__(self, info: WorkerInfo, calls: int) -> None:
        self.info = info
        self.lane = Lane(calls)
        self.in_flight: set[InFlight] = set()
        self.refuses_seed = False
        self._urls: dict[str, URL] = {}

    def url(self, path: str, query: str) -> URL:
        """The address of ``path`` there."""
        if query:
            return URL(f"{self.info.url.rstrip('/')}{path}?{query}", encoded=True)
        url = self._urls.get(path)
        if url is None:
            url = URL(f"{self.info.url.rstrip('/')}{path}", encoded=True)
            if len(self._urls) < 64:  # paths come from agents: keep a handful, not whatever they make up
                self._urls[path] = url
        return url

    def credentials(self, dialect: Dialect) -> list[tuple[str, str]]:
        """The worker's key as headers. Anthropic's own endpoint wants a header of its own."""
        key = self.info.api_key
        if not key:
            return []
        bearer = [("Authorization", f"Bearer {key}")]
        return [*bearer, ("x-api-key", key)] if dialect is Dialect.MESSAGES else bearer

    def serves(self, dialect: Dialect) -> bool:
        """False where the engine lacks the dialect and agentflow translates it to chat."""
        return dialect not in (Dialect.RESPONSES, Dialect.MESSAGES) or dialect in self.info.apis


class Snapshot:
    """The table at one moment. Immutable but for the endpoints' own state."""

    def __init__(self, endpoints: Mapping[str, Endpoint]) -> None:
        self.endpoints = endpoints
        self.by_role: dict[str, list[WorkerInfo]] = {}
        for endpoint in endpoints.values():
            self.by_role.setdefault(endpoint.info.role, []).append(endpoint.info)

    def choose(self, role: str, stays: str, avoid: Collection[str], key: str) -> Endpoint | None:
        """See :func:`agentflow.runner.policy.choose`."""
        if stays not in avoid and (endpoint := self.endpoints.get(stays)) is not None:
            info = endpoint.info
            if info.healthy and info.role == role:
                return endpoint
        worker = choose(self.by_role.get(role, ()), stays, avoid, key)
        return self.endpoints[worker.name] if worker else None

    def served_names(self) -> list[str]:
        """Served model names, those of the default role first, each once."""
        roles = sorted(self.by_role, key=lambda role: (role != DEFAULT_ROLE, role))
        return list(dict.fromkeys(w.model for role in roles for w in self.by_role[role]))


class WorkerTable:
    """Holds the latest :class:`Snapshot` and wakes who waits for the next."""

    def __init__(self, calls_per_worker: int, roles: Mapping[str, RoleSettings]) -> None:
        self._calls = calls_per_worker
        self._roles = roles
        self._lock = threading.Lock()
        self._waiting: dict[asyncio.Future[None], asyncio.AbstractEventLoop] = {}
        self.snapshot = Snapshot({})
        self.secrets: tuple[bytes, ...] = ()  # the workers' keys, for who writes texts down
        self._role_of = _role_names(roles, ())

    def set(self, workers: Sequence[WorkerInfo]) -> None:
        """Replace the table; calls on their way to workers that are gone or were restarted are told. Thread-safe."""
        with self._lock:
            old = self.snapshot.endpoints
            new = {}
            for info in workers:
                known = old.get(info.name)
                if known is None or _incarnation(known.info) != _incarnation(info):
                    known = Endpoint(info, self._calls)
                known.info = info
                new[info.name] = known
            self._role_of = _role_names(self._roles, workers)
            self.snapshot = Snapshot(new)
            # A key like "none" is no secret, and taking it out would garble texts.
            self.secrets = tuple({w.api_key.encode() for w in workers if len(w.api_key) >= 8})
            waiting, self._waiting = self._waiting, {}
        for name, endpoint in old.items():
            if new.get(name) is not endpoint:
                endpoint.lane.close()
                for call in tuple(endpoint.in_flight):
                    call.worker_gone(endpoint)
        for future, loop in waiting.items():
            _wake(future, loop)

    def role(self, model: str) -> str:
        """The role that an agent means by a model name."""
        return self._role_of.get(model, DEFAULT_ROLE)

    async def changed(self, since: Snapshot) -> None:
        """Return once the table is no longer ``since``."""
        with self._lock:
            if self.snapshot is not since:
                return
            loop = asyncio.get_running_loop()
            future: asyncio.Future[None] = loop.create_future()
            self._waiting[future] = loop
        try:
            await future
        finally:
            with self._lock:
                self._waiting.pop(future, None)


def _incarnation(info: WorkerInfo) -> tuple[str, str, int]:
    return info.url, info.api_key, info.generation


def _role_names(roles: Mapping[str, RoleSettings], workers: Iterable[WorkerInfo]) -> dict[str, str]:
    """Model name -> role. What the user named wins over role names, those over served names."""
    names = {w.model: w.role for w in workers if w.role != DEFAULT_ROLE}
    names |= {w.model: w.role for w in workers if w.role == DEFAULT_ROLE}
    names |= {role: role for role in roles}
    names |= {name: role for role, settings in roles.items() for name in settings.names}
    return names


def _wake(future: asyncio.Future[None], loop: asyncio.AbstractEventLoop) -> None:
    def tell() -> None:
        if not future.done():
            future.set_result(None)

    with suppress(RuntimeError):  # that loop is closed, and its tasks with it
        loop.call_soon_threadsafe(tell)
