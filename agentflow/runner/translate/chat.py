"""Reading what a chat completions endpoint answers, whole or in chunks, whichever engine wrote it."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from agentflow.runner.translate import TranslationError


class ToolCall(msgspec.Struct):
    """A call of a tool; ``arguments`` is what the model wrote, JSON or not."""

    id: str
    name: str
    arguments: str = ""


class Tokens(msgspec.Struct, frozen=True):
    """Token counts of one call; ``cached`` are part of ``prompt``, ``reasoning`` of ``completion``."""

    prompt: int = 0
    completion: int = 0
    cached: int = 0
    reasoning: int = 0


class Reply(msgspec.Struct, frozen=True):
    """A chat reply: first choice, normalised. ``finish`` is the engine's own finish reason."""

    thought: str
    text: str
    calls: list[ToolCall]
    finish: str
    matched_stop: str | None
    logprobs: list[dict[str, Any]]
    tokens: Tokens | None


class Thought(msgspec.Struct, frozen=True):
    """A piece of reasoning."""

    text: str


class Text(msgspec.Struct, frozen=True):
    """A piece of text, with the log probabilities of its tokens where the engine gives them."""

    text: str
    logprobs: list[dict[str, Any]] = []


class CallStart(msgspec.Struct, frozen=True):
    """A tool call begins; its arguments follow."""

    call: ToolCall


class Arguments(msgspec.Struct, frozen=True):
    """A piece of the arguments of ``call``, which has it already."""

    call: ToolCall
    text: str


Piece = Thought | Text | CallStart | Arguments


def read_reply(chat: Mapping[str, Any]) -> Reply:
    """The first choice of a chat reply.

    Raises:
        TranslationError: there is none, or the worker gave it up itself.
    """
    choices = chat.get("choices")
    if not choices:
        raise TranslationError("The worker's chat reply has no choices: look into the worker's log.")
    choice = choices[0]
    finish = choice.get("finish_reason") or "stop"
    if (problem := given_up(finish)) is not None:
        raise TranslationError(problem)
    message = choice.get("message") or {}
    ids: set[str] = set()
    calls = []
    for call in message.get("tool_calls") or []:
        function = call.get("function") or {}
        name, arguments = function.get("name") or "", function.get("arguments") or ""
        calls.append(ToolCall(_unique_id(call.get("id"), ids), name, arguments))
    return Reply(
        thought=message.get("reasoning_content") or message.get("reasoning") or "",
        text=message.get("content") or message.get("refusal") or "",  # a refusal is what the assistant says
        calls=calls,
        finish=finish,
        matched_stop=_matched_stop(choice),
        logprobs=_logprobs(choice),
        tokens=read_tokens(chat.get("usage")),
    )


def read_tokens(usage: Mapping[str, Any] | None) -> Tokens | None:
    """An engine's ``usage``; None where it gives none."""
    if not usage:
        return None
    prompt_details = usage.get("prompt_tokens_details") or {}
    completion_details = usage.get("completion_tokens_details") or {}
    return Tokens(
        prompt=usage.get("prompt_tokens") or 0,
        completion=usage.get("completion_tokens") or 0,
        cached=prompt_details.get("cached_tokens") or 0,
        # SGLang counts reasoning beside the details, not in them.
        reasoning=completion_details.get("reasoning_tokens") or usage.get("reasoning_tokens") or 0,
    )


class ChunkReader:
    """Reads the chunks of a streamed chat reply, in order.

    Attributes:
        finish: the engine's finish reason, "" until it came.
        matched_stop: the stop sequence that ended it, where the engine says so.
        tokens: its usage, None until it came.
    """

    def __init__(self) -> None:
        self.finish = ""
        self.matched_stop: str | None = None
        self.tokens: Tokens | None = None
        self._calls: dict[int, ToolCall] = {}
        self._given_ids: dict[int, str | None] = {}
        self._ids: set[str] = set()

    def read(self, chunk: Mapping[str, Any]) -> Iterator[Piece]:
        """The pieces that this chunk brings."""
        self.tokens = read_tokens(chunk.get("usage")) or self.tokens
        for choice in (chunk.get("choices") or [])[:1]:
            yield from self._delta(choice)
            self.finish = choice.get("finish_reason") or self.finish
            self.matched_stop = _matched_stop(choice) or self.matched_stop

    def _delta(self, choice: Mapping[str, Any]) -> Iterator[Piece]:
        delta = choice.get("delta") or {}
        if thought := delta.get("reasoning_content") or delta.get("reasoning"):
            yield Thought(thought)
        if text := delta.get("content") or delta.get("refusal"):
            yield Text(text, _logprobs(choice))
        for fragment in delta.get("tool_calls") or []:
            yield from self._fragment(fragment)

    def _fragment(self, fragment: Mapping[str, Any]) -> Iterator[Piece]:
        function = fragment.get("function") or {}
        name, given_id, index = function.get("name"), fragment.get("id"), fragment.get("index")
        if index is None:  # some endpoints leave it out; a name then begins the next call
            index = len(self._calls) if name else len(self._calls) - 1
        elif name and given_id and self._given_ids.get(index, given_id) != given_id:
            index = len(self._calls)  # some number every call 0
        call = self._calls.get(index)
        if call is None:
            call = ToolCall(_unique_id(given_id, self._ids), name or "")
            self._calls[index], self._given_ids[index] = call, given_id
            yield CallStart(call)
        if arguments := function.get("arguments"):
            call.arguments += arguments
            yield Arguments(call, arguments)


def given_up(finish: str) -> str | None:
    """The sentence for a reply that its worker gave up itself (an engine that shuts down), else None.

    It may be cut anywhere, and unlike one that hit its limit that is not the model's doing.
    """
    if finish in ("abort", "error"):
        return f"The worker gave this reply up itself (finish reason {finish!r})."
    return None


def chunk_error(chunk: Mapping[str, Any]) -> str | None:
    """The message of an error that the engine sent in the middle of its stream, else None."""
    error = chunk.get("error")
    if not error:
        return None
    message = error.get("message") if isinstance(error, Mapping) else None
    return str(message or error)


def is_object(arguments: str) -> bool:
    """Whether arguments are a JSON object, which is what a tool takes; empty ones stand for ``{}``."""
    try:
        return isinstance(msgspec.json.decode(arguments or "{}"), dict)
    except msgspec.DecodeError:
        return False


def new_id(prefix: str) -> str:
    """A fresh id: an endpoint may repeat its own, and ``previous_response_id`` must never name two responses."""
    return f"{prefix}{uuid.uuid4().hex}"


def _unique_id(given: str | None, used: set[str]) -> str:
    # The engine's own id is kept (some templates put it into the prompt) unless it cannot tell two calls apart.
    call_id = given if given and given not in used else new_id("call_")
    used.add(call_id)
    return call_id


def _matched_stop(choice: Mapping[str, Any]) -> str | None:
    # vLLM calls it stop_reason, SGLang matched_stop; both put a token's number there as well.
    for key in ("stop_reason", "matched_stop"):
        if isinstance(choice.get(key), str):
            stop: str = choice[key]
            return stop
    return None


def _logprobs(choice: Mapping[str, Any]) -> list[dict[str, Any]]:
    return (choice.get("logprobs") or {}).get("content") or []
