"""What a model said, as the episode goes on with it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from agentflow.workflows.chat import Message, Reply
from benchmarks.bfcl.calls import UndecodableError, decoded


@dataclass(frozen=True)
class ToolCall:
    """A call that a model asks for. ``arguments`` are None where they cannot be read; ``trouble`` says why."""

    id: str
    name: str
    arguments: dict[str, Any] | None
    trouble: str = ""


@dataclass(frozen=True)
class Said:
    """One message: with ``calls`` it goes to the environment, without them its ``text`` to the other side."""

    text: str
    calls: tuple[ToolCall, ...]
    message: Message

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to go on with."""
        return not self.text.strip() and not self.calls


def said(reply: Reply) -> Said:
    """Read a reply. In ``message``, to be sent back, arguments that no engine would read again are left out."""
    calls = tuple(_call(call) for call in reply.tool_calls)
    if all(call.arguments is not None for call in calls):
        return Said(reply.text, calls, reply.message)
    readable = [
        given if call.arguments is not None else {**given, "function": {**given["function"], "arguments": "{}"}}
        for given, call in zip(reply.tool_calls, calls, strict=True)
    ]
    return Said(reply.text, calls, {**reply.message, "tool_calls": readable})


def _call(call: Message) -> ToolCall:
    id, function = str(call.get("id") or ""), call["function"]
    try:
        return ToolCall(id, function["name"], decoded(function.get("arguments") or ""))
    except UndecodableError as e:
        return ToolCall(id, function["name"], None, str(e))
