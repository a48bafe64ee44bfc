"""The items of a Responses ``input`` as chat messages."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from agentflow.runner.translate import TranslationError
from agentflow.runner.translate.conversation import Conversation, Part, content, image_part, text_part
from agentflow.runner.translate.fields import expect, need, objects

# Parts that chat completions know by the same name; agents that talk to vLLM or SGLang send them.
_CHAT_PARTS = frozenset({"image_url", "input_audio", "audio_url", "video_url"})


def add_input(conversation: Conversation, items: Iterable[tuple[str, dict[str, Any]]]) -> None:
    """Add input items (place, item) to a conversation.

    Raises:
        TranslationError: an item cannot be said in a chat message.
    """
    for where, item in items:
        kind = item.get("type", "message")
        if kind == "message":
            _add_message(conversation, item, where)
        elif kind == "function_call":
            name, arguments = need(item, "name", str, where), need(item, "arguments", str, where)
            conversation.call(need(item, "call_id", str, where), name, arguments, where)
        elif kind == "function_call_output":
            output = item.get("output", "")
            parts = output if isinstance(output, str) else content(_parts(output, f"{where}.output"))
            conversation.output(need(item, "call_id", str, where), parts)
        elif kind == "reasoning":
            _add_reasoning(conversation, item, where)
        elif kind == "item_reference":
            raise TranslationError(
                f"{where} is a reference to an item that OpenAI keeps; here nothing but whole responses is kept: "
                f"send the item itself, or set previous_response_id."
            )
        else:
            raise TranslationError(
                f"{where}: an item of type {kind!r} cannot be said in chat completions, which is all that this worker "
                f"speaks: use messages and function calls."
            )


def _add_message(conversation: Conversation, item: dict[str, Any], where: str) -> None:
    role, said = need(item, "role", str, where), item.get("content", "")
    parts = [text_part(said)] if isinstance(said, str) else _parts(said, f"{where}.content")
    if role == "user":
        conversation.user(content(parts))
    elif role in ("system", "developer"):
        # Chat templates know no developer; it is the newer name of the same role.
        conversation.system("\n\n".join(_texts(parts, where)))
    elif role == "assistant":
        if conversation.said_something:
            conversation.end_turn()
        for text in _texts(parts, where) or [""]:
            conversation.text(text)
    else:
        raise TranslationError(f"{where}: the role {role!r} is unknown: use user, assistant, system or developer.")


def _add_reasoning(conversation: Conversation, item: dict[str, Any], where: str) -> None:
    if conversation.said_something:
        conversation.end_turn()
    said = objects(item.get("content", []), f"{where}.content") or objects(item.get("summary", []), f"{where}.summary")
    for place, part in said:
        conversation.thought(need(part, "text", str, place))


def _parts(value: object, where: str) -> list[Part]:
    return [_part(part, place) for place, part in objects(value, where)]


def _part(part: dict[str, Any], where: str) -> Part:
    kind = need(part, "type", str, where)
    if kind in ("input_text", "output_text", "text"):
        return text_part(need(part, "text", str, where))
    if kind == "refusal":  # engines know no refusals; it is what the assistant said
        return text_part(need(part, "refusal", str, where))
    if kind == "input_image":
        if "image_url" not in part:
            raise TranslationError(f"{where}: an image kept by OpenAI cannot be fetched from here: give its image_url.")
        return image_part(expect(part["image_url"], str, f"{where}.image_url"), part.get("detail"))
    if kind in _CHAT_PARTS:
        return part
    raise TranslationError(f"{where}: a part of type {kind!r} cannot be said in chat completions: send text or images.")


def _texts(parts: list[Part], where: str) -> list[str]:
    """The texts of parts that must all be text."""
    for part in parts:
        if part["type"] != "text":
            raise TranslationError(f"{where}: only a user's message can hold a part of type {part['type']!r}.")
    return [part["text"] for part in parts]
