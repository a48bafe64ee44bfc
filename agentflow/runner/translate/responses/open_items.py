"""Output items of a streamed response while they are written: the events that open, extend and close each kind."""

from __future__ import annotations

from typing import Any

from agentflow.runner.translate.chat import ToolCall, new_id
from agentflow.runner.translate.responses.reply import (
    call_item,
    call_status,
    message_item,
    reasoning_item,
    reasoning_part,
    text_part,
)

Event = dict[str, Any]


class OpenReasoning:
    """Reasoning, with its one part."""

    def __init__(self, index: int) -> None:
        self._id, self._index = new_id("rs_"), index
        self._place = {"item_id": self._id, "output_index": index, "content_index": 0}
        self._texts: list[str] = []

    def opened(self) -> list[Event]:
        item = reasoning_item(self._id, None, "in_progress")
        return [
            {"type": "response.output_item.added", "output_index": self._index, "item": item},
            {"type": "response.content_part.added", **self._place, "part": reasoning_part("")},
        ]

    def delta(self, text: str) -> Event:
        self._texts.append(text)
        return {"type": "response.reasoning_text.delta", **self._place, "delta": text}

    def closed(self, status: str) -> tuple[list[Event], dict[str, Any]]:
        text = "".join(self._texts)
        item = reasoning_item(self._id, text, status)
        events = [
            {"type": "response.reasoning_text.done", **self._place, "text": text},
            {"type": "response.content_part.done", **self._place, "part": reasoning_part(text)},
            {"type": "response.output_item.done", "output_index": self._index, "item": item},
        ]
        return events, item


class OpenMessage:
    """A message, with its one part."""

    def __init__(self, index: int) -> None:
        self._id, self._index = new_id("msg_"), index
        self._place = {"item_id": self._id, "output_index": index, "content_index": 0}
        self._texts: list[str] = []
        self._logprobs: list[dict[str, Any]] = []

    def opened(self) -> list[Event]:
        item = message_item(self._id, None, "in_progress")
        return [
            {"type": "response.output_item.added", "output_index": self._index, "item": item},
            {"type": "response.content_part.added", **self._place, "part": text_part("", [])},
        ]

    def delta(self, text: str, logprobs: list[dict[str, Any]]) -> Event:
        self._texts.append(text)
        self._logprobs += logprobs
        return {"type": "response.output_text.delta", **self._place, "delta": text, "logprobs": logprobs}

    def closed(self, status: str) -> tuple[list[Event], dict[str, Any]]:
        text = "".join(self._texts)
        item = message_item(self._id, text, status, self._logprobs)
        events = [
            {"type": "response.output_text.done", **self._place, "text": text, "logprobs": self._logprobs},
            {"type": "response.content_part.done", **self._place, "part": text_part(text, self._logprobs)},
            {"type": "response.output_item.done", "output_index": self._index, "item": item},
        ]
        return events, item


class OpenCall:
    """A function call."""

    def __init__(self, index: int, call: ToolCall) -> None:
        self.call = call
        self._id, self._index = new_id("fc_"), index
        self._place = {"item_id": self._id, "output_index": index}

    def opened(self) -> list[Event]:
        item = call_item(self._id, self.call, "", "in_progress")
        return [{"type": "response.output_item.added", "output_index": self._index, "item": item}]

    def delta(self, text: str) -> Event:
        return {"type": "response.function_call_arguments.delta", **self._place, "delta": text}

    def closed(self, status: str) -> tuple[list[Event], dict[str, Any]]:
        status = call_status(self.call, status == "incomplete")
        item = call_item(self._id, self.call, self.call.arguments, status)
        events: list[Event] = [{"type": "response.output_item.done", "output_index": self._index, "item": item}]
        if status == "completed":  # of a call that was cut off the arguments are not done
            done = {"type": "response.function_call_arguments.done", **self._place, "arguments": self.call.arguments}
            events.insert(0, done)
        return events, item


OpenItem = OpenReasoning | OpenMessage | OpenCall
