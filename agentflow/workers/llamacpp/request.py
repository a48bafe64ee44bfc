"""What llama.cpp is asked for a request of the agent. Pure.

It is always asked for a stream, because it goes on generating for a plain request whose client has gone. A forced tool
call (``tool_choice`` ``required`` or a function's name), which its grammar does not enforce, becomes a
``response_format`` that admits exactly the calls allowed; :mod:`.reply` turns the text back into a call.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import msgspec


class RequestError(Exception):
    """The request is wrong: answered with 400 and this sentence."""


@dataclass(frozen=True)
class Request:
    """A request as it goes to llama.cpp, and what its reply needs.

    Args:
        body: JSON for llama.cpp.
        streamed: the agent wants a stream.
        wants_usage: and the usage at its end.
        calls: tools are offered: calls may come, and are handed on whole.
        forced: the text is a tool call.
        prompts: how many prompts share the usage (a completion takes a list of them).
        key: hash of ``body``; makes the ids of tool calls the same for the same request.
    """

    body: bytes
    streamed: bool
    wants_usage: bool
    calls: bool
    forced: bool
    prompts: int
    key: str


def prepare(raw: bytes, *, chat: bool) -> Request:
    """Read the body of a chat completion (or, ``chat`` False, of a completion). Raises RequestError."""
    try:
        body = msgspec.json.decode(raw, type=dict[str, Any])
    except msgspec.DecodeError as e:
        raise RequestError(f"The body is not a JSON object: {e}.") from e
    streamed = bool(body.pop("stream", False))
    wants_usage = bool((body.pop("stream_options", None) or {}).get("include_usage"))
    forced = False
    if chat:
        body["messages"] = [_checked(m) for m in _messages(body)]
        forced = _apply_tool_choice(body)
    sent = msgspec.json.encode({**body, "stream": True, "stream_options": {"include_usage": True}})
    return Request(
        body=sent,
        streamed=streamed,
        wants_usage=wants_usage,
        calls=chat and bool(body.get("tools")),
        forced=forced,
        prompts=1 if chat else _number_of_prompts(body.get("prompt")),
        key=hashlib.sha256(sent).hexdigest(),
    )


def _messages(body: dict[str, Any]) -> list[dict[str, Any]]:
    messages = body.get("messages")
    if not isinstance(messages, list) or not all(isinstance(m, dict) for m in messages) or not messages:
        raise RequestError("messages must be a list of at least one message.")
    return messages


def _checked(message: dict[str, Any]) -> dict[str, Any]:
    """A message whose tool calls have arguments that a template can render; llama.cpp answers 500 to others."""
    calls = message.get("tool_calls")
    if not calls:
        return message
    return {**message, "tool_calls": [_checked_call(call) for call in calls]}


def _checked_call(call: dict[str, Any]) -> dict[str, Any]:
    function = call.get("function")
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        raise RequestError("A tool call in messages has no function name.")
    arguments = function.get("arguments")
    if isinstance(arguments, str):
        arguments = arguments.strip() or "{}"  # what a function without parameters is often called with
        try:
            msgspec.json.decode(arguments, type=dict[str, Any])
        except msgspec.DecodeError as e:
            raise RequestError(
                f"A call of {function['name']} in messages has arguments that are not a JSON object: {e}."
            ) from e
    return {**call, "function": {**function, "arguments": arguments or {}}}


def _apply_tool_choice(body: dict[str, Any]) -> bool:
    """Replace ``tool_choice`` by what llama.cpp obeys; True when a call is forced."""
    choice = body.pop("tool_choice", None)
    functions = _functions(body.get("tools"))
    if isinstance(choice, dict) and choice.get("type") == "allowed_tools":
        allowed = choice.get("allowed_tools") or {}
        names = set(_functions(allowed.get("tools")))
        functions = {name: f for name, f in functions.items() if name in names}
        choice = allowed.get("mode")
    if choice in (None, "auto", "none"):
        if choice is not None and functions:
            body["tool_choice"] = choice
        return False
    if choice != "required":
        name = (choice.get("function") or {}).get("name") if isinstance(choice, dict) else None
        if name not in functions:
            raise RequestError(
                f"tool_choice {choice!r} names none of the tools given: {', '.join(functions) or 'none'}."
            )
        functions = {name: functions[name]}
    if not functions:
        raise RequestError("tool_choice 'required' needs at least one function in tools.")
    body["response_format"] = {
        "type": "json_schema",
        "json_schema": {"name": "tool_call", "strict": True, "schema": call_schema(functions)},
    }
    body["tool_choice"] = "none"  # or llama.cpp looks for a call of its own format in the text
    body.pop("stop", None)  # meant for prose: it would cut the call in two
    return True


def _functions(tools: Any) -> dict[str, dict[str, Any]]:
    found = {}
    for tool in tools or ():
        function = tool.get("function") if isinstance(tool, dict) else None
        if not isinstance(function, dict) or not isinstance(function.get("name"), str):
            raise RequestError("Each of tools must be {'type': 'function', 'function': {'name': ...}}.")
        found[function["name"]] = function
    return found


def call_schema(functions: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """A JSON schema of exactly the calls ``{"name": ..., "arguments": ...}`` of these functions.

    References within a function's parameters (pydantic writes ``#/$defs/...``) are moved along with them.
    """
    definitions, calls = {}, []
    for i, (name, function) in enumerate(functions.items()):
        parameters = function.get("parameters") or {"type": "object", "properties": {}, "additionalProperties": False}
        definitions[str(i)] = _moved(parameters, f"#/$defs/{i}")
        calls.append(
            {
                "type": "object",
                "properties": {"name": {"const": name}, "arguments": {"$ref": f"#/$defs/{i}"}},
                "required": ["name", "arguments"],
                "additionalProperties": False,
            }
        )
    return {"anyOf": calls, "$defs": definitions}


def _moved(schema: Any, root: str) -> Any:
    if isinstance(schema, list):
        return [_moved(s, root) for s in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        k: root + v[1:] if k == "$ref" and isinstance(v, str) and v.startswith("#") else _moved(v, root)
        for k, v in schema.items()
    }


def _number_of_prompts(prompt: Any) -> int:
    several = isinstance(prompt, list) and prompt and isinstance(prompt[0], str | list)
    return len(prompt) if several else 1
