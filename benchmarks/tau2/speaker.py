"""One of the two who talk: a model with a system prompt, tools, and what it has seen of the conversation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agentflow.workflows.chat import Chat, Message
from benchmarks.replies import Said, said
from benchmarks.tau2.package import limits


class NothingSaidError(Exception):
    """A model answered with neither words nor calls, again and again."""


class Speaker:
    """The agent or the user, each of whom is the assistant of its own model.

    Args:
        name: for messages.
        model: the name that its model is asked for by.
        prompt: its system message.
        tools: what it may call.
    """

    def __init__(self, chat: Chat, name: str, model: str, prompt: str, tools: Sequence[dict[str, Any]]) -> None:
        self._chat = chat
        self._name = name
        self._fields: dict[str, Any] = {"model": model, **({"tools": list(tools)} if tools else {})}
        self._messages: list[Message] = [{"role": "system", "content": prompt}]

    def hears(self, text: str) -> None:
        """What the other one says."""
        self._messages.append({"role": "user", "content": text})

    def gets(self, call_id: str, result: str) -> None:
        """What came of a call of its own."""
        self._messages.append({"role": "tool", "tool_call_id": call_id, "content": result})

    def has_said(self, message: Message) -> None:
        """What it has said already, before it is asked for the first time."""
        self._messages.append(message)

    async def speaks(self) -> Said:
        """The next message of its own. An empty one is asked for again, as often as the authors do.

        Raises:
            NothingSaidError: it stayed empty.
            ChatError: there was no reply.
        """
        tries = limits().retries + 1
        for _ in range(tries):
            one = said(await self._chat(self._messages, **self._fields))
            if not one.is_empty:
                self._messages.append(one.message)
                return one
        raise NothingSaidError(f"The {self._name} answered {tries} times with neither words nor calls.")
