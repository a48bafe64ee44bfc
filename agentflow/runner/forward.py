"""One core for both doors: from an agent's request to the reply of a worker."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Sequence

import msgspec

from agentflow.channel.messages import Message, RunnerSettings, WorkerInfo
from agentflow.episode import DEFAULT_ROLE, Episode
from agentflow.runner.ask import Ask, request_headers
from agentflow.runner.core import Core
from agentflow.runner.dialect import Dialect, route
from agentflow.runner.door import EpisodeDoor
from agentflow.runner.exchange import Exchange
from agentflow.runner.keys import Keys
from agentflow.runner.previous import UnknownResponseError
from agentflow.runner.reply import CLOSED, EPISODE_OVER, NO_RETRY, Reply, error_reply, json_reply


async def forward(
    core: Core, door: EpisodeDoor, method: str, target: str, headers: Iterable[tuple[bytes, bytes]], body: bytes
) -> Reply:
    """Answer one request of an episode.

    Args:
        target: path and query below the episode's key, with or without ``/v1``.
        headers: as they came; what may go on is picked from them.
        body: decompressed.
    """
    at = route(method, target)
    if door.closed:
        return error_reply(at.dialect, EPISODE_OVER, CLOSED, NO_RETRY)
    if at.dialect is Dialect.MODELS:
        return json_reply(200, models(core.table.snapshot.served_names()))
    ask = Ask(method, at, request_headers(headers), body)
    ask.role, ask.workers = core.table.addressee(ask.model, door.roles)
    if ask.model and not core.table.is_known(ask.model, door.roles):
        door.asked_unknown(ask.model)
    if at.dialect is Dialect.RESPONSES and ask.fields is not None:
        try:
            ask.fields = door.responses.expand(ask.fields)
        except UnknownResponseError as e:
            return error_reply(at.dialect, 400, f"{e}.")
    ask.read_conversation()
    ask.seed = door.seed_for(ask)
    return await Exchange(core, door, ask).run()


def models(names: Sequence[str]) -> bytes:
    """The answer to ``GET /v1/models``."""
    data = [{"id": name, "object": "model", "created": 0, "owned_by": "agentflow"} for name in names]
    return msgspec.json.encode({"object": "list", "data": data})


class Forwarder:
    """One a runner: opens and closes the doors of its episodes. Thread-safe; used from two loops.

    Args:
        settings: sizes, budgets, roles.
        notify: called from either loop's thread with what the controller should hear of.
    """

    def __init__(self, settings: RunnerSettings, notify: Callable[[Message], None]) -> None:
        self._core = Core(settings, notify)
        self._keys = Keys()
        self._doors: dict[str, EpisodeDoor] = {}
        self._lock = threading.Lock()
        self.gateway_url = ""  # set by the gateway that serves this forwarder

    def set_workers(self, workers: Sequence[WorkerInfo]) -> None:
        """Replace the worker table."""
        self._core.table.set(workers)

    def open_episode(self, episode: Episode, worker: str, roles: Collection[str] = ()) -> EpisodeDoor:
        """A door for one attempt, whose default role starts on ``worker``.

        Args:
            roles: those that the agent's class declares.

        Raises:
            RuntimeError: no gateway serves this forwarder yet, so the episode could not be given a URL.
        """
        if not self.gateway_url:
            raise RuntimeError("Serve the gateway before opening episodes: their URLs are on it.")
        key = self._keys.new()
        door = EpisodeDoor(self._core, episode, key, self.gateway_url, {DEFAULT_ROLE: worker}, forward, roles)
        with self._lock:
            self._doors[key] = door
        return door

    def close_episode(self, door: EpisodeDoor) -> None:
        """Record and cancel its calls in flight; later requests with its key get 410."""
        with self._lock:
            self._doors.pop(door.key, None)
        door.close()

    def door(self, key: str) -> EpisodeDoor | None:
        """The open door of a key."""
        return self._doors.get(key)

    def was_open(self, key: str) -> bool:
        """True for the key of an episode that this forwarder once opened."""
        return self._keys.made(key)

    async def forward(
        self, door: EpisodeDoor, method: str, target: str, headers: Iterable[tuple[bytes, bytes]], body: bytes
    ) -> Reply:
        """See :func:`forward`."""
        return await forward(self._core, door, method, target, headers, body)

    async def aclose(self) -> None:
        """Close the calling loop's connections."""
        await self._core.connections.aclose()
