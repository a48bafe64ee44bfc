"""One call's place in its episode's record, from the agent's request to the last byte of the answer."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from agentflow.episode import Call, Kind
from agentflow.runner.ask import Ask
from agentflow.runner.conversation import Fields
from agentflow.runner.numbers import Numbers, numbers

if TYPE_CHECKING:
    from agentflow.runner.core import Core
    from agentflow.runner.door import EpisodeDoor


class Entry:
    """Opened when a request reaches a door; closed once, by whatever ends the call first.

    Attributes:
        worker: who was asked last.
        tries: how many requests to workers it took so far.
        filled: the fields that agentflow set in the last of them.
    """

    def __init__(self, core: Core, door: EpisodeDoor, ask: Ask) -> None:
        self._core = core
        self._door = door
        self._ask = ask
        self._place = door.recorder.begin()
        self._started_at = time.time()
        self._started = time.perf_counter()
        self._ttft_s: float | None = None
        self._queue_s = 0.0
        self._arrivals: list[float] = []
        self._closed = False
        self.worker = ""
        self.tries = 0
        self.filled: Fields = {}

    def sent(self) -> None:
        """A request goes out to a worker."""
        self.tries += 1
        self._queue_s = time.perf_counter() - self._started

    def arrived(self, pieces: int, at: float) -> None:
        """So many pieces of a streamed reply are there, the last of them read at this ``time.perf_counter()``."""
        self._arrivals += [at - self._started] * (pieces - len(self._arrivals))

    def first_byte(self) -> None:
        """The answer begins."""
        self._ttft_s = time.perf_counter() - self._started

    def close(
        self,
        status: int,
        reply: dict[str, Any] | None = None,
        body: bytes | None = None,
        *,
        error: str = "",
        hint: Kind | None = None,
    ) -> None:
        """The call is over; has no effect when it was already. From any thread.

        Args:
            status: what the agent saw; 0 when it went away first.
            reply: the reply, for its numbers.
            body: the reply's bytes, where it was not assembled from a stream.
            hint: what to call it should the agent die of this answer.
        """
        if self._closed:
            return
        self._closed = True
        door, ask = self._door, self._ask
        latency_s = time.perf_counter() - self._started
        at_once = body is not None and self._ttft_s is not None
        found = numbers(ask.route.dialect, reply) if reply is not None else Numbers()
        call = Call(
            id=found.id or f"call-{self._place}",
            api=ask.route.path,
            started_at=self._started_at,
            latency_s=latency_s,
            status=status,
            role=ask.role,
            worker=self.worker,
            ttft_s=latency_s if at_once else self._ttft_s,
            queue_s=self._queue_s,
            prompt_tokens=found.prompt_tokens,
            completion_tokens=found.completion_tokens,
            cached_tokens=found.cached_tokens,
            tool_calls=found.tool_calls,
            truncated=found.truncated,
            tries=max(1, self.tries),
            error=door.redact(error),
        )
        request = ask.body if ask.fields is None else {**ask.fields, **self.filled}
        response = reply if body is None else body
        if not door.recorder.end(self._place, call, request, ask.conversation, response, self._arrivals):
            return
        door.ended(ask, hint, body, reply)
        if ask.conversation.tools and ask.fields is not None:
            self._core.tell_schema(ask.conversation.tools, ask.fields["tools"])
