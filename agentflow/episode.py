"""The words of the house as plain data: items, episodes, calls, outcomes, results.

Everything here is immutable, serialises to JSON as it stands, and imports nothing else of agentflow.
Times named ``*_s`` are durations in seconds; times named ``*_at`` are Unix timestamps in seconds.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Any

import msgspec

DEFAULT_ROLE = "default"


class Outcome(StrEnum):
    """How an episode ended. Exactly one of these, always.

    - ``SCORED``: ``run()`` returned a valid reward.
    - ``FAILED``: the agent or the model did not make it; counts as ``failed_reward`` in the headline.
    - ``LOST``: the infrastructure did not make it; retried, and if still lost kept out of the mean and bounded.
    - ``REJECTED``: ``run()`` returned None; kept out of the mean, counted.
    - ``CANCELLED``: stopped by the user; a resume runs it again.
    """

    SCORED = "scored"
    FAILED = "failed"
    LOST = "lost"
    REJECTED = "rejected"
    CANCELLED = "cancelled"


class Kind(StrEnum):
    """Why an episode is ``failed`` (first block: it is the agent's or the model's) or ``lost`` (second block)."""

    EXCEPTION = "exception"  # an exception out of run()
    TIMEOUT = "timeout"  # the episode did not end in rollout.episode_timeout
    CALL_TIMEOUT = "call_timeout"  # a live worker did not answer one call in rollout.request_timeout
    MAX_TURNS = "max_turns"  # the agent's framework ran out of turns
    CONTEXT_OVERFLOW = "context_overflow"  # the conversation outgrew the model's context
    INVALID_REWARD = "invalid_reward"  # run() returned NaN, infinity, a string, ...
    SERVER_ERROR = "server_error"  # the engine answered 500, elsewhere too
    GRADER = "grader"  # the reward function timed out or crashed
    RUNNER_CRASH = "runner_crash"  # took its own runner down while playing alone

    RUNNER_DIED = "runner_died"  # the runner that played it died
    UNREACHABLE = "unreachable"  # no worker could be reached within the retry budget
    STREAM_BROKEN = "stream_broken"  # a worker went away after the first byte of a stream


class Item(msgspec.Struct, frozen=True):
    """One row of the data set.

    Args:
        id: the row's own ``id``, else a hash of the raw row; unique in a data set.
        index: position in the data set, counted from 0.
        data: what ``run(data, ...)`` receives (after the recipe).
    """

    id: str
    index: int
    data: dict[str, Any]


class Episode(msgspec.Struct, frozen=True):
    """One run of the agent on one item; fully determines what is played.

    Args:
        item_id: id of the item.
        sample_index: 0 .. n_samples - 1.
        attempt: which try this is, counted from 0. Results of any other attempt are dropped and counted.
        seed: seed of the run; with ``item_id`` and ``sample_index`` it determines every request seed.
    """

    item_id: str
    sample_index: int
    attempt: int = 0
    seed: int = 0

    @property
    def id(self) -> str:
        """``<item_id>/<sample_index>``: the same for every attempt."""
        return f"{self.item_id}/{self.sample_index}"


class Usage(msgspec.Struct, frozen=True):
    """Tokens and calls, added up. ``cached_tokens`` are those of ``prompt_tokens`` that the engine had cached."""

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    tool_calls: int = 0
    truncated: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(*(getattr(self, f) + getattr(other, f) for f in self.__struct_fields__))


class Call(msgspec.Struct, frozen=True, omit_defaults=True):
    """One request the agent made to a model, in numbers; its texts lie in the trace.

    Args:
        id: the response's own id (``chatcmpl-...``, ``resp_...``), else one made by the recorder.
        started_at: when the agent's request reached a door.
        latency_s: until the last byte was handed to the agent.
        ttft_s: until the first byte of the body; equals ``latency_s`` for an unstreamed reply, None when none came.
        queue_s: until the request that was answered went out to its worker: the wait for a free place there, and the
            tries that failed before it. Part of ``ttft_s`` and ``latency_s``.
        status: HTTP status that the agent saw; 0 when the agent went away first.
        tries: how many workers' answers it took (1 without fail-over).
        truncated: the reply hit its token limit.
    """

    id: str
    api: str
    started_at: float
    latency_s: float
    status: int
    role: str = DEFAULT_ROLE
    worker: str = ""
    ttft_s: float | None = None
    queue_s: float = 0.0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    tool_calls: int = 0
    truncated: bool = False
    tries: int = 1
    error: str = ""


def usage_by_role(calls: Iterable[Call]) -> dict[str, Usage]:
    """Add the calls up, apart for every model role."""
    total: dict[str, Usage] = {}
    for c in calls:
        one = Usage(1, c.prompt_tokens, c.completion_tokens, c.cached_tokens, c.tool_calls, int(c.truncated))
        total[c.role] = total.get(c.role, Usage()) + one
    return total


class TraceRef(msgspec.Struct, frozen=True):
    """Where an attempt's calls lie in ``traces.jsonl``: byte offset and length."""

    offset: int
    length: int


class EpisodeResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """The end of one attempt: one line of ``episodes.jsonl``.

    Args:
        reward: the headline reward of a ``scored`` episode, else None.
        metrics: further named numbers that ``run()`` returned.
        call_rewards: reward by call id, where ``run()`` returned rewards a call.
        error: one or two sentences for a reader; empty when scored.
        traceback: the agent's own traceback, bounded, for ``failed`` with kind ``exception``.
        wall_s: from the start of ``run()`` to its end.
        runner: the runner that played it.
        worker: the worker it was placed on (calls name the worker that really answered).
        final: False for a ``lost`` attempt that is being tried again; the controller decides and writes it.
        trace: where its calls lie; filled by the store.
        groups: the item's values of the breakdown columns (subject, level, ...); filled by the controller.
    """

    item_id: str
    sample_index: int
    attempt: int
    outcome: Outcome
    kind: Kind | None = None
    reward: float | None = None
    metrics: dict[str, float] = {}
    call_rewards: dict[str, float] = {}
    error: str = ""
    traceback: str = ""
    started_at: float = 0.0
    wall_s: float = 0.0
    runner: str = ""
    worker: str = ""
    calls: tuple[Call, ...] = ()
    usage: dict[str, Usage] = {}
    warnings: tuple[str, ...] = ()
    final: bool = True
    trace: TraceRef | None = None
    groups: dict[str, str] = {}

    @property
    def id(self) -> str:
        """``<item_id>/<sample_index>``."""
        return f"{self.item_id}/{self.sample_index}"
