"""The numbers of a reply, whatever its dialect: tokens, tool calls, truncation, id."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from agentflow.runner.dialect import Dialect


class Numbers(msgspec.Struct, frozen=True):
    """Named as in :class:`agentflow.episode.Call`."""

    id: str = ""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    tool_calls: int = 0
    truncated: bool = False


class _OnlyUsage(msgspec.Struct):
    usage: dict[str, Any] | None = None


def read_reply(dialect: Dialect, body: bytes) -> dict[str, Any] | None:
    """A reply's body for :func:`numbers`; None when it is no JSON object. Of embeddings only the usage is read."""
    try:
        if dialect is Dialect.EMBEDDINGS:
            return {"usage": msgspec.json.decode(body, type=_OnlyUsage).usage}
        reply = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return reply if isinstance(reply, dict) else None


def numbers(dialect: Dialect, reply: Mapping[str, Any]) -> Numbers:
    """Read a whole reply (or one assembled from a stream). What is missing or malformed counts as 0."""
    usage = _mapping(reply.get("usage"))
    prompt, completion, cached = _tokens(dialect, usage)
    tool_calls, truncated = _outcome(dialect, reply)
    id = reply.get("id")
    return Numbers(id if isinstance(id, str) else "", prompt, completion, cached, tool_calls, truncated)


def _tokens(dialect: Dialect, usage: Mapping[str, Any]) -> tuple[int, int, int]:
    if dialect is Dialect.MESSAGES:
        # Anthropic counts what came from the cache, and what was written to it, apart from input_tokens.
        cached = _int(usage.get("cache_read_input_tokens"))
        prompt = _int(usage.get("input_tokens")) + cached + _int(usage.get("cache_creation_input_tokens"))
        return prompt, _int(usage.get("output_tokens")), cached
    if dialect is Dialect.RESPONSES:
        cached = _int(_mapping(usage.get("input_tokens_details")).get("cached_tokens"))
        return _int(usage.get("input_tokens")), _int(usage.get("output_tokens")), cached
    cached = _int(_mapping(usage.get("prompt_tokens_details")).get("cached_tokens"))
    return _int(usage.get("prompt_tokens")), _int(usage.get("completion_tokens")), cached


def _outcome(dialect: Dialect, reply: Mapping[str, Any]) -> tuple[int, bool]:
    if dialect is Dialect.MESSAGES:
        blocks = _mappings(reply.get("content"))
        return sum(str(b.get("type", "")).endswith("tool_use") for b in blocks), reply.get(
            "stop_reason"
        ) == "max_tokens"
    if dialect is Dialect.RESPONSES:
        calls = sum(str(item.get("type", "")).endswith("_call") for item in _mappings(reply.get("output")))
        return calls, _mapping(reply.get("incomplete_details")).get("reason") == "max_output_tokens"
    choices = _mappings(reply.get("choices"))
    calls = sum(len(_mappings(_mapping(choice.get("message")).get("tool_calls"))) for choice in choices)
    return calls, any(choice.get("finish_reason") == "length" for choice in choices)


def _int(value: Any) -> int:
    return value if isinstance(value, int) else 0


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _mappings(value: Any) -> list[Mapping[str, Any]]:
    return [v for v in value if isinstance(v, dict)] if isinstance(value, list) else []
