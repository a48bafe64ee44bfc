"""An endpoint that costs next to nothing: what is measured on it is agentflow, this machine, and nothing else.

::

    python -m benchmarks.multi_turn.scripted

prints its URL and serves until Ctrl-C. A word is a token, a message costs four more, replies have the length asked for
(:data:`REPLY_TOKENS` if none), and a beginning of tools and messages that was seen before counts as cached. Without
delays a reply is written at once.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import msgspec
from aiohttp import web

from benchmarks.scripted_server import application, options, play

MODEL = "scripted"
MESSAGE_TOKENS = 4
WORD = "word"
REPLY_TOKENS = 16  # where a request asks for no length


@dataclass(frozen=True)
class Pace:
    """Seconds before the first piece of a reply, and between two of them."""

    first_s: float = 0.0
    between_s: float = 0.0


class PrefixCache:
    """Which conversations were read or written, whole or as the beginning of another. Never forgets. Pure."""

    def __init__(self) -> None:
        self._known: set[int] = set()

    def cached_tokens(self, messages: Sequence[Mapping[str, Any]], tools: bytes) -> int:
        """Tokens of the longest known beginning; tools come before the messages."""
        cached = total = 0
        for prefix, tokens in self._prefixes(messages, tools):
            total += tokens
            if prefix not in self._known:
                break
            cached = total
        return cached

    def add(self, messages: Sequence[Mapping[str, Any]], tools: bytes) -> None:
        """Take a conversation in."""
        self._known.update(prefix for prefix, _ in self._prefixes(messages, tools))

    def _prefixes(self, messages: Sequence[Mapping[str, Any]], tools: bytes) -> Iterator[tuple[int, int]]:
        prefix = hash(tools)
        yield prefix, tool_tokens(tools)
        for message in messages:
            prefix = hash((prefix, msgspec.json.encode(message)))
            yield prefix, message_tokens(message)


def message_tokens(message: Mapping[str, Any]) -> int:
    """What a message costs: its words, and what the template adds."""
    content = message.get("content") or ""
    texts = [content] if isinstance(content, str) else [part.get("text") or "" for part in content]
    return MESSAGE_TOKENS + sum(len(text.split()) for text in texts)


def tool_tokens(tools: bytes) -> int:
    """What schemas cost: a token for every four bytes."""
    return len(tools) // 4


def usage(prompt: int, completion: int, cached: int) -> dict[str, Any]:
    """The usage object."""
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": cached},
    }


def chunks(id: str, tokens: int, used: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The chunks of a streamed reply: role, a word in each, the finish reason, the usage."""
    head = {"id": id, "object": "chat.completion.chunk", "created": 0, "model": MODEL}

    def chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
        return {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

    yield chunk({"role": "assistant", "content": ""})
    for number in range(tokens):
        yield chunk({"content": f" {WORD}" if number else WORD})
    yield chunk({}, "length")
    yield {**head, "choices": [], "usage": used}


def paced(pace: Pace) -> web.Application:
    """A server whose replies come at this pace."""
    numbers = itertools.count(1)
    cache = PrefixCache()

    async def chat(request: web.Request) -> web.StreamResponse:
        body = msgspec.json.decode(await request.read())
        messages, id = body["messages"], f"chatcmpl-{next(numbers)}"
        tokens = body.get("max_tokens") or body.get("max_completion_tokens") or REPLY_TOKENS
        tools = msgspec.json.encode(body["tools"]) if body.get("tools") else b""
        prompt = tool_tokens(tools) + sum(map(message_tokens, messages))
        used = usage(prompt, tokens, cache.cached_tokens(messages, tools))
        reply = {"role": "assistant", "content": " ".join([WORD] * tokens)}
        cache.add([*messages, reply], tools)
        if body.get("stream"):
            return await stream(request, chunks(id, tokens, used), pace)
        choice = {"index": 0, "message": reply, "finish_reason": "length"}
        head = {"id": id, "object": "chat.completion", "created": 0, "model": MODEL}
        return web.json_response({**head, "choices": [choice], "usage": used})

    return application(chat, MODEL)


async def stream(request: web.Request, events: Iterator[dict[str, Any]], pace: Pace) -> web.StreamResponse:
    """Write events as they come, or all at once where nothing is to be waited for."""
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    with suppress(ConnectionError):  # the client left, as it does at Ctrl-C
        await _write(response, events, pace)
    return response


async def _write(response: web.StreamResponse, events: Iterator[dict[str, Any]], pace: Pace) -> None:
    encoded = (b"data: " + msgspec.json.encode(event) + b"\n\n" for event in events)
    if pace == Pace():
        await response.write(b"".join(encoded) + b"data: [DONE]\n\n")
        return
    await asyncio.sleep(pace.first_s)
    for event in encoded:
        await response.write(event)
        await asyncio.sleep(pace.between_s)
    await response.write(b"data: [DONE]\n\n")


def main() -> None:
    """Serve until Ctrl-C."""
    parser = options("An endpoint that costs next to nothing.")
    parser.add_argument("--first", type=float, default=0.0, metavar="SECONDS", help="before a reply begins")
    parser.add_argument("--between", type=float, default=0.0, metavar="SECONDS", help="between two tokens")
    given = parser.parse_args()
    play(lambda: paced(Pace(given.first, given.between)), given.port)


if __name__ == "__main__":
    main()
