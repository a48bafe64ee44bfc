"""One reply out of the events of a stream: what the trace keeps, and how a stream is known to be whole.

An assembler is fed the decoded events in order. ``complete`` turns true at the dialect's own end of a stream, so that
a worker that goes away with a clean close is told apart from one that finished.
"""

from __future__ import annotations

from typing import Any, Protocol

import msgspec

from agentflow.runner.dialect import Dialect

Json = dict[str, Any]


class Assembler(Protocol):
    """``error``: what an error event in the stream said, else empty."""

    complete: bool
    error: str

    def feed(self, event: Json) -> None: ...

    def reply(self) -> Json:
        """The reply as far as it came."""


def assembler(dialect: Dialect) -> Assembler | None:
    """None where streams of that dialect are not known."""
    match dialect:
        case Dialect.CHAT | Dialect.COMPLETIONS:
            return Choices("chat.completion" if dialect is Dialect.CHAT else "text_completion")
        case Dialect.RESPONSES:
            return Responses()
        case Dialect.MESSAGES:
            return Messages()
        case _:
            return None


def has_output(event: Json) -> bool:
    """Whether an event brings something that the model wrote: text, reasoning, a part of a tool call."""
    kind = event.get("type")
    if isinstance(kind, str):  # Responses and Messages name their events
        return kind.endswith("delta") and kind != "message_delta"
    return any(
        part.get("text") or any(value for key, value in (part.get("delta") or {}).items() if key != "role")
        for part in event.get("choices") or ()
    )


class Choices:
    """Chat and text completions: chunks with a delta (or a text) a choice.

    Complete with ``[DONE]`` (set from outside) or once every choice has a finish reason.
    """

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._head: Json = {}
        self._choices: dict[int, Json] = {}
        self._unfinished: set[int] = set()
        self.complete = False
        self.error = ""

    def feed(self, event: Json) -> None:
        if "error" in event:
            self.error = error_text(event["error"])
            return
        for key, value in event.items():
            if key != "choices" and (value is not None or key not in self._head):
                self._head[key] = value
        for part in event.get("choices") or ():
            index = part.get("index", 0)
            choice = self._choices.get(index)
            if choice is None:
                choice = self._choices[index] = {"index": index}
                self._unfinished.add(index)
            for key, value in part.items():
                if key == "delta":
                    _merge(choice.setdefault("message", {}), value or {})
                elif key != "index":
                    _merge(choice, {key: value})
            if part.get("finish_reason") is not None:
                self._unfinished.discard(index)
                self.complete = not self._unfinished

    def reply(self) -> Json:
        choices = [_joined(self._choices[i]) for i in sorted(self._choices)]
        return {**self._head, "object": self._kind, "choices": choices}


class _Text(list[str]):
    """A string that grows by pieces; joined once."""


# Given whole in every delta that carries them, not in pieces.
_WHOLE = frozenset({"role", "type", "id", "finish_reason", "stop_reason", "name", "object"})


def _merge(target: Json, delta: Json) -> None:
    for key, value in delta.items():
        have = target.get(key)
        if value is None:
            target.setdefault(key, None)
        elif isinstance(value, str):
            if key in _WHOLE:
                target[key] = value or have or ""
            elif isinstance(have, _Text):
                have.append(value)
            else:
                target[key] = _Text([value])
        elif isinstance(value, dict):
            if not isinstance(have, dict):
                have = target[key] = {}
            _merge(have, value)
        elif isinstance(value, list):
            if not isinstance(have, list) or isinstance(have, _Text):
                have = target[key] = []
            _extend(have, value)
        else:
            target[key] = value


def _extend(have: list[Any], parts: list[Any]) -> None:
    """Lists of indexed parts (tool calls) merge by index, others (logprobs) are appended."""
    for part in parts:
        if not (isinstance(part, dict) and isinstance(part.get("index"), int)):
            have.append(part)
            continue
        for known in have:
            if isinstance(known, dict) and known.get("index") == part["index"]:
                _merge(known, part)
                break
        else:
            new: Json = {}
            _merge(new, part)
            have.append(new)


def _joined(value: Any) -> Any:
    if isinstance(value, _Text):
        return "".join(value)
    if isinstance(value, dict):
        return {k: _joined(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_joined(v) for v in value]
    return value


class Responses:
    """The Responses API: its last event carries the whole response."""

    def __init__(self) -> None:
        self._response: Json = {}
        self._items: list[Json] = []
        self.complete = False
        self.error = ""

    def feed(self, event: Json) -> None:
        kind = event.get("type", "")
        if isinstance(event.get("response"), dict):
            self._response = event["response"]
        if kind == "response.output_item.done":
            self._items.append(event.get("item") or {})
        elif kind in ("response.completed", "response.incomplete"):
            self.complete = True
        elif kind == "response.failed":
            self.complete = True
            self.error = error_text(self._response.get("error"))
        elif kind == "error":
            self.error = error_text(event.get("error") or event)

    def reply(self) -> Json:
        if self.complete:
            return self._response
        return {**self._response, "output": self._items}


class Messages:
    """Anthropic's Messages API: content blocks with deltas."""

    def __init__(self) -> None:
        self._message: Json = {}
        self._blocks: dict[int, Json] = {}
        self._arguments: dict[int, list[str]] = {}
        self.complete = False
        self.error = ""

    def feed(self, event: Json) -> None:
        match event:
            case {"type": "message_start", "message": dict(message)}:
                self._message = {**message, "usage": dict(message.get("usage") or {})}
            case {"type": "content_block_start", "index": int(index), "content_block": dict(block)}:
                self._blocks[index] = {k: _Text([v]) if k in ("text", "thinking") else v for k, v in block.items()}
            case {"type": "content_block_delta", "index": int(index), "delta": dict(delta)}:
                self._delta(index, delta)
            case {"type": "message_delta"}:
                self._message |= event.get("delta") or {}
                usage = {k: v for k, v in (event.get("usage") or {}).items() if v is not None}
                self._message["usage"] = self._message.get("usage", {}) | usage
            case {"type": "message_stop"}:
                self.complete = True
            case {"type": "error"}:
                self.error = error_text(event.get("error"))

    def _delta(self, index: int, delta: Json) -> None:
        block = self._blocks.setdefault(index, {})
        match delta:
            case {"type": "input_json_delta", "partial_json": str(part)}:
                self._arguments.setdefault(index, []).append(part)
            case {"type": "citations_delta", "citation": citation}:
                block["citations"] = [*(block.get("citations") or ()), citation]
            case _:
                _merge(block, {k: v for k, v in delta.items() if k != "type"})

    def reply(self) -> Json:
        for index, parts in self._arguments.items():
            text = "".join(parts)
            try:
                self._blocks[index]["input"] = msgspec.json.decode(text)
            except msgspec.DecodeError:
                self._blocks[index]["input"] = text  # cut off in the middle
        return {**self._message, "content": [_joined(self._blocks[i]) for i in sorted(self._blocks)]}


def error_text(error: Any) -> str:
    """The message of an error object."""
    if isinstance(error, dict):
        return str(error.get("message") or error.get("code") or error)
    return str(error)
