"""What the agent is handed of llama.cpp's stream. Pure.

:class:`Stream` maps chunks to chunks: text passes at once, tool calls are handed on whole or not at all, usage is added
up over the choices. :class:`Assembly` makes one plain reply of the chunks.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from agentflow.workers.llamacpp.request import Request

Chunk = dict[str, Any]  # a chat.completion.chunk or text_completion object, as JSON


@dataclass
class _Held:
    """What is held back of one choice until it ends."""

    text: list[str] = field(default_factory=list)  # of a forced call
    calls: dict[int, dict[str, str]] = field(default_factory=dict)  # name and arguments, by index


class Stream:
    """Chunks of one reply, on their way to the agent."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._held: dict[int, _Held] = {}
        self._usages: list[dict[str, Any]] = []
        self._last: Chunk = {}

    def feed(self, chunk: Chunk) -> list[Chunk]:
        """Chunks to hand on for one that came."""
        if chunk.get("usage"):
            self._usages.append(chunk["usage"])
            self._last = chunk
        choices = [c for choice in chunk.get("choices", ()) for c in self._choices(choice)]
        return [{**_without_usage(chunk), "choices": [c]} for c in choices]

    def usage(self) -> Chunk | None:
        """The last chunk, with the usage of all choices; None when llama.cpp sent none."""
        if not self._usages:
            return None
        return {**self._last, "choices": [], "usage": added_usage(self._usages, self._request.prompts)}

    def _choices(self, choice: dict[str, Any]) -> Iterator[dict[str, Any]]:
        if not self._request.calls or "delta" not in choice:
            yield choice
            return
        held = self._held.setdefault(choice["index"], _Held())
        delta = dict(choice["delta"])
        if self._request.forced and delta.get("content"):
            held.text.append(delta.pop("content"))
        for part in delta.pop("tool_calls", None) or ():
            _join(held.calls, part)
        reason = choice.get("finish_reason")
        if delta or choice.get("logprobs"):
            yield {**choice, "delta": delta, "finish_reason": None}
        if reason is None:
            return
        calls, broken = _forced_call("".join(held.text)) if self._request.forced else _whole_calls(held.calls)
        for i, call in enumerate(calls):
            yield {"index": choice["index"], "delta": {"tool_calls": [self._call(choice["index"], i, call)]},
                   "finish_reason": None}  # fmt: skip
        if broken:
            reason = "length"  # nothing else cuts a call in two
        elif self._request.forced:
            reason = "tool_calls"
        yield {"index": choice["index"], "delta": {}, "finish_reason": reason}

    def _call(self, choice: int, index: int, call: dict[str, str]) -> dict[str, Any]:
        # The id goes back to the model with the next request: a random one would make every conversation differ.
        digest = hashlib.sha256(f"{self._request.key}/{choice}/{index}".encode()).hexdigest()
        return {"index": index, "id": f"call_{digest[:24]}", "type": "function", "function": call}


def _without_usage(chunk: Chunk) -> Chunk:
    return {k: v for k, v in chunk.items() if k not in ("usage", "timings")}


def _join(calls: dict[int, dict[str, str]], part: dict[str, Any]) -> None:
    call = calls.setdefault(part["index"], {"name": "", "arguments": ""})
    for key in call:
        call[key] += part.get("function", {}).get(key) or ""


def _whole_calls(calls: dict[int, dict[str, str]]) -> tuple[list[dict[str, str]], bool]:
    """Those whose arguments are complete, and whether one was not."""
    whole = [c for _, c in sorted(calls.items()) if _is_object(c["arguments"])]
    return whole, len(whole) < len(calls)


def _is_object(text: str) -> bool:
    try:
        msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.DecodeError:
        return False
    return True


def _forced_call(text: str) -> tuple[list[dict[str, str]], bool]:
    """The call that the text is, and whether it is cut off instead."""
    try:
        call = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
    except msgspec.DecodeError:
        return [], True
    name = msgspec.json.decode(call["name"], type=str)
    arguments = msgspec.json.encode(msgspec.json.decode(call["arguments"])).decode()  # compact, keys in order
    return [{"name": name, "arguments": arguments}], False


def added_usage(usages: list[dict[str, Any]], prompts: int) -> dict[str, Any]:
    """The usage of a whole reply. llama.cpp reports one a choice, each with its whole prompt, which counts once."""
    choices = max(1, len(usages) // prompts)
    prompt = sum(u["prompt_tokens"] for u in usages) // choices
    completion = sum(u["completion_tokens"] for u in usages)
    cached = sum((u.get("prompt_tokens_details") or {}).get("cached_tokens", 0) for u in usages) // choices
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": cached},
    }


class Assembly:
    """One plain reply, put together from the chunks of a stream."""

    def __init__(self) -> None:
        self._envelope: Chunk = {}
        self._choices: dict[int, dict[str, Any]] = {}

    def add(self, chunk: Chunk) -> None:
        """Take the next chunk; the usage chunk is one of them."""
        self._envelope |= {k: v for k, v in chunk.items() if k != "choices"}
        for choice in chunk["choices"]:
            into = self._choices.setdefault(choice["index"], {"index": choice["index"], "finish_reason": None})
            if "delta" in choice:
                _merge(into.setdefault("message", {"role": "assistant", "content": None}), choice["delta"])
            else:
                into["text"] = into.get("text", "") + choice.get("text", "")
            if choice.get("logprobs"):
                _merge(into.setdefault("logprobs", {}), choice["logprobs"])
            into["finish_reason"] = choice.get("finish_reason") or into["finish_reason"]

    def reply(self) -> Chunk:
        """The reply as JSON."""
        kind = self._envelope.get("object")
        named = "chat.completion" if kind == "chat.completion.chunk" else kind
        return {**self._envelope, "object": named, "choices": [c for _, c in sorted(self._choices.items())]}


def _merge(into: dict[str, Any], delta: dict[str, Any]) -> None:
    """Strings and lists grow; tool calls come whole (see :class:`Stream`), so their index is dropped."""
    for key, value in delta.items():
        if key == "tool_calls":
            into.setdefault(key, []).extend({k: v for k, v in call.items() if k != "index"} for call in value)
        elif isinstance(value, list):
            into[key] = [*into.get(key, ()), *value]
        elif isinstance(value, str) and key != "role":
            into[key] = (into.get(key) or "") + value
        elif value is not None:
            into[key] = value
