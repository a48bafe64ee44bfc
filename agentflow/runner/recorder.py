"""What an episode's calls were: numbers for the result, texts for the trace.

A trace is JSON lines, one a call in order of their ends::

    {"episode": "<item>/<sample>", "attempt": n, "call": {...}, "api": "/v1/chat/completions",
     "request": {..., "messages": ["#0", "<hash>", ...], "tools": "<hash>"},
     "response": {...}, "messages": {"<hash>": {...}}, "arrivals_s": [...]}

``request`` is what the agent asked plus the values that agentflow filled in. ``messages`` (``input`` in the Responses
API) names its messages by content hash; the line where a hash is seen first carries its text in the line's own
``messages``. ``"#k"`` stands for all messages of the trace's line k (counted from 0): a conversation that grows by a
turn a call costs one turn a call. Tool lists travel apart, as :class:`agentflow.channel.messages.ToolSchema`.
``arrivals_s``, of a streamed reply: when each piece with output in it (text, reasoning, a part of a tool call) was read
from the worker, in seconds from the call's ``started_at``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from agentflow.channel.messages import MAX_CHUNK_BYTES
from agentflow.episode import Call, Episode
from agentflow.runner.conversation import Conversation, Fields, Prefixes
from agentflow.runner.dialect import Dialect

_encode = msgspec.json.Encoder().encode


class TraceLine(msgspec.Struct, omit_defaults=True):
    """One line of a trace; see the module."""

    episode: str
    attempt: int
    call: Call
    api: str
    request: dict[str, Any] | str
    response: Any = None
    messages: dict[str, msgspec.Raw] = {}
    arrivals_s: list[float] = []


class Recorder:
    """The calls of one attempt. Called from both loops; ``redact`` takes secrets out of a line's bytes."""

    def __init__(self, episode: Episode, redact: Callable[[bytes], bytes]) -> None:
        self._episode = episode
        self._redact = redact
        self._lock = threading.Lock()
        self._calls: list[Call | None] = []
        self._lines: list[bytes] = []
        self._seen: set[str] = set()
        self._conversations = Prefixes()  # one list a line

    def begin(self) -> int:
        """A place for a call that starts now."""
        with self._lock:
            self._calls.append(None)
            return len(self._calls) - 1

    def end(
        self,
        place: int,
        call: Call,
        request: Fields | bytes,
        conversation: Conversation,
        response: bytes | dict[str, Any] | None,
        arrivals_s: Sequence[float] = (),
    ) -> bool:
        """The call at ``place`` is over; False when that was known already.

        Args:
            request: the request's fields, or its bytes where they were no JSON object.
            response: the reply's body, or the reply assembled from a stream.
            arrivals_s: of the pieces of a streamed reply.
        """
        with self._lock:
            if self._calls[place] is not None:
                return False
            self._calls[place] = call
            shown, new = self._shorten(request, conversation)
            line = TraceLine(
                episode=self._episode.id,
                attempt=self._episode.attempt,
                call=call,
                api=call.api,
                request=shown,
                response=_response(call.api, response),
                messages=new,
                arrivals_s=[round(at, 4) for at in arrivals_s],
            )
            self._lines.append(_valid(self._redact(_encode(line))) + b"\n")
            self._seen.update(new)
            return True

    def _shorten(
        self, request: Fields | bytes, conversation: Conversation
    ) -> tuple[dict[str, Any] | str, dict[str, msgspec.Raw]]:
        short = self._conversations.add(conversation.hashes if conversation.field else ())
        if not isinstance(request, dict):
            return request.decode("utf-8", "replace"), {}
        shown: dict[str, Any] = dict(request)
        if conversation.tools:
            shown["tools"] = conversation.tools
        if not conversation.field:
            return shown, {}
        shown[conversation.field] = short
        items = zip(conversation.hashes, conversation.items, strict=True)
        return shown, {h: item for h, item in items if h not in self._seen}

    @property
    def calls(self) -> tuple[Call, ...]:
        """All calls that are over, in order of their start."""
        with self._lock:
            return tuple([c for c in self._calls if c is not None])

    def trace(self) -> Iterator[bytes]:
        """Chunks of at most ``MAX_CHUNK_BYTES``; joined they are the lines."""
        chunk = bytearray()
        for line in tuple(self._lines):
            start = 0
            while start < len(line):
                part = line[start : start + MAX_CHUNK_BYTES - len(chunk)]
                chunk += part
                start += len(part)
                if len(chunk) == MAX_CHUNK_BYTES:
                    yield bytes(chunk)
                    chunk.clear()
        if chunk:
            yield bytes(chunk)


def _valid(line: bytes) -> bytes:
    """Parts that were never decoded may hold broken UTF-8, which would make the whole file unreadable."""
    try:
        line.decode()
    except UnicodeDecodeError:
        return line.decode("utf-8", "replace").encode()
    return line


def _response(api: str, response: bytes | dict[str, Any] | None) -> Any:
    if not isinstance(response, bytes):
        return response
    if not response:
        return None
    try:
        if api.endswith(Dialect.EMBEDDINGS):
            reply = msgspec.json.decode(response, type=dict[str, msgspec.Raw])
            reply.pop("data", None)  # vectors: nobody reads them, and they would dwarf the rest
            return reply
        one_line = msgspec.json.format(response, indent=-1) if b"\n" in response else response
        msgspec.json.decode(one_line, type=msgspec.Raw)
    except msgspec.DecodeError:
        return response.decode("utf-8", "replace")
    return msgspec.Raw(one_line)
