"""A streamed chat reply as the events of the Responses API."""

from __future__ import annotations

from typing import Any, TypeVar

from agentflow.runner.translate.chat import (
    Arguments,
    CallStart,
    ChunkReader,
    Piece,
    Text,
    Thought,
    chunk_error,
    given_up,
)
from agentflow.runner.translate.responses.open_items import OpenCall, OpenItem, OpenMessage, OpenReasoning
from agentflow.runner.translate.responses.reply import ended, failed, is_cut, response
from agentflow.runner.translate.sse import event

TextItem = TypeVar("TextItem", OpenReasoning, OpenMessage)


class Stream:
    """Turns chat chunks into Responses events as they come; nothing is held back.

    As at OpenAI, one output item is open at a time. The first chunk brings ``response.created``; ``finish()`` brings
    the end, because the usage comes after the finish reason. Call ``finish()`` only for a stream that its worker ended
    properly (``[DONE]``); a stream that broke is to break for the agent too.
    """

    def __init__(self, body: dict[str, Any]) -> None:
        self._body = body
        self._response: dict[str, Any] = {}
        self._reader = ChunkReader()
        self._open: OpenItem | None = None
        self._output: list[dict[str, Any]] = []
        self._written: list[bytes] = []
        self._sequence = 0
        self._over = False

    def feed(self, chunk: dict[str, Any]) -> bytes:
        """The events that this chunk brings; b"" where it brings none."""
        if self._over:
            return b""
        self._begin(chunk)
        message = chunk_error(chunk)
        if message is not None:
            self._fail(message)
        else:
            for piece in self._reader.read(chunk):
                if not self._over:
                    self._add(piece)
        return self._flush()

    def finish(self) -> bytes:
        """The events that end the stream: the open item's, then ``response.completed``, ``.incomplete`` or ``.failed``.

        A stream without a finish reason has failed: what there is of it may be half of it.
        """
        if self._over:
            return b""
        self._begin({})
        finish = self._reader.finish
        problem = given_up(finish) if finish else "The worker's stream ended without a finish reason."
        if problem is not None:
            self._fail(problem)
            return self._flush()
        if self._open is None or (isinstance(self._open, OpenReasoning) and not self._output and not is_cut(finish)):
            self._text_item(OpenMessage)  # a reply that says nothing holds an empty message
        self._close("incomplete" if is_cut(finish) else "completed")
        self._end(ended(self._response, finish, self._output, self._reader.tokens))
        return self._flush()

    def _begin(self, chunk: dict[str, Any]) -> None:
        if not self._response:
            self._response = response(self._body, chunk)
            self._write({"type": "response.created", "response": self._response})
            self._write({"type": "response.in_progress", "response": self._response})

    def _add(self, piece: Piece) -> None:
        match piece:
            case Thought(text):
                self._write(self._text_item(OpenReasoning).delta(text))
            case Text(text, logprobs):
                self._write(self._text_item(OpenMessage).delta(text, logprobs))
            case CallStart(call):
                self._switch(OpenCall(self._next_index(), call))
            case Arguments(call, text):
                if isinstance(self._open, OpenCall) and self._open.call is call:
                    self._write(self._open.delta(text))
                else:
                    self._fail(f"The worker went back to the arguments of the call {call.id!r} after others had begun.")

    def _text_item(self, kind: type[TextItem]) -> TextItem:
        """The open item if it is of this kind, else a new one."""
        if isinstance(self._open, kind):
            return self._open
        item = kind(self._next_index())
        self._switch(item)
        return item

    def _next_index(self) -> int:
        return len(self._output) + (self._open is not None)

    def _switch(self, item: OpenItem) -> None:
        self._close("completed")
        self._open = item
        for data in item.opened():
            self._write(data)

    def _close(self, status: str) -> None:
        if self._open is not None:
            events, item = self._open.closed(status)
            for data in events:
                self._write(data)
            self._output.append(item)
            self._open = None

    def _fail(self, message: str) -> None:
        self._close("incomplete")
        self._end(failed(self._response, message, self._output, self._reader.tokens))

    def _end(self, response: dict[str, Any]) -> None:
        self._write({"type": f"response.{response['status']}", "response": response})
        self._over = True

    def _write(self, data: dict[str, Any]) -> None:
        self._written.append(event({**data, "sequence_number": self._sequence}))
        self._sequence += 1

    def _flush(self) -> bytes:
        written = b"".join(self._written)
        self._written.clear()
        return written
