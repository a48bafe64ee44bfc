"""The tool calls of a reply: as they are run, and as they can be sent back to any engine. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from agentflow.workflows.chat import Message, Reply

_SHOWN = 300  # characters of arguments that cannot be read


@dataclass(frozen=True)
class ToolCall:
    """One call. ``id`` is unique in its message; ``arguments`` is None where ``written`` is no JSON object."""

    id: str
    name: str
    written: str
    arguments: dict[str, Any] | None

    @property
    def complaint(self) -> str:
        """What is wrong with arguments that are None, for the model."""
        return f"the arguments must be a JSON object, and these are not: {self.written[:_SHOWN]}"

    @property
    def message(self) -> Message:
        """The entry of ``tool_calls`` to send back. Arguments that are no JSON object are sent as an empty one: the
        templates of several engines parse them, and answer a whole conversation with a 500 for one that is cut off."""
        arguments = self.written if self.arguments is not None else "{}"
        return {"id": self.id, "type": "function", "function": {"name": self.name, "arguments": arguments}}


def tool_calls(reply: Reply) -> list[ToolCall]:
    """The calls of a reply, each with an id of its own, also where the engine repeats or leaves out one."""
    calls: list[ToolCall] = []
    for number, entry in enumerate(reply.tool_calls):
        function = entry.get("function") or {}
        given = entry.get("id")
        taken = {call.id for call in calls}
        id = given if isinstance(given, str) and given and given not in taken else f"{reply.id}-{number}"
        arguments = function.get("arguments") or "{}"
        written = arguments if isinstance(arguments, str) else json.dumps(arguments)  # some engines send the object
        calls.append(ToolCall(id, str(function.get("name") or ""), written, _object(written)))
    return calls


def sendable(reply: Reply, calls: Sequence[ToolCall]) -> Message:
    """The model's message with its calls as they can be sent back."""
    return {**reply.message, "tool_calls": [call.message for call in calls]}


def _object(written: str) -> dict[str, Any] | None:
    try:
        value = json.loads(written)
    except (ValueError, RecursionError):  # a model caught in a loop nests without end
        return None
    return value if isinstance(value, dict) else None
