"""A chat reply as a Messages reply, and the objects that whole and streamed replies are made of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pydantic_core

from agentflow.runner.translate.chat import Tokens, new_id, read_reply

_STOP_REASONS = {"length": "max_tokens", "content_filter": "refusal"}

#: Where arguments that are no JSON object are kept: this dialect has no place for them, and dropping them would make
#: a call with no arguments of a broken one. A tool refuses the unknown argument, and the model sees what it wrote.
MALFORMED = "malformed_arguments"


def from_chat(body: dict[str, Any], chat: dict[str, Any]) -> dict[str, Any]:
    """Say a chat reply as the reply to the Messages request ``body``.

    Of a call that the token limit cut off there is what was complete of its arguments, as the SDK has it of a stream,
    and ``stop_reason`` is ``max_tokens``: it is not to be run. A reply without text and calls holds one empty text.

    Raises:
        TranslationError: the chat reply has no choices, or the worker gave it up itself.
    """
    reply = read_reply(chat)
    cut = is_cut(reply.finish)
    content = [thinking_block(reply.thought)] if reply.thought else []
    if reply.text or not (reply.calls or (cut and reply.thought)):
        content.append(text_block(reply.text))
    for i, call in enumerate(reply.calls):
        arguments = call_input(call.arguments, cut and i == len(reply.calls) - 1)
        content.append(call_block(call.id, call.name, arguments))
    stop = stop_fields(body, reply.finish, reply.matched_stop, bool(reply.calls))
    return {**message(body, chat), "content": content, **stop, "usage": usage(reply.tokens)}


def message(body: Mapping[str, Any], chat: Mapping[str, Any]) -> dict[str, Any]:
    """A message that has not begun; ``chat`` is the chat reply or its first chunk."""
    return {
        "id": new_id("msg_"),
        "type": "message",
        "role": "assistant",
        "model": chat.get("model") or body.get("model") or "",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage(None),
    }


def stop_fields(body: Mapping[str, Any], finish: str, matched: str | None, called: bool) -> dict[str, Any]:
    """``stop_reason`` and ``stop_sequence``; an engine that does not name the sequence it met gives ``end_turn``."""
    if finish in _STOP_REASONS:
        return {"stop_reason": _STOP_REASONS[finish], "stop_sequence": None}
    if called:
        return {"stop_reason": "tool_use", "stop_sequence": None}
    if matched is not None and matched in (body.get("stop_sequences") or []):
        return {"stop_reason": "stop_sequence", "stop_sequence": matched}
    return {"stop_reason": "end_turn", "stop_sequence": None}


def usage(tokens: Tokens | None) -> dict[str, Any]:
    """Token counts as Anthropic counts: ``input_tokens`` are those that were not read from the cache."""
    tokens = tokens or Tokens()
    return {
        "input_tokens": max(tokens.prompt - tokens.cached, 0),
        "cache_read_input_tokens": tokens.cached,
        "cache_creation_input_tokens": 0,
        "output_tokens": tokens.completion,
    }


def thinking_block(text: str) -> dict[str, Any]:
    """A thinking block; only Anthropic signs them."""
    return {"type": "thinking", "thinking": text, "signature": ""}


def text_block(text: str) -> dict[str, Any]:
    """A text block."""
    return {"type": "text", "text": text}


def call_block(call_id: str, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """A tool_use block; the id is the engine's, which the tool_result refers to."""
    return {"type": "tool_use", "id": call_id, "name": name, "input": arguments}


def call_input(arguments: str, cut: bool) -> dict[str, Any]:
    """The arguments as the object that this dialect wants; of those cut off, what was complete."""
    try:
        decoded = pydantic_core.from_json(arguments or "{}", allow_partial=True) if cut else _decoded(arguments)
    except ValueError:
        decoded = None
    return decoded if isinstance(decoded, dict) else {MALFORMED: arguments}


def is_cut(finish: str) -> bool:
    """Whether the reply ends before its end, by the engine's finish reason."""
    return finish in _STOP_REASONS


def error(status: int, message: str, details: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """An error body as Anthropic writes it."""
    kinds = {
        401: "authentication_error",
        403: "permission_error",
        404: "not_found_error",
        413: "request_too_large",
        429: "rate_limit_error",
        503: "overloaded_error",
        504: "timeout_error",
        529: "overloaded_error",
    }
    kind = kinds.get(status, "invalid_request_error" if status < 500 else "api_error")
    problem: dict[str, Any] = {"type": kind, "message": message}
    if details is not None:
        problem["details"] = details
    return {"type": "error", "error": problem}


def _decoded(arguments: str) -> object:
    return msgspec.json.decode(arguments or "{}")
