"""What was said in a call, in whatever dialect: chat completions, Responses, Anthropic messages, completions.

Pure: from a trace's request and response to a list of parts for a reader.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

_NOT_SETTINGS = frozenset({"model", "messages", "input", "instructions", "system", "prompt", "tools", "stream"})


class Part(msgspec.Struct, frozen=True):
    """One thing that somebody said.

    Args:
        speaker: ``system``, ``user``, ``assistant``, ``reasoning``, ``tool call``, ``tool result``, ``error``, ...
        text: what; of a tool call ``name(arguments)``.
    """

    speaker: str
    text: str


def request_parts(request: Any) -> list[Part]:
    """All that a request shows the model, in order."""
    if not isinstance(request, dict):
        return [Part("request", _text(request))]
    parts = [Part("system", _text(request[name])) for name in ("system", "instructions") if request.get(name)]
    for name in ("messages", "input"):
        said = request.get(name)
        parts += [Part("user", said)] if isinstance(said, str) else _messages(said)
    if "prompt" in request:
        parts.append(Part("prompt", _text(request["prompt"])))
    return [part for part in parts if part.text]


def response_parts(response: Any) -> list[Part]:
    """All that came back; an error where it was one."""
    if not isinstance(response, dict):
        return [Part("response", _text(response))] if response else []
    parts: list[Part] = []
    if response.get("error"):
        error = response["error"]
        parts.append(Part("error", _text(error.get("message", error) if isinstance(error, dict) else error)))
    for choice in _list(response.get("choices")):
        match choice:
            case {"message": message}:
                parts += _message(message)
            case {"text": text}:
                parts.append(Part("assistant", _text(text)))
            case _:
                parts.append(Part("response", _text(choice)))
    parts += _messages(response.get("output"))
    parts += _content("assistant", response.get("content"))
    return [part for part in parts if part.text]


def new_parts(parts: Sequence[Part], earlier: Sequence[Sequence[Part]]) -> Sequence[Part]:
    """What a request adds to the longest of the earlier conversations (request and reply) that it continues."""
    known = max((_common(parts, one) for one in earlier), default=0)
    return parts[known:]


def settings(request: Any) -> dict[str, Any]:
    """The rest of a request: sampling values, tool choice and so on."""
    if not isinstance(request, dict):
        return {}
    return {name: value for name, value in request.items() if name not in _NOT_SETTINGS and value is not None}


def tool_names(request: Any) -> list[str]:
    """Names of the tools that a request offers, in any dialect."""
    tools = request.get("tools") if isinstance(request, dict) else None
    if not isinstance(tools, list):
        return []
    names = []
    for tool in tools:
        match tool:
            case {"function": {"name": name}} | {"name": name} | {"type": name}:
                names.append(_text(name))
            case _:
                names.append(_text(tool))
    return names


def _common(a: Sequence[Part], b: Sequence[Part]) -> int:
    n = 0
    for one, other in zip(a, b, strict=False):
        if one != other:
            break
        n += 1
    return n


def _messages(messages: Any) -> list[Part]:
    return [part for message in _list(messages) for part in _message(message)]


def _message(message: Any) -> Iterator[Part]:
    """A chat message, an Anthropic message, or an item of the Responses API."""
    match message:
        case {"type": "function_call", "name": name}:
            yield _tool_call(name, message.get("arguments"))
        case {"type": "function_call_output"}:
            yield Part("tool result", _text(message.get("output")))
        case {"type": "reasoning"}:
            yield from _content("reasoning", message.get("summary"))
            yield from _content("reasoning", message.get("content"))
        case {"role": str(role)}:
            speaker = "tool result" if role == "tool" else role
            yield from _content("reasoning", message.get("reasoning_content") or message.get("reasoning"))
            yield from _content(speaker, message.get("content"))
            yield from _content(speaker, message.get("refusal"))
            for call in _list(message.get("tool_calls")):
                match call:
                    case {"function": {"name": name, **rest}}:
                        yield _tool_call(name, rest.get("arguments"))
                    case _:
                        yield Part("tool call", _text(call))
        case _:
            yield Part("message", _text(message))


def _content(speaker: str, content: Any) -> Iterator[Part]:
    for block in _list(content):
        match block:
            case {"type": "tool_use", "name": name}:
                yield _tool_call(name, block.get("input"))
            case {"type": "tool_result"}:
                yield from _content("tool result", block.get("content"))
            case {"type": "thinking"}:
                yield Part("reasoning", _text(block.get("thinking")))
            case {"text": str(text)} | {"refusal": str(text)}:
                yield Part(speaker, text)
            case _:
                yield Part(speaker, _text(block))


def _list(value: Any) -> list[Any]:
    """What should be a list, whatever it is: agents send all sorts of things, and all of it is shown."""
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def _tool_call(name: Any, arguments: Any) -> Part:
    return Part("tool call", f"{name}({_text(arguments)})")


def _text(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
