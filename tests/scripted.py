"""A scripted OpenAI-compatible server: in process with a handler of yours, or a process of its own.

In process::

    async with scripted(lambda ask: chat("hello")) as server:
        ...                      # server.url, server.asks, server.client_left

The handler gets an :class:`Ask` and returns a dict (a JSON reply), an iterable of dicts (a stream of SSE events,
closed with ``[DONE]`` for chat and completions) or an ``aiohttp.web.StreamResponse``; it may be a coroutine function.

As a process, without a handler: ``python -m tests.scripted`` prints its URL and answers like :func:`tool_loop`.
"""

from __future__ import annotations

import argparse
import asyncio
import inspect
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web


@dataclass(frozen=True)
class Ask:
    """One request as it arrived; header names are in lower case."""

    method: str
    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    raw: bytes
    request: web.Request

    @property
    def stream(self) -> bool:
        return bool(self.body.get("stream"))


Answer = dict[str, Any] | Iterable[dict[str, Any]] | web.StreamResponse
Handler = Callable[[Ask], Answer | Awaitable[Answer]]


@dataclass
class Server:
    """``asks`` are all requests so far; ``client_left`` is set once a client left before it had its answer."""

    url: str
    asks: list[Ask] = field(default_factory=list)
    client_left: asyncio.Event = field(default_factory=asyncio.Event)


# --- answers ------------------------------------------------------------------------------------------------------


def usage(prompt: int = 10, completion: int = 5, cached: int = 0) -> dict[str, Any]:
    """The usage object of chat and completions."""
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": cached},
    }


def tool_call(name: str, arguments: dict[str, Any], id: str = "call_1") -> dict[str, Any]:
    """One entry of a message's ``tool_calls``."""
    return {"id": id, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}


def chat(
    content: str | None = "hello",
    *,
    tool_calls: Sequence[dict[str, Any]] = (),
    finish_reason: str | None = None,
    id: str = "chatcmpl-1",
    **extra: Any,
) -> dict[str, Any]:
    """A chat completion."""
    message: dict[str, Any] = {"role": "assistant", "content": content}
    if tool_calls:
        message["tool_calls"] = list(tool_calls)
    finish = finish_reason or ("tool_calls" if tool_calls else "stop")
    choice = {"index": 0, "message": message, "finish_reason": finish, "logprobs": None}
    reply = {"id": id, "object": "chat.completion", "created": 1, "model": "scripted", "choices": [choice]}
    return {**reply, "usage": usage(), **extra}


