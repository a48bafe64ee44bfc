"""What happens to a call that failed, and which worker it goes to: pure decisions, no clock, no I/O.

Facts are pushed in (this worker failed so, so long was waited); a decision is read out.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from enum import StrEnum
from hashlib import blake2b

from agentflow.channel.messages import WorkerInfo
from agentflow.episode import Kind

BACKOFF_FIRST_S = 0.5  # long enough for a supervisor to notice a dead engine before the budget is spent
BACKOFF_CAP_S = 15.0  # a worker that restarts is back within seconds to minutes; waiting longer only adds idle time


class Failure(StrEnum):
    """What went wrong with one try, as far as it concerns trying again."""

    TRANSPORT = "transport"  # no connection, a broken one, 502, 503, 504
    LIMITED = "limited"  # 429
    INTERNAL = "internal"  # 500


@dataclass(frozen=True)
class Budget:
    """How much a call may cost beyond its first try.

    Args:
        retries: further tries after transport failures.
        window_s: seconds that it may spend waiting because of them (back-off, no healthy worker).
        limited_s: seconds that it may spend waiting on 429 answers.
    """

    retries: int
    window_s: float
    limited_s: float


@dataclass(frozen=True)
class Again:
    """Try again after ``wait_s``."""

    wait_s: float


@dataclass(frozen=True)
class PassOn:
    """Hand the worker's answer to the agent."""


@dataclass(frozen=True)
class GiveUp:
    """The budget is spent; ``reason`` says which part of it."""

    reason: str


class Retry:
    """The retries of one call.

    ``avoid`` holds the workers that failed it; they are chosen again only when no other is healthy.
    """

    def __init__(self, budget: Budget, jitter: Callable[[], float] = random.random) -> None:
        self._budget = budget
        self._jitter = jitter
        self._transport = 0
        self._limited = 0
        self._internal = 0
        self._waited_s = 0.0
        self._limited_s = 0.0
        self.avoid: set[str] = set()

    @property
    def outage_left_s(self) -> float:
        """Seconds that this call may still wait for a worker."""
        return max(0.0, self._budget.window_s - self._waited_s)

    def waited(self, seconds: float) -> None:
        """Time went by without any healthy worker."""
        self._waited_s += seconds

    def after(self, failure: Failure, worker: str, retry_after_s: float | None = None) -> Again | PassOn | GiveUp:
        """``worker`` failed so: what now?"""
        if failure is Failure.LIMITED:
            return self._after_limited(retry_after_s)
        self.avoid.add(worker)
        if failure is Failure.INTERNAL:
            self._internal += 1
            return Again(self._backoff(0)) if self._internal == 1 else PassOn()
        self._transport += 1
        if self._transport > self._budget.retries:
            tries = "1 try" if self._transport == 1 else f"{self._transport} tries"
            return GiveUp(f"{tries} failed (rollout.request_retries is {self._budget.retries})")
        wait = self._backoff(self._transport - 1)
        if wait > self.outage_left_s:
            return GiveUp(f"no worker answered within {self._budget.window_s:g} s of waiting")
        self._waited_s += wait
        return Again(wait)

    def _after_limited(self, retry_after_s: float | None) -> Again | GiveUp:
        wait = self._backoff(self._limited)
        if retry_after_s is not None:
            # Jitter is added, never taken off: coming back before the time it named is what the server asked not to do.
            wait = retry_after_s + wait * 0.1
        if self._limited_s + wait > self._budget.limited_s:
            return GiveUp(f"it answered 429 for {self._limited_s:.0f} s (rollout.request_timeout bounds this)")
        self._limited += 1
        self._limited_s += wait
        return Again(wait)

    def _backoff(self, n: int) -> float:
        """Capped exponential, jittered over its upper half so that many callers do not come back together."""
        ceiling: float = min(BACKOFF_CAP_S, BACKOFF_FIRST_S * 2 ** min(n, 16))
        return ceiling * (0.5 + 0.5 * self._jitter())


def choose(workers: Sequence[WorkerInfo], stays: str, avoid: Collection[str], key: str) -> WorkerInfo | None:
    """The worker for a call: the one its episode stays on, else by rendezvous hash of ``key`` among the healthy.

    Workers in ``avoid`` are taken only when no other is healthy. None: no worker is healthy.
    """
    healthy = [w for w in workers if w.healthy]
    candidates = [w for w in healthy if w.name not in avoid] or healthy
    for worker in candidates:
        if worker.name == stays:
            return worker
    return max(candidates, key=lambda w: _weight(key, w.name), default=None)


def _weight(key: str, worker: str) -> bytes:
    return blake2b(f"{key}\0{worker}".encode(), digest_size=8).digest()


# vLLM's server outlives its engine by a moment and answers this, as a 500 or as the last event of a stream.
_ENGINE_DEATH = re.compile(rb"EngineCore encountered an issue|EngineDeadError")


def tells_engine_death(body: bytes) -> bool:
    """Whether an error says that the engine behind the server is dead: the infrastructure's end, not the call's."""
    return _ENGINE_DEATH.search(body) is not None


def failure_of(status: int, body: bytes) -> Failure | None:
    """Which answers are tried again; None: the answer is the agent's."""
    if status == 429:
        return Failure.LIMITED
    if status == 500 and tells_engine_death(body):
        return Failure.TRANSPORT
    if status == 500:
        return Failure.INTERNAL
    return Failure.TRANSPORT if status in (502, 503, 504) else None


def is_ours(status: int) -> bool:
    """True for answers about the endpoint's key or URL, which are ours: a refused key, no credit, a moved server.

    They go to the agent as they are, and are never its failure. 403 is not among them: moderation answers with it.
    """
    return status in (401, 402, 407) or 300 <= status < 400


# vLLM: "maximum context length is", "longer than the maximum model length"; SGLang: "longer than the model's context
# length"; llama.cpp: "exceed_context_size_error"; OpenAI: "context_length_exceeded", "exceeds the context window";
# Anthropic: "prompt is too long", "exceed context limit".
_OVERFLOW = re.compile(
    rb"context[ _](length|size|window|limit)|maximum model length|max_model_len|prompt is too long", re.IGNORECASE
)


def hint_of(status: int, body: bytes) -> Kind | None:
    """What an error answer says about the model's side, should the agent die of it."""
    if status in (400, 413, 422, 500) and _OVERFLOW.search(body):
        return Kind.CONTEXT_OVERFLOW
    return Kind.SERVER_ERROR if status == 500 else None


def parse_retry_after(value: str | None, now: float) -> float | None:
    """Seconds of a Retry-After header (seconds or an HTTP date); None when absent or unreadable."""
    if not value:
        return None
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - now)
    except ValueError:
        return None
