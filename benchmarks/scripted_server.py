"""What the scripted servers of the benchmarks share: OpenAI-compatible endpoints on loopback without a model."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol

import msgspec
from aiohttp import web

GOLDEN = "golden"  # the model that servers of golden calls say they are

Messages = Sequence[Mapping[str, Any]]


class Call(Protocol):
    """A call of a tool, whatever else it carries."""

    @property
    def name(self) -> str: ...

    @property
    def arguments(self) -> Mapping[str, Any]: ...


Move = str | Sequence[Call]  # words, or calls


def application(chat: Callable[[web.Request], Awaitable[web.StreamResponse]], model: str) -> web.Application:
    """A server of one model, whose chat completions are ``chat``'s."""

    async def models(request: web.Request) -> web.Response:
        return web.json_response({"object": "list", "data": [{"id": model, "object": "model"}]})

    async def health(request: web.Request) -> web.Response:
        return web.json_response({"status": "ok"})

    app = web.Application(client_max_size=1 << 28)  # long contexts
    app.router.add_post("/v1/chat/completions", chat)
    app.router.add_get("/v1/models", models)
    app.router.add_get("/health", health)
    return app


def golden_application(move: Callable[[Messages], Move]) -> web.Application:
    """A server that answers a conversation with the move that follows it.

    Args:
        move: raises KeyError or StopIteration for a conversation that it does not know.
    """
    numbers = itertools.count(1)

    async def chat(request: web.Request) -> web.Response:
        raw = await request.read()
        try:
            next_move = move(msgspec.json.decode(raw)["messages"])
        except (KeyError, StopIteration):
            error = {"error": {"message": "This conversation is not in the data that the server plays.", "code": 400}}
            return web.json_response(error, status=400)
        return web.json_response(_completion(next(numbers), next_move, len(raw)))

    return application(chat, GOLDEN)


def _completion(number: int, move: Move, request_bytes: int) -> dict[str, Any]:
    """A chat completion. Tokens are counted as four bytes each: there is no tokenizer."""
    calls = [] if isinstance(move, str) else move
    tool_calls = [
        {
            "id": f"call_{number}_{i}",
            "type": "function",
            "function": {"name": call.name, "arguments": msgspec.json.encode(call.arguments).decode()},
        }
        for i, call in enumerate(calls)
    ]
    said = {"tool_calls": tool_calls} if tool_calls else {}
    message = {"role": "assistant", "content": move if isinstance(move, str) else None, **said}
    written = len(msgspec.json.encode(message)) // 4
    return {
        "id": f"chatcmpl-{number}",
        "object": "chat.completion",
        "created": 0,
        "model": GOLDEN,
        "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}],
        "usage": {
            "prompt_tokens": request_bytes // 4,
            "completion_tokens": written,
            "total_tokens": request_bytes // 4 + written,
        },
    }


async def serve(app: web.Application, port: int) -> None:
    """Serve on loopback until cancelled; prints the URL. Port 0 is any free one."""
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port, backlog=1024).start()
    host, bound = runner.addresses[0][:2]
    print(f"http://{host}:{bound}", flush=True)
    await asyncio.Event().wait()
