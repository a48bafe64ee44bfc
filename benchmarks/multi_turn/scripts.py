"""What is asked next in a conversation, whatever the workload: a script hands out requests and is told the replies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Protocol

from agentflow.workflows.chat import Message
from benchmarks.multi_turn.conversations import Conversation
from benchmarks.multi_turn.words import text


@dataclass(frozen=True)
class Ask:
    """One request: the conversation so far, the tools, and how many tokens the reply is to have."""

    messages: Sequence[Message]
    output_tokens: int
    tools: Sequence[Message] = ()


class Script(Protocol):
    """A conversation.

    Attributes:
        tools_s: seconds spent in tools so far.
    """

    tools_s: float

    def next(self) -> Ask | None:
        """The next request; None at the end."""

    async def answered(self, text: str) -> None:
        """What the model said to it."""


class Synthetic:
    """Messages of given lengths, in words; the model's replies are part of what follows. Calls no tools."""

    tools_s = 0.0

    def __init__(self, conversation: Conversation, tokens_per_word: float) -> None:
        self._turns: Iterator[tuple[str, int]] = iter(
            [
                (message, turn.output_tokens)
                for message, turn in zip(said(conversation, tokens_per_word), conversation.turns, strict=True)
            ]
        )
        self._messages: list[Message] = []

    def next(self) -> Ask | None:
        """The conversation with the next message of the user."""
        turn = next(self._turns, None)
        if turn is None:
            return None
        message, output_tokens = turn
        self._messages.append({"role": "user", "content": message})
        return Ask(self._messages, output_tokens)

    async def answered(self, text: str) -> None:
        """Takes the reply into the conversation."""
        self._messages.append({"role": "assistant", "content": text})


def said(conversation: Conversation, tokens_per_word: float) -> list[str]:
    """What the user says, turn by turn: the same for the same row and cost of a word. Pure."""
    random = Random(f"{conversation.seed}/{conversation.id}")
    messages = [text(random, turn.input_tokens, tokens_per_word) for turn in conversation.turns]
    if conversation.shared_tokens:
        shared = text(Random(f"{conversation.seed}"), conversation.shared_tokens, tokens_per_word)
        messages[0] = f"{shared} {messages[0]}"
    return messages