def chat_chunks(
    content: str = "hello",
    *,
    tool_calls: Sequence[dict[str, Any]] = (),
    finish_reason: str = "stop",
    include_usage: bool = False,
) -> Iterator[dict[str, Any]]:
    """The chunks of a streamed chat completion: one a word, tool arguments in two halves."""
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "scripted"}

    def chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
        return {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

    yield chunk({"role": "assistant", "content": ""})
    for i, word in enumerate(content.split()):
        yield chunk({"content": word if i == 0 else f" {word}"})
    for i, call in enumerate(tool_calls):
        arguments = call["function"]["arguments"]
        half = len(arguments) // 2
        first = {**call, "index": i, "function": {"name": call["function"]["name"], "arguments": arguments[:half]}}
        yield chunk({"tool_calls": [first]})
        yield chunk({"tool_calls": [{"index": i, "function": {"arguments": arguments[half:]}}]})
    yield chunk({}, finish_reason)
    if include_usage:
        yield {**head, "choices": [], "usage": usage()}


def completion(text: str = "hello", *, finish_reason: str = "stop") -> dict[str, Any]:
    """A text completion."""
    choice = {"index": 0, "text": text, "finish_reason": finish_reason, "logprobs": None}
    head = {"id": "cmpl-1", "object": "text_completion", "created": 1, "model": "scripted"}
    return {**head, "choices": [choice], "usage": usage()}


def error(status: int, message: str = "scripted error", **headers: str) -> web.Response:
    """An OpenAI error; underscores in header names become dashes."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    body = {"error": {"message": message, "type": "scripted", "code": status}}
    return web.json_response(body, status=status, headers=named)


def tool_loop(turns: int = 2) -> Handler:
    """Calls the first tool offered until the conversation holds ``turns`` tool results, then answers in words.

    Serves chat (streamed too), completions, embeddings, models and health; deterministic.
    """

    def answer(ask: Ask) -> Answer:
        if ask.path.endswith("/models"):
            return {"object": "list", "data": [{"id": "scripted", "object": "model"}]}
        if ask.path.endswith("/embeddings"):
            vector = {"object": "embedding", "index": 0, "embedding": [0.0, 1.0]}
            return {"object": "list", "data": [vector], "model": "scripted", "usage": usage(completion=0)}
        if not ask.path.endswith("completions"):
            return {"status": "ok"} if ask.path == "/health" else error(404, f"no {ask.path} here")
        if not ask.path.endswith("/chat/completions"):
            return completion()
        done = sum(m.get("role") == "tool" for m in ask.body.get("messages", ()))
        calls = []
        if ask.body.get("tools") and done < turns:
            name = ask.body["tools"][0]["function"]["name"]
            calls = [tool_call(name, {"a": done, "b": 1}, id=f"call_{done}")]
        if ask.stream:
            asked = (ask.body.get("stream_options") or {}).get("include_usage", False)
            finish = "tool_calls" if calls else "stop"
            return chat_chunks("", tool_calls=calls, finish_reason=finish, include_usage=asked)
        return chat(None if calls else "hello", tool_calls=calls)

    return answer


# --- the server ---------------------------------------------------------------------------------------------------


async def send_events(ask: Ask, events: Iterable[dict[str, Any]], *, done: bool | None = None) -> web.StreamResponse:
    """Write ``events`` as SSE, named where they carry a ``type``. ``done=False`` leaves the stream without an end."""
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(ask.request)
    for event in events:
        name = f"event: {event['type']}\n" if "type" in event else ""
        await response.write(f"{name}data: {json.dumps(event)}\n\n".encode())
    if done if done is not None else ask.path.endswith("completions"):
        await response.write(b"data: [DONE]\n\n")
    return response


def break_off(ask: Ask) -> None:
    """Cut the connection as a killed server does."""
    assert ask.request.transport is not None
    ask.request.transport.abort()


@asynccontextmanager
async def scripted(handler: Handler | None = None, port: int = 0) -> AsyncIterator[Server]:
    """Serve on loopback until the block ends; clients still waiting are cut off then."""
    handle = handler or tool_loop()
    server = Server("")

    async def serve(request: web.Request) -> web.StreamResponse:
        raw = await request.read()
        try:
            body = json.loads(raw) if raw else {}
        except ValueError:
            body = {}
        ask = Ask(request.method, request.path, {k.lower(): v for k, v in request.headers.items()}, body, raw, request)
        server.asks.append(ask)
        try:
            answer = handle(ask)
            if inspect.isawaitable(answer):
                answer = await answer
            if isinstance(answer, web.StreamResponse):
                return answer
            if isinstance(answer, dict):
                return web.json_response(answer)
            return await send_events(ask, answer)
        except (asyncio.CancelledError, ConnectionError):
            server.client_left.set()
            raise

    app = web.Application(client_max_size=1 << 30)
    app.router.add_route("*", "/{path:.*}", serve)
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", port, backlog=1024)
        await site.start()
        host, bound = runner.addresses[0][:2]
        server.url = f"http://{host}:{bound}"
        yield server
    finally:
        await runner.cleanup()


async def main() -> None:
    """Serve until killed."""
    arguments = argparse.ArgumentParser(description="A scripted OpenAI-compatible server; prints its URL.")
    arguments.add_argument("--port", type=int, default=0)
    arguments.add_argument("--turns", type=int, default=2, help="tool calls before the final answer")
    options = arguments.parse_args()
    async with scripted(tool_loop(options.turns), options.port) as server:
        print(server.url, flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
