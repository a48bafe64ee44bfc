"""An episode's own way to the model: its URL and key, its clients, and what its calls came to."""

from __future__ import annotations

import functools
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from agentflow.episode import Call, Episode, Kind, Outcome
from agentflow.runner.ask import Ask
from agentflow.runner.conversation import BodyHasher, seed
from agentflow.runner.dialect import Dialect
from agentflow.runner.previous import ResponseChain
from agentflow.runner.recorder import Recorder
from agentflow.runner.sampling import SEEDED, left_out
from agentflow.runner.transport import in_process_client, sync_client

if TYPE_CHECKING:
    from agentflow.runner.core import Core
    from agentflow.runner.exchange import Exchange
    from agentflow.runner.reply import Reply
    from agentflow.runner.transport import Headers


MOST_UNKNOWN_MODELS = 3  # names come from agents: warn of a few, not of whatever they make up


class Verdict(msgspec.Struct, frozen=True):
    """The infrastructure has decided the episode, whatever ``run()`` returns afterwards.

    ``message`` is one sentence for a reader.
    """

    outcome: Outcome
    kind: Kind
    message: str


class EpisodeDoor:
    """One attempt's door; made by ``Forwarder.open_episode``.

    Attributes:
        stays: the worker that the calls to each role's workers stay on.
        roles: the model roles that the agent's class declares.
        key: unguessable; the path segment of ``base_url`` and the ``api_key`` at once.
        verdict: set once infrastructure has decided the episode.
        hint: what the last call died of, where that was the model's side (``context_overflow``, ``server_error``,
            ``call_timeout``); names the kind if ``run()`` then raises. None again after a call that went well.
    """

    def __init__(
        self,
        core: Core,
        episode: Episode,
        key: str,
        gateway_url: str,
        stays: dict[str, str],
        forward: Callable[[Core, EpisodeDoor, str, str, Headers, bytes], Awaitable[Reply]],
        roles: Collection[str] = (),
    ) -> None:
        self._core = core
        self._forward = forward
        self._gateway_url = gateway_url
        self._lock = threading.Lock()
        self._hasher = BodyHasher()
        self._occurrences: Counter[bytes] = Counter()
        self._async_client: Any = None
        self._sync_client: Any = None
        self.episode = episode
        self.key = key
        self.stays = stays
        self.roles = frozenset(roles)
        self.recorder = Recorder(episode, self._redact)
        self.responses = ResponseChain()
        self.in_flight: set[Exchange] = set()
        self.closed = False
        self.verdict: Verdict | None = None
        self.hint: Kind | None = None
        self._unknown_models: dict[str, None] = {}

    # --- for the agent --------------------------------------------------------------------------------------------

    @property
    def api_key(self) -> str:
        """The key, as clients want it."""
        return self.key

    @property
    def base_url(self) -> str:
        """``http://127.0.0.1:PORT/<key>/v1``."""
        return f"{self._gateway_url}/{self.key}/v1"

    def http_client(self) -> Any:
        """An ``httpx2.AsyncClient`` (``httpx`` by ``rollout.http_client``) that short-cuts ``base_url`` in process.

        One an episode; closing it closes nothing that another episode uses.
        """
        if self._async_client is None:
            answer = functools.partial(self._forward, self._core, self)
            self._async_client = in_process_client(self._core, f"{self._gateway_url}/{self.key}", answer)
        return self._async_client

    def sync_http_client(self) -> Any:
        """An ``httpx2.Client`` (``httpx`` by ``rollout.http_client``) for a plain ``def run``; uses the socket."""
        if self._sync_client is None:
            self._sync_client = sync_client(self._core)
        return self._sync_client

    async def aclose_clients(self) -> None:
        """Close what the two methods above have made."""
        if self._async_client is not None:
            await self._async_client.aclose()
        if self._sync_client is not None:
            self._sync_client.close()

    # --- for who plays it -----------------------------------------------------------------------------------------

    @property
    def calls(self) -> tuple[Call, ...]:
        """All calls that are over, in order of their start."""
        return self.recorder.calls

    @property
    def warnings(self) -> tuple[str, ...]:
        """What its user should know of the calls, a sentence each."""
        with self._lock:
            names = tuple(self._unknown_models)
        return tuple(
            f"Calls asked for the model {name} and were answered by the default workers; declare "
            "roles = (...) to count them apart, or set roles.NAME.base_url to send them elsewhere."
            for name in names
        )

    def trace(self) -> Iterator[bytes]:
        """Chunks of at most ``MAX_CHUNK_BYTES``; joined they are whole JSON lines, one a call."""
        return self.recorder.trace()

    def redact(self, text: str) -> str:
        """``text`` without this episode's key and the workers' keys."""
        return self._redact(text.encode("utf-8", "replace")).decode() if text else text

    def out_of_time(self) -> None:
        """The episode's time is up: it is lost where that went into tries which no worker answered, not failed."""
        for exchange in tuple(self.in_flight):
            if exchange.trouble:
                message = f"The episode's time was up while a call of it was tried again and again: {exchange.trouble}."
                self.decide(Outcome.LOST, Kind.UNREACHABLE, message)

    # --- for the calls --------------------------------------------------------------------------------------------

    def seed_for(self, ask: Ask) -> int | None:
        """The seed that ``ask`` gets filled in; None where it brings one or has no use for one.

        Decided before the worker is known: a dialect without seeds may be translated to one with.
        """
        seedable = ask.route.dialect in SEEDED or ask.route.dialect is Dialect.MESSAGES
        if not (self._core.settings.seed_requests and seedable and ask.fields and left_out(ask.fields, ("seed",))):
            return None
        with self._lock:
            body = self._hasher.hash(ask.role, ask.route.dialect, ask.fields, ask.conversation)
            occurrence = self._occurrences[body]
            self._occurrences[body] += 1
        return seed(self.episode.seed, self.episode.item_id, self.episode.sample_index, body, occurrence)

    def asked_unknown(self, model: str) -> None:
        """A call asked for a model that nobody serves or has named; the default role plays it."""
        with self._lock:
            if len(self._unknown_models) < MOST_UNKNOWN_MODELS:
                self._unknown_models[model[:80]] = None

    def decide(self, outcome: Outcome, kind: Kind, message: str) -> None:
        """Set the verdict; the first one stays."""
        if self.verdict is None and not self.closed:
            self.verdict = Verdict(outcome, kind, message)

    def ended(self, ask: Ask, hint: Kind | None, body: bytes | None, reply: dict[str, Any] | None) -> None:
        """A call is over; told once a call."""
        self.hint = hint
        if ask.route.dialect is Dialect.RESPONSES and reply is not None:
            self.responses.remember(ask.conversation, body if body is not None else msgspec.json.encode(reply))

    def close(self) -> None:
        """Take no more calls; record those on their way and cancel them. From any thread."""
        self.closed = True
        for exchange in tuple(self.in_flight):
            exchange.episode_over()

    def _redact(self, data: bytes) -> bytes:
        for secret in (self.key.encode(), *self._core.table.secrets):
            if secret in data:
                data = data.replace(secret, b"***")
        return data
