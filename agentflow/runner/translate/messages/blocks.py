"""The turns and content blocks of a Messages request as chat messages."""

from __future__ import annotations

import itertools
from typing import Any

import msgspec

from agentflow.runner.translate import TranslationError
from agentflow.runner.translate.conversation import Conversation, Part, content, image_part, text_part
from agentflow.runner.translate.fields import need, objects

Placed = tuple[str, dict[str, Any]]  # where it stands in the request, and what it is


def add_turns(conversation: Conversation, turns: list[Placed]) -> None:
    """Add turns (place, turn) to a conversation; neighbours of the same role are one turn, as Anthropic has it.

    Raises:
        TranslationError: a block cannot be said in a chat message.
    """
    for role, group in itertools.groupby(turns, key=lambda placed: need(placed[1], "role", str, placed[0])):
        blocks = [block for where, turn in group for block in _blocks(turn.get("content", ""), where)]
        if role == "user":
            _add_user(conversation, blocks)
        elif role == "assistant":
            _add_assistant(conversation, blocks)
        elif role == "system":
            conversation.system(_joined(blocks))
        else:
            raise TranslationError(f"The role {role!r} is unknown: use user or assistant.")


def text_of(said: object, where: str) -> str:
    """A text given as a string or as text blocks."""
    return _joined(_blocks(said, where))


def _joined(blocks: list[Placed]) -> str:
    texts = []
    for place, block in blocks:
        part = _part(block, place)
        if part["type"] != "text":
            raise TranslationError(f"{place}: only text can stand here, not a block of type {block['type']!r}.")
        texts.append(part["text"])
    return "\n\n".join(texts)


def _blocks(said: object, where: str) -> list[Placed]:
    if isinstance(said, str):
        return [(where, {"type": "text", "text": said})]
    return objects(said, f"{where}.content")


def _add_user(conversation: Conversation, blocks: list[Placed]) -> None:
    # A chat endpoint wants the outputs right after the calls, so they go before whatever else the turn says.
    results = [(where, block) for where, block in blocks if block.get("type") == "tool_result"]
    for where, block in results:
        conversation.output(need(block, "tool_use_id", str, where), _result(block, where))
    parts = [_part(block, where) for where, block in blocks if block.get("type") != "tool_result"]
    if parts or not results:
        conversation.user(content(parts))


def _result(block: dict[str, Any], where: str) -> str | list[Part]:
    parts = [_part(part, place) for place, part in _blocks(block.get("content", ""), where)]
    if block.get("is_error"):
        if not parts or parts[0]["type"] != "text":
            parts.insert(0, text_part("Error"))
        elif not parts[0]["text"].lower().startswith("error"):
            parts[0] = text_part(f"Error: {parts[0]['text']}")
    return content(parts)


def _add_assistant(conversation: Conversation, blocks: list[Placed]) -> None:
    if not blocks:
        conversation.text("")
    for where, block in blocks:
        kind = need(block, "type", str, where)
        if kind == "text":
            conversation.text(need(block, "text", str, where))
        elif kind == "thinking":
            conversation.thought(need(block, "thinking", str, where))
        elif kind == "tool_use":
            arguments = msgspec.json.encode(need(block, "input", dict, where)).decode()
            conversation.call(need(block, "id", str, where), need(block, "name", str, where), arguments, where)
        elif kind != "redacted_thinking":
            raise TranslationError(
                f"{where}: an assistant's block of type {kind!r} cannot be said in chat completions, which is all that "
                f"this worker speaks: use text, thinking and tool_use."
            )


def _part(block: dict[str, Any], where: str) -> Part:
    kind = need(block, "type", str, where)
    if kind == "text":
        return text_part(need(block, "text", str, where))
    if kind in ("image", "document"):
        source = need(block, "source", dict, where)
        match kind, source.get("type"):
            case "image", "base64":
                media, data = need(source, "media_type", str, where), need(source, "data", str, where)
                return image_part(f"data:{media};base64,{data}")
            case "image", "url":
                return image_part(need(source, "url", str, where))
            case "document", "text":
                title = f"{block['title']}\n\n" if block.get("title") else ""
                return text_part(title + need(source, "data", str, where))
        kind = f"{kind} with a source of type {source.get('type')!r}"
    raise TranslationError(
        f"{where}: a block of type {kind!r} cannot be said in chat completions: send it as text or as an image."
    )
