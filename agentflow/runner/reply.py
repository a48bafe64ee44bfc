"""What the core hands back to a door: a whole reply, or a stream of bytes as they come."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Protocol

import msgspec

from agentflow.runner.dialect import Dialect, error_body


class StreamBrokenError(Exception):
    """A stream ended before its end; the door must make that visible to the agent."""


class ByteStream(Protocol):
    """Yields what the agent is to be handed; raises :class:`StreamBrokenError`. Close it in any case."""

    def __aiter__(self) -> AsyncIterator[bytes]: ...

    async def __anext__(self) -> bytes: ...

    async def aclose(self) -> None: ...


class Reply(msgspec.Struct):
    """``body`` is the whole reply where ``stream`` is None."""

    status: int
    headers: Sequence[tuple[bytes, bytes]]
    body: bytes = b""
    stream: ByteStream | None = None


JSON = (b"content-type", b"application/json")


def json_reply(status: int, body: bytes, *headers: tuple[bytes, bytes]) -> Reply:
    """A reply of ours."""
    return Reply(status, (JSON, *headers), body)


def error_reply(dialect: Dialect, status: int, message: str, *headers: tuple[bytes, bytes]) -> Reply:
    """An error of ours, in the agent's dialect."""
    return json_reply(status, error_body(dialect, status, message), *headers)


# The openai and anthropic SDKs obey it; without it they would try again what was tried long enough.
NO_RETRY = (b"x-should-retry", b"false")
CLOSED = "This episode is over; its URL takes no more calls."
EPISODE_OVER = 410
