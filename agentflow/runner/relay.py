"""The way of a stream's bytes from a worker to the agent: passed through, thinned or translated, and understood.

No I/O: chunks go in, what the agent is handed comes out.
"""

from __future__ import annotations

from typing import Any

import msgspec

from agentflow.runner.ask import Ask, Wire
from agentflow.runner.assemble import assembler, error_text, has_output
from agentflow.runner.dialect import Dialect
from agentflow.runner.sse import DONE, EventCutter
from agentflow.runner.translation import ChatStream

_decode = msgspec.json.decode


class Relay:
    """Hands every byte on as it came.

    ``whole`` turns true at the dialect's end of a stream; a stream that ends before is broken. ``pieces`` counts the
    events with output in them.
    """

    def __init__(self, dialect: Dialect) -> None:
        self._cutter = EventCutter()
        self._assembler = assembler(dialect)
        self._choices = dialect in (Dialect.CHAT, Dialect.COMPLETIONS)
        self._done = False
        self.pieces = 0

    @property
    def ended(self) -> bool:
        """True when the agent was handed the dialect's own end of a stream; nothing after that matters to it."""
        return self._done or (not self._choices and self._assembler is not None and self._assembler.complete)

    @property
    def whole(self) -> bool:
        """True when the stream may end here."""
        return self._done or self._assembler is None or self._assembler.complete

    @property
    def error(self) -> str:
        """What an error event in the stream said, else empty."""
        return self._assembler.error if self._assembler else ""

    def feed(self, chunk: bytes) -> bytes:
        """What the agent is handed for this chunk, perhaps nothing yet."""
        if self._assembler is not None:
            for event in self._cutter.feed(chunk):
                self._understand(event.data)
        return chunk

    def finish(self) -> bytes:
        """The worker has closed the stream: what is still to hand over."""
        return b""

    def reply(self) -> dict[str, Any] | None:
        """The reply as far as it came."""
        return self._assembler.reply() if self._assembler else None

    def _understand(self, data: bytes) -> dict[str, Any] | None:
        if data == DONE:
            self._done = True
            return None
        event = _event(data)
        if event is not None and self._assembler is not None:
            self._assembler.feed(event)
            self.pieces += has_output(event)
        return event


class ThinnedRelay(Relay):
    """Takes out the usage-only chunk that the agent did not ask for. Hands over whole events."""

    def feed(self, chunk: bytes) -> bytes:
        out = []
        for event in self._cutter.feed(chunk):
            understood = self._understand(event.data)
            if understood is None or understood.get("choices") != [] or understood.get("usage") is None:
                out.append(event.wire)
        return b"".join(out)

    def finish(self) -> bytes:
        return self._cutter.rest


class TranslatedRelay(Relay):
    """Chat chunks in, the agent's dialect out. The reply is assembled from what the agent was handed."""

    def __init__(self, dialect: Dialect, stream: ChatStream) -> None:
        super().__init__(dialect)
        self._stream = stream
        self._chat = EventCutter()
        self._chat_finished = False
        self._failed = ""

    @property
    def whole(self) -> bool:
        return self._done or self._chat_finished

    @property
    def error(self) -> str:
        return self._failed or super().error

    def feed(self, chunk: bytes) -> bytes:
        out = b""
        for wire in self._chat.feed(chunk):
            if wire.data == DONE:
                out += self._end()
            elif (event := _event(wire.data)) is not None:
                if event.get("error"):
                    self._failed = error_text(event["error"])
                self._chat_finished |= any(c.get("finish_reason") for c in event.get("choices") or ())
                out += self._stream.feed(event)
        if out:
            super().feed(out)
        return out

    def finish(self) -> bytes:
        out = self._end() if self.whole else b""
        if out:
            super().feed(out)
        return out

    def _end(self) -> bytes:
        if self._done or self._failed:
            return b""
        self._done = True
        return self._stream.finish()


def relay_for(ask: Ask, wire: Wire) -> Relay:
    """The way of a streamed reply to ``ask``, as it was put on the wire."""
    dialect = ask.route.dialect
    if wire.translator is not None:
        return TranslatedRelay(dialect, wire.translator.Stream(ask.decoded()))
    return ThinnedRelay(dialect) if wire.thin else Relay(dialect)


def _event(data: bytes) -> dict[str, Any] | None:
    if not data:
        return None
    try:
        event = _decode(data)
    except msgspec.DecodeError:
        return None
    return event if isinstance(event, dict) else None
