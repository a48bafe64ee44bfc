"""One call of ``/chat/completions`` through the ``http_client`` that an agent is given.

No SDK, so that the ready-made agents need nothing beyond the core, and fields that no SDK has a name for (``top_k``,
``chat_template_kwargs``) are plain keys.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Message = dict[str, Any]


class ChatError(Exception):
    """The model's endpoint answered with an error, or with something that is no chat completion."""


@dataclass(frozen=True)
class Reply:
    """What the model said.

    Args:
        id: names the call in ``{id: reward}``.
        message: to be sent back as it is.
        is_cut_off: it ended at the token limit.
    """

    id: str
    message: Message
    is_cut_off: bool = False

    @property
    def text(self) -> str:
        """The text of the message, without the reasoning that the engine has set apart; "" where there is none."""
        content = self.message.get("content") or ""
        if isinstance(content, str):
            return content
        return "".join(part.get("text") or "" for part in content)  # some endpoints answer in parts

    @property
    def tool_calls(self) -> Sequence[Message]:
        """The tool calls of the message, each with ``id`` and ``function``."""
        return self.message.get("tool_calls") or ()


@dataclass(frozen=True)
class Chat:
    """The chat endpoint of one episode: the three values that ``run()`` receives."""

    base_url: str
    api_key: str
    http_client: Any

    async def __call__(self, messages: Sequence[Message], **fields: Any) -> Reply:
        """Ask for the next message.

        Args:
            messages: the conversation so far.
            fields: further fields of the request.

        Raises:
            ChatError: there is no reply; the message is the endpoint's own.
        """
        answer = await self.http_client.post(
            f"{self.base_url}/chat/completions",
            json={"model": "default", "messages": list(messages), **fields},
            headers={"Authorization": f"Bearer {self.api_key}"},
        )
        if answer.status_code != 200:
            raise ChatError(f"The model's endpoint answered {answer.status_code}: {_complaint(answer)}")
        match answer.json():
            case {"id": str(call_id), "choices": [{"message": dict(message)} as choice, *_]}:
                # Fields that are null are an SDK's way to say "absent"; some engines refuse to read them back.
                said = {name: value for name, value in message.items() if value is not None}
                if not said.get("tool_calls"):
                    said.setdefault("content", "")  # without either, they refuse it too
                return Reply(call_id, said, choice.get("finish_reason") == "length")
        raise ChatError(f"The model's endpoint answered something that is no chat completion: {answer.text[:300]}")


def prompt_text(messages: Sequence[Mapping[str, Any]]) -> str:
    """The texts of a conversation, one after the other: the ``prompt`` of AReaL's reward functions."""
    return "\n".join(text for message in messages if isinstance(text := message.get("content"), str))


def _complaint(answer: Any) -> str:
    try:
        match answer.json():
            case {"error": {"message": str(message)}}:
                return message
    except ValueError:  # no JSON
        pass
    return str(answer.text[:300])
