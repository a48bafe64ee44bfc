"""An agent's request as it is understood, and as it is put on the wire for a worker."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from agentflow.episode import DEFAULT_ROLE
from agentflow.runner.conversation import Conversation, Fields, read_conversation
from agentflow.runner.dialect import CHAT_PATH, Dialect, Route
from agentflow.runner.sampling import SEEDED, left_out
from agentflow.runner.translate import TranslationError
from agentflow.runner.translation import COUNT_TOKENS, NO_COUNT_TOKENS, TRANSLATORS, Translator

if TYPE_CHECKING:
    from agentflow.runner.core import Core
    from agentflow.runner.table import Endpoint

_fields = msgspec.json.Decoder(Fields)
_encode = msgspec.json.Encoder().encode
_STREAMED_USAGE = frozenset({Dialect.CHAT, Dialect.COMPLETIONS})  # the other dialects' streams carry usage anyway
_TRUE = b"true"

_HOP_BY_HOP = frozenset(
    {
        b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization", b"proxy-connection", b"te",
        b"trailer", b"transfer-encoding", b"upgrade", b"content-length",
    }
)  # fmt: skip
# Ours to set, or about the hop to us. Encodings are not offered: decompressing costs more than loopback.
_OURS = _HOP_BY_HOP | {b"host", b"authorization", b"x-api-key", b"accept-encoding", b"expect", b"cookie"}
_REPLY_OURS = _HOP_BY_HOP | {b"content-encoding", b"date", b"server"}


def request_headers(raw: Iterable[tuple[bytes, bytes]]) -> list[tuple[str, str]]:
    """The agent's headers that a worker is sent. ``x-stainless-*`` (an SDK's telemetry about itself) are left out."""
    return [
        (name.decode("latin-1"), value.decode("latin-1"))
        for name, value in raw
        if (low := name.lower()) not in _OURS and not low.startswith(b"x-stainless-")
    ] + [("Accept-Encoding", "identity")]


def reply_headers(raw: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """The worker's headers that the agent is sent."""
    return [(name, value) for name, value in raw if name.lower() not in _REPLY_OURS]


class AskError(Exception):
    """The request cannot be served; the agent is answered ``status`` with this sentence."""

    def __init__(self, status: int, message: str, details: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.details = details


class Wire(NamedTuple):
    """A request ready for one worker.

    Args:
        filled: the fields that agentflow set.
        translator: set where the reply must be translated back from chat.
        thin: usage was asked for in a stream whose agent did not.
    """

    path: str
    body: bytes
    filled: Fields
    translator: Translator | None
    thin: bool


class Ask:
    """One request.

    Args:
        fields: the body's top level with raw values, None when it is no JSON object (then it goes as it is).
        seed: the seed to fill in, None where the agent set one or none is wanted.
        role: that the call counts for; ``workers`` is the role whose workers answer it.
    """

    __slots__ = (
        "body", "conversation", "fields", "headers", "method", "model", "role", "route", "seed", "stream", "workers",
    )  # fmt: skip

    def __init__(self, method: str, route: Route, headers: list[tuple[str, str]], body: bytes) -> None:
        self.method = method
        self.route = route
        self.headers = headers
        self.body = body
        self.fields = read_fields(body) if body else None
        self.conversation = Conversation()
        self.role = self.workers = DEFAULT_ROLE
        self.seed: int | None = None
        self.stream = False
        self.model = ""
        if self.fields is not None:
            self.stream = _is_true(self.fields.get("stream"))
            model = self.fields.get("model")
            if model is not None and bytes(model).startswith(b'"'):
                self.model = msgspec.json.decode(model, type=str)

    def read_conversation(self) -> None:
        """Hash the messages; after ``fields`` has its final form."""
        if self.fields is not None:
            self.conversation = read_conversation(self.route.dialect, self.fields)

    def decoded(self) -> dict[str, Any]:
        """The whole body as Python values."""
        decoded: dict[str, Any] = msgspec.json.decode(_encode(self.fields))
        return decoded

    def wire(self, core: Core, endpoint: Endpoint) -> Wire:
        """Render for one worker.

        Raises:
            AskError: it lacks the dialect, and the request says what chat completions cannot.
        """
        dialect = self.route.dialect
        if self.route.path == COUNT_TOKENS and not endpoint.serves(Dialect.MESSAGES):
            raise AskError(404, NO_COUNT_TOKENS)
        if self.fields is None:
            return Wire(self.route.path, self.body, {}, None, False)
        if endpoint.serves(dialect):
            filled = self._fills(core, endpoint, dialect, self.fields)
            thin = "stream_options" in filled
            if not filled:
                return Wire(self.route.path, self.body, filled, None, False)
            return Wire(self.route.path, _encode({**self.fields, **filled}), filled, None, thin)
        translator = TRANSLATORS[dialect]
        try:
            chat = translator.to_chat(self.decoded())
        except TranslationError as e:
            raise AskError(400, str(e), e.details) from e
        filled = self._fills(core, endpoint, Dialect.CHAT, chat)
        return Wire(CHAT_PATH, _encode({**chat, **filled}), filled, translator, False)

    def _fills(self, core: Core, endpoint: Endpoint, dialect: Dialect, asked: dict[str, Any]) -> Fields:
        filled: Fields = {}
        served = endpoint.info.model
        if served and self.model != served and ("model" in asked or dialect is not Dialect.OTHER):
            filled["model"] = msgspec.Raw(_encode(served))
        for fill in core.fills(self.role, dialect):
            if left_out(asked, fill.unless):
                filled[fill.field] = fill.value
        if self.seed is not None and dialect in SEEDED and not endpoint.refuses_seed:
            filled["seed"] = msgspec.Raw(_encode(self.seed))
        if self.stream and dialect in _STREAMED_USAGE:
            options = _options(asked.get("stream_options"))
            if options.get("include_usage") is not True:
                filled["stream_options"] = msgspec.Raw(_encode({**options, "include_usage": True}))
        return filled


def read_fields(body: bytes) -> Fields | None:
    """The top level of a JSON object, on one line; None for anything else."""
    try:
        if b"\n" in body:
            body = msgspec.json.format(body, indent=-1)
        return _fields.decode(body)
    except msgspec.DecodeError:
        return None


def _is_true(value: msgspec.Raw | None) -> bool:
    return value is not None and bytes(value) == _TRUE


def _options(value: Any) -> dict[str, Any]:
    options = msgspec.json.decode(value) if isinstance(value, msgspec.Raw) else value
    return options if isinstance(options, dict) else {}
