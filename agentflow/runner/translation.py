"""What translates an agent's dialect to chat, for workers that lack it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from agentflow.runner.dialect import Dialect


class ChatStream(Protocol):
    """Turns chat chunks into a dialect's events, live."""

    def feed(self, chunk: dict[str, Any]) -> bytes:
        """SSE bytes ready to send, perhaps none."""

    def finish(self) -> bytes:
        """The events that end the stream."""


class Translator(Protocol):
    """A module of :mod:`agentflow.runner.translate`."""

    def to_chat(self, body: dict[str, Any], /) -> dict[str, Any]: ...

    def from_chat(self, body: dict[str, Any], chat: dict[str, Any], /) -> dict[str, Any]: ...

    def Stream(self, body: dict[str, Any], /) -> ChatStream: ...  # noqa: N802  (it is a class there)


def translators() -> Mapping[Dialect, Translator]:
    """By the dialect that they read. Imported when first needed: they are not on every runner's way."""
    from agentflow.runner.translate import messages, responses

    return {Dialect.RESPONSES: responses, Dialect.MESSAGES: messages}
