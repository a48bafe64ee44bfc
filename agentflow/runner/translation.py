"""Which dialects agentflow serves itself on a worker that only speaks chat completions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from agentflow.runner.dialect import Dialect
from agentflow.runner.translate import messages, responses


class ChatStream(Protocol):
    """Turns chat chunks into a dialect's events, live."""

    def feed(self, chunk: dict[str, Any], /) -> bytes:
        """SSE bytes ready to send, perhaps none."""

    def finish(self) -> bytes:
        """The events that end the stream."""


class Translator(Protocol):
    """A package of :mod:`agentflow.runner.translate`."""

    def to_chat(self, body: dict[str, Any], /) -> dict[str, Any]: ...

    def from_chat(self, body: dict[str, Any], chat: dict[str, Any], /) -> dict[str, Any]: ...

    def Stream(self, body: dict[str, Any], /) -> ChatStream: ...  # a class there


TRANSLATORS: Mapping[Dialect, Translator] = {Dialect.RESPONSES: responses, Dialect.MESSAGES: messages}

COUNT_TOKENS = "/v1/messages/count_tokens"
NO_COUNT_TOKENS = messages.NO_COUNT_TOKENS
