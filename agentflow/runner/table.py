"""The worker table as the doors use it: pushed as a whole, read without a lock, awaited from any loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple, Protocol

from yarl import URL

from agentflow.channel.messages import RoleSettings, WorkerInfo
from agentflow.episode import DEFAULT_ROLE
from agentflow.proxy import proxy_to
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
        self.proxy = proxy_to(info.url) if info.is_external else None
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


class Addressee(NamedTuple):
    """Whom a call is for: the role that it counts for, and the role whose workers answer it."""

    role: str
    workers: str


DEFAULT = Addressee(DEFAULT_ROLE, DEFAULT_ROLE)


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

    def __init__(
        self, calls_per_worker: int, roles: Mapping[str, RoleSettings], model_names: Collection[str] = ()
    ) -> None:
        self._calls = calls_per_worker
        self._lock = threading.Lock()
        self._waiting: dict[asyncio.Future[None], asyncio.AbstractEventLoop] = {}
        self.snapshot = Snapshot({})
        self.secrets: tuple[bytes, ...] = ()  # the workers' keys, for who writes texts down
        self._configured = _configured(roles)
        self._model_names = frozenset((DEFAULT_ROLE, *model_names))
        self._served: dict[str, Addressee] = {}

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
            self._served = _served(workers)
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

    def addressee(self, model: str, declared: Collection[str] = ()) -> Addressee:
        """Whom an agent means by a model name. What the user configured wins over the roles that the agent's class
        declares, those over served names.

        Args:
            declared: roles of which the configuration may know nothing; the default role's workers play them.
        """
        found = self._configured.get(model)
        if found is None and model in declared:
            found = Addressee(model, DEFAULT_ROLE)
        return found or self._served.get(model, DEFAULT)

    def is_known(self, model: str, declared: Collection[str] = ()) -> bool:
        """False for a name that nobody gave to a role or a model: its calls go to the default role all the same."""
        return any(model in names for names in (self._configured, declared, self._served, self._model_names))

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


def _configured(roles: Mapping[str, RoleSettings]) -> dict[str, Addressee]:
    """The names that the user gave to roles win over the roles' own."""
    whose = {role: Addressee(role, DEFAULT_ROLE if settings.is_shared else role) for role, settings in roles.items()}
    return whose | {name: whose[role] for role, settings in roles.items() for name in settings.names}


def _served(workers: Iterable[WorkerInfo]) -> dict[str, Addressee]:
    """By the name of the model; the default role's wins."""
    names = {w.model: Addressee(w.role, w.role) for w in workers if w.role != DEFAULT_ROLE}
    return names | {w.model: DEFAULT for w in workers if w.role == DEFAULT_ROLE}


def _wake(future: asyncio.Future[None], loop: asyncio.AbstractEventLoop) -> None:
    def tell() -> None:
        if not future.done():
            future.set_result(None)

    with suppress(RuntimeError):  # that loop is closed, and its tasks with it
        loop.call_soon_threadsafe(tell)
