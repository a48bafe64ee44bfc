"""What a model said, as the episodes go on with it. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from agentflow.workflows import tool_calls
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
    """Read a reply. Every call has an id of its own, and in ``message``, to be sent back, arguments that no engine
    would read again are left out."""
    if not reply.tool_calls:
        return Said(reply.text, (), reply.message)
    asked_for = tool_calls.tool_calls(reply)
    calls = tuple(map(_call, asked_for))
    sent_back = [
        {**given, **(one if call.arguments is not None else replace(one, arguments=None)).message}
        for given, one, call in zip(reply.tool_calls, asked_for, calls, strict=True)
    ]
    return Said(reply.text, calls, {**reply.message, "tool_calls": sent_back})


def _call(one: tool_calls.ToolCall) -> ToolCall:
    try:
        return ToolCall(one.id, one.name, decoded(one.written))
    except UndecodableError as e:
        return ToolCall(one.id, one.name, None, str(e))
