"""What a run comes to, as typed data. Serialises to JSON; what is undefined is None, never NaN."""

from __future__ import annotations

import msgspec

from agentflow.metrics import Percentiles


class Delays(msgspec.Struct, frozen=True):
    """Over answered requests, in seconds.

    Args:
        streamed: requests whose reply came in pieces with output; only of these are the first three.
        ttft: from the client's request to the first piece with output in it.
        itl: between two pieces of the same reply, all pieces of all replies together. A piece is what arrived as one
            event; most engines send a token in each.
        tpot: of each reply, from its first piece to its last by the tokens after the first.
        latency: from the client's request to the last byte.
    """

    streamed: int
    ttft: Percentiles | None
    itl: Percentiles | None
    tpot: Percentiles | None
    latency: Percentiles | None


class Lengths(msgspec.Struct, frozen=True):
    """Tokens of an answered request on average, by the endpoint's own count: of those that it counted.

    Args:
        prompt: the whole prompt.
        added: of it, what came since the conversation's previous request, its reply included.
        output: of the reply; ``output_asked``: the limit that the request set, where all of them did.
        cached_share: of all prompt tokens, those that the engine had in its cache.
    """

    prompt: float
    added: float
    output: float
    output_asked: float | None
    cached_share: float | None


class Part(msgspec.Struct, frozen=True):
    """A time of the run, with the measured conversations' requests and turns that ended in it.

    Args:
        seconds: how long it was.
        requests: answered ones; ``errors``: those that were not.
        episodes: that ended in it; ``turns``: of a user, whose last request was answered in it.
        in_flight: requests at once, mean over the time; ``most_in_flight``: the most.
        playing: conversations at once, mean over the time.
        uncounted: answered requests of which the endpoint gave no number of tokens; they are in no number of tokens.
        lengths: None where it counted none.
    """

    seconds: float
    requests: int
    errors: int
    episodes: int
    turns: int
    output_tokens: int
    prompt_tokens: int
    in_flight: float
    most_in_flight: int
    playing: float
    uncounted: int
    delays: Delays
    lengths: Lengths | None

    def rate(self, count: int) -> float | None:
        """A second; None in no time."""
        return count / self.seconds if self.seconds > 0 else None


class TurnRow(msgspec.Struct, frozen=True):
    """The answered requests of one turn, counted from 1, over all measured conversations."""

    turn: int
    requests: int
    errors: int
    delays: Delays
    lengths: Lengths | None


class Times(msgspec.Struct, frozen=True):
    """Where the time of the measured conversations went that were played to an end: means in seconds, which add up.

    Args:
        wall: of an episode, from the start of ``run()`` to its end. The sum of the five below.
        model: at least one of its requests was at a worker.
        queue: none was, and one waited for a free place at a worker or for another try.
        tools: the agent was in its tools, as it says itself (metric ``tools_s``); None where it does not say.
        preparation: it made its messages or its world, and waited for the cost of a word (metric ``preparation_s``).
        harness: the rest: starting the episode, the agent's code, requests on their way through agentflow.
    """

    episodes: int
    wall: float
    model: float
    queue: float
    tools: float | None
    preparation: float
    harness: float


class Unfinished(msgspec.Struct, frozen=True):
    """Measured conversations that were not played to their end; ``example`` is the id of one, ``error`` its message."""

    what: str
    episodes: int
    example: str
    error: str


class Failure(msgspec.Struct, frozen=True):
    """Measured requests that got an error; ``example`` is the id of an episode."""

    error: str
    requests: int
    example: str


class Course(msgspec.Struct, frozen=True):
    """Requests at once over the run: means over equal parts of the time from the first request to the last end."""

    seconds: float
    in_flight: list[float]
    steady_from: float | None
    steady_to: float | None


class Measurement(msgspec.Struct, frozen=True):
    """All numbers of a run.

    Args:
        title: agent, model and data.
        expected: conversations that the run was to play, ``missing``: those without an end, or stopped by the user.
        warm_up: conversations that were left out, with their requests; ``retried``: attempts that were, too.
        steady: see :func:`benchmarks.multi_turn.window.steady`; None where there was none.
        whole: from the first request of a measured conversation to the last end, ramp and tail included.
        turns: by turn, over ``whole``.
        input_asked: tokens that a user's message was to have on average, where the agent says so;
            ``input_measured``: those that it had by the endpoint's count, with what the template adds to a message.
        shared_asked: tokens that all conversations were to begin with.
        cache: the state of the engine's prefix cache, in sentences.
    """

    title: str
    expected: int
    missing: int
    warm_up: int
    retried: int
    played: int
    steady: Part | None
    whole: Part | None
    turns: list[TurnRow]
    times: Times | None
    input_asked: float | None
    input_measured: float | None
    shared_asked: float | None
    unfinished: list[Unfinished]
    failures: list[Failure]
    cache: list[str]
    course: Course | None

    @property
    def partial(self) -> bool:
        """Conversations are missing: the run was stopped, or still goes on."""
        return self.missing > 0
