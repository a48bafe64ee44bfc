"""A chat reply as a Responses reply, and the objects that whole and streamed replies are made of."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from agentflow.runner.translate.chat import Tokens, ToolCall, is_object, new_id, read_reply

_INCOMPLETE = {"length": "max_output_tokens", "content_filter": "content_filter"}


def from_chat(body: dict[str, Any], chat: dict[str, Any]) -> dict[str, Any]:
    """Say a chat reply as the reply to the Responses request ``body``.

    A reply that hit its token limit is ``incomplete``, and so is the item it was cut off in: a function call whose
    arguments end in the middle must not look like one that can be run. A reply without text and calls holds one
    empty message.

    Raises:
        TranslationError: the chat reply has no choices, or the worker gave it up itself.
    """
    reply = read_reply(chat)
    cut = is_cut(reply.finish)
    last = "incomplete" if cut else "completed"
    output = []
    if reply.thought:
        output.append(reasoning_item(new_id("rs_"), reply.thought, "completed" if reply.text or reply.calls else last))
    if reply.text or not (reply.calls or (cut and reply.thought)):
        status = "completed" if reply.calls else last
        output.append(message_item(new_id("msg_"), reply.text, status, reply.logprobs))
    for i, call in enumerate(reply.calls):
        status = call_status(call, cut and i == len(reply.calls) - 1)
        output.append(call_item(new_id("fc_"), call, call.arguments, status))
    return ended(response(body, chat), reply.finish, output, reply.tokens)


def response(body: Mapping[str, Any], chat: Mapping[str, Any]) -> dict[str, Any]:
    """A response in progress; ``chat`` is the chat reply or its first chunk."""
    return {
        "id": new_id("resp_"),
        "object": "response",
        "created_at": chat.get("created") or int(time.time()),
        "status": "in_progress",
        "background": False,
        "error": None,
        "incomplete_details": None,
        "model": chat.get("model") or body.get("model") or "",
        "output": [],
        "truncation": "disabled",
        "usage": None,
        **_echoed(body),
    }


def is_cut(finish: str) -> bool:
    """Whether the reply ends before its end, by the engine's finish reason."""
    return finish in _INCOMPLETE


def ended(
    response: Mapping[str, Any], finish: str, output: list[dict[str, Any]], tokens: Tokens | None
) -> dict[str, Any]:
    """The response at its end, by the engine's finish reason."""
    end: dict[str, Any] = {"status": "completed", "output": output, "usage": _usage(tokens)}
    if finish in _INCOMPLETE:
        end |= {"status": "incomplete", "incomplete_details": {"reason": _INCOMPLETE[finish]}}
    return {**response, **end}


def failed(
    response: Mapping[str, Any], message: str, output: list[dict[str, Any]], tokens: Tokens | None
) -> dict[str, Any]:
    """The response after the worker failed in the middle of it."""
    problem = {"code": "server_error", "message": message}
    return {**response, "status": "failed", "error": problem, "output": output, "usage": _usage(tokens)}


def reasoning_item(item_id: str, text: str | None, status: str) -> dict[str, Any]:
    """A reasoning item with one part, or with none yet; the text is the model's own, so it is content, no summary."""
    content = [] if text is None else [reasoning_part(text)]
    return {"id": item_id, "type": "reasoning", "summary": [], "content": content, "status": status}


def reasoning_part(text: str) -> dict[str, Any]:
    """The part of a reasoning item that holds its text."""
    return {"type": "reasoning_text", "text": text}


def message_item(
    item_id: str, text: str | None, status: str, logprobs: list[dict[str, Any]] | None = None
) -> dict[str, Any]:
    """A message with one part, or with none yet (``text`` None)."""
    content = [] if text is None else [text_part(text, logprobs or [])]
    return {"id": item_id, "type": "message", "role": "assistant", "content": content, "status": status}


def text_part(text: str, logprobs: list[dict[str, Any]]) -> dict[str, Any]:
    """The part of a message that holds its text."""
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": logprobs}


def call_item(item_id: str, call: ToolCall, arguments: str, status: str) -> dict[str, Any]:
    """A function call; ``call_id`` is the engine's id, which its output refers to."""
    return {
        "id": item_id,
        "type": "function_call",
        "call_id": call.id,
        "name": call.name,
        "arguments": arguments,
        "status": status,
    }


def call_status(call: ToolCall, cut: bool) -> str:
    """``incomplete`` for the call in which the reply was cut off, unless its arguments were just whole."""
    return "incomplete" if cut and not is_object(call.arguments) else "completed"


def error(status: int, message: str, details: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """An error body as OpenAI writes it; ``details`` go beside its own fields."""
    kinds = {401: "authentication_error", 403: "permission_error", 404: "not_found_error", 429: "rate_limit_error"}
    kind = kinds.get(status, "invalid_request_error" if status < 500 else "server_error")
    return {"error": {"message": message, "type": kind, "param": None, "code": None, **(details or {})}}


def _usage(tokens: Tokens | None) -> dict[str, Any] | None:
    if tokens is None:
        return None
    return {
        "input_tokens": tokens.prompt,
        "input_tokens_details": {"cached_tokens": tokens.cached, "cache_write_tokens": 0},
        "output_tokens": tokens.completion,
        "output_tokens_details": {"reasoning_tokens": tokens.reasoning},
        "total_tokens": tokens.prompt + tokens.completion,
    }


def _echoed(body: Mapping[str, Any]) -> dict[str, Any]:
    """What the agent may have set and finds again in the reply; the openai SDK wants some of them to be there."""
    fields: dict[str, Any] = {
        "instructions": None,
        "max_output_tokens": None,
        "max_tool_calls": None,
        "metadata": {},
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "prompt_cache_key": None,
        "reasoning": None,
        "safety_identifier": None,
        "store": True,
        "temperature": None,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "top_logprobs": None,
        "top_p": None,
        "user": None,
    }
    return fields | {key: body[key] for key in fields if body.get(key) is not None}
