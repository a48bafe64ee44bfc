"""A streamed chat reply as the events of the Messages API."""

from __future__ import annotations

from typing import Any

from agentflow.runner.translate.chat import (
    Arguments,
    CallStart,
    ChunkReader,
    Piece,
    Text,
    Thought,
    ToolCall,
    chunk_error,
    given_up,
)
from agentflow.runner.translate.messages import reply
from agentflow.runner.translate.sse import event


class Stream:
    """Turns chat chunks into Messages events as they come; nothing is held back.

    One content block is open at a time. The first chunk brings ``message_start`` (with a usage of 0: engines count at
    the end), ``finish()`` the rest. Call ``finish()`` only for a stream that its worker ended properly (``[DONE]``); a
    stream that broke is to break for the agent too. Arguments are passed on as the model wrote them, JSON or not.
    """

    def __init__(self, body: dict[str, Any]) -> None:
        self._body = body
        self._reader = ChunkReader()
        self._open: str | ToolCall | None = None  # "thinking", "text" or the call
        self._blocks = 0  # begun so far
        self._called = False
        self._written: list[bytes] = []
        self._begun = self._over = False

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
        """The events that end the stream: the open block's, ``message_delta`` with the usage, ``message_stop``.

        A stream without a finish reason has failed (event ``error``): what there is of it may be half of it.
        """
        if self._over:
            return b""
        self._begin({})
        finish = self._reader.finish
        problem = given_up(finish) if finish else "The worker's stream ended without a finish reason."
        if problem is not None:
            self._fail(problem)
            return self._flush()
        only_thought = self._open == "thinking" and self._blocks == 1
        if self._open is None or (only_thought and not reply.is_cut(finish)):
            self._switch("text", reply.text_block(""))  # a reply that says nothing holds an empty text
        self._close()
        stop = reply.stop_fields(self._body, finish, self._reader.matched_stop, self._called)
        self._write({"type": "message_delta", "delta": stop, "usage": reply.usage(self._reader.tokens)})
        self._write({"type": "message_stop"})
        self._over = True
        return self._flush()

    def _begin(self, chunk: dict[str, Any]) -> None:
        if not self._begun:
            self._begun = True
            self._write({"type": "message_start", "message": reply.message(self._body, chunk)})

    def _add(self, piece: Piece) -> None:
        match piece:
            case Thought(text):
                if self._open != "thinking":
                    self._switch("thinking", reply.thinking_block(""))
                self._delta({"type": "thinking_delta", "thinking": text})
            case Text(text):
                if self._open != "text":
                    self._switch("text", reply.text_block(""))
                self._delta({"type": "text_delta", "text": text})
            case CallStart(call):
                self._called = True
                self._switch(call, reply.call_block(call.id, call.name, {}))
            case Arguments(call, text):
                if self._open is call:
                    self._delta({"type": "input_json_delta", "partial_json": text})
                else:
                    self._fail(f"The worker went back to the arguments of the call {call.id!r} after others had begun.")

    def _switch(self, opened: str | ToolCall, block: dict[str, Any]) -> None:
        self._close()
        self._open = opened
        self._write({"type": "content_block_start", "index": self._blocks, "content_block": block})
        self._blocks += 1

    def _delta(self, delta: dict[str, Any]) -> None:
        self._write({"type": "content_block_delta", "index": self._blocks - 1, "delta": delta})

    def _close(self) -> None:
        if self._open is not None:
            self._write({"type": "content_block_stop", "index": self._blocks - 1})
            self._open = None

    def _fail(self, message: str) -> None:
        self._write(reply.error(500, message))
        self._over = True

    def _write(self, data: dict[str, Any]) -> None:
        self._written.append(event(data))

    def _flush(self) -> bytes:
        written = b"".join(self._written)
        self._written.clear()
        return written
