"""A chat conversation under construction: what belongs to one assistant turn becomes one chat message."""

from __future__ import annotations

from typing import Any

import msgspec

from agentflow.runner.translate import TranslationError

Part = dict[str, Any]


def text_part(text: str) -> Part:
    """A content part of a chat message."""
    return {"type": "text", "text": text}


def image_part(url: str, detail: str | None = None) -> Part:
    """An image by URL or ``data:`` URL."""
    return {"type": "image_url", "image_url": {"url": url} if detail is None else {"url": url, "detail": detail}}


def content(parts: list[Part]) -> str | list[Part]:
    """Parts as the content of a chat message: plain text where it is one text, because every template can take that.

    Several texts stay several parts: how they are joined is the engine's decision.
    """
    if not parts:
        return ""
    if len(parts) == 1 and parts[0]["type"] == "text":
        text: str = parts[0]["text"]
        return text
    return parts


class Conversation:
    """Collects chat messages in order.

    Both dialects spread an assistant turn (thoughts, text, calls) over several items or blocks. They are collected
    until something that is not the assistant's comes, and then become one message: a chat endpoint wants the outputs
    of calls right after the message that holds all of them.
    """

    def __init__(self) -> None:
        self._messages: list[dict[str, Any]] = []
        self._thoughts: list[str] = []
        self._texts: list[str] = []
        self._calls: list[dict[str, Any]] = []
        self._speaking = False

    def system(self, text: str) -> None:
        """Instructions. Those at the start become one message: many templates know only one and only there."""
        self.end_turn()
        if len(self._messages) == 1 and self._messages[0]["role"] == "system":
            self._messages[0]["content"] += "\n\n" + text
        else:
            self._messages.append({"role": "system", "content": text})

    def user(self, content: str | list[Part]) -> None:
        """What the user says."""
        self.end_turn()
        self._messages.append({"role": "user", "content": content})

    def output(self, call_id: str, content: str | list[Part]) -> None:
        """What a tool call returned."""
        self.end_turn()
        self._messages.append({"role": "tool", "tool_call_id": call_id, "content": content})

    def thought(self, text: str) -> None:
        """The assistant's reasoning; goes on as ``reasoning_content``, so that the model's own chat template decides
        what of it the model sees again, exactly as when the agent speaks chat completions itself."""
        self._speaking = True
        self._thoughts.append(text)

    def text(self, text: str) -> None:
        """The assistant's text. Pieces of one turn are put together without a separator: they were one string."""
        self._speaking = True
        self._texts.append(text)

    def call(self, call_id: str, name: str, arguments: str, where: str) -> None:
        """A tool call of the assistant.

        Raises:
            TranslationError: the arguments are no JSON. Engines render them from parsed JSON and answer 400 or 500.
        """
        try:
            msgspec.json.decode(arguments or "{}")
        except msgspec.DecodeError as e:
            raise TranslationError(
                f"{where}: the arguments of the call {call_id!r} of {name!r} are no JSON ({e}): a call that the token "
                f"limit cut off, or that the model wrote wrongly, cannot be sent back; leave it out."
            ) from e
        self._speaking = True
        function = {"name": name, "arguments": arguments or "{}"}
        self._calls.append({"id": call_id, "type": "function", "function": function})

    @property
    def said_something(self) -> bool:
        """The assistant's turn so far is text that no call follows yet."""
        return bool(self._texts) and not self._calls

    def end_turn(self) -> None:
        """What the assistant says next is another message."""
        if not self._speaking:
            return
        # Empty, not null: templates that print the content of every message would print "None".
        message: dict[str, Any] = {"role": "assistant", "content": "".join(self._texts)}
        if self._thoughts:
            message["reasoning_content"] = "\n".join(self._thoughts)
        if self._calls:
            message["tool_calls"] = self._calls
        self._messages.append(message)
        self._thoughts, self._texts, self._calls, self._speaking = [], [], [], False

    def messages(self) -> list[dict[str, Any]]:
        """All messages; the conversation is over."""
        self.end_turn()
        return self._messages
