"""The dialects that agents speak: how a path names one, and what an error looks like in it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, NamedTuple

import msgspec

from agentflow.runner.translate import messages, responses


class Dialect(StrEnum):
    """One way to ask a model; the values are those of ``WorkerInfo.apis``."""

    CHAT = "chat"
    RESPONSES = "responses"
    COMPLETIONS = "completions"
    MESSAGES = "messages"
    EMBEDDINGS = "embeddings"
    MODELS = "models"
    OTHER = "other"  # passed on as it is


_POST = {
    "/chat/completions": Dialect.CHAT,
    "/responses": Dialect.RESPONSES,
    "/completions": Dialect.COMPLETIONS,
    "/messages": Dialect.MESSAGES,
    "/embeddings": Dialect.EMBEDDINGS,
}

# The field that holds the conversation, where the dialect has one.
CONVERSATION = {Dialect.CHAT: "messages", Dialect.MESSAGES: "messages", Dialect.RESPONSES: "input"}

CHAT_PATH = "/v1/chat/completions"


class Route(NamedTuple):
    """``path`` is what the worker is sent: with ``/v1`` for the known dialects, else as the agent wrote it."""

    dialect: Dialect
    path: str
    query: str


def route(method: str, target: str) -> Route:
    """Read a request target below the episode's key, with or without ``/v1``.

    ``/v1/v1`` is accepted too: Anthropic's client adds a ``/v1`` of its own to the base URL.
    """
    path, _, query = target.partition("?")
    bare = path.rstrip("/")
    while bare.startswith("/v1/"):
        bare = bare[3:]
    if method == "POST" and (known := _POST.get(bare)) is not None:
        return Route(known, f"/v1{bare}", query)
    if method == "GET" and bare == "/models":
        return Route(Dialect.MODELS, "/v1/models", query)
    if path.startswith("/v1/v1/"):
        path = f"/v1{bare}"
    return Route(Dialect.OTHER, path or "/", query)


def error_body(dialect: Dialect, status: int, message: str, details: Mapping[str, Any] | None = None) -> bytes:
    """An error as that dialect's clients read it."""
    error = messages.error if dialect is Dialect.MESSAGES else responses.error
    return msgspec.json.encode(error(status, message, details))


def error_message(body: bytes, limit: int = 300) -> str:
    """The sentence in an engine's error answer, whatever its shape; shortened."""
    text = ""
    try:
        match msgspec.json.decode(body):
            case {"error": {"message": str(message)}} | {"error": str(message)} | {"message": str(message)}:
                text = message
            case {"detail": detail}:
                text = detail if isinstance(detail, str) else msgspec.json.encode(detail).decode()
    except msgspec.DecodeError:
        pass
    text = " ".join((text or body[: limit * 4].decode("utf-8", "replace")).split())
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
