"""What the scripted servers of the benchmarks share: OpenAI-compatible endpoints on loopback without a model."""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NoReturn, Protocol

import msgspec
from aiohttp import web

from agentflow.agents.importing import near
from agentflow.errors import UsageError

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


def options(description: str) -> argparse.ArgumentParser:
    """The command line of a scripted server, with its ``--port``."""
    parser = argparse.ArgumentParser(
        description=f"{description} Prints its URL and serves until Ctrl-C: give it a terminal of its own."
    )
    parser.add_argument("--port", type=int, default=0, help="on loopback; any free one if not given")
    return parser


def known(what: str, given: str, names: Sequence[str], more: str = "") -> str:
    """``given``, where it is one of the names.

    Args:
        what: it is the name of.
        more: said behind the list.

    Raises:
        UsageError: it is none of them; says which there are.
    """
    if given not in names:
        raise UsageError(f"There is no {what} '{given}'{near(given, names)}: there are {', '.join(names)}{more}.")
    return given


def play(made: Callable[[], web.Application], port: int) -> NoReturn:
    """Make a server and let it serve until Ctrl-C; a mistake of the user's is one sentence on stderr."""
    try:
        asyncio.run(serve(made(), port))
    except UsageError as e:
        print(f"Error: {e}", file=sys.stderr)
        sys.exit(e.exit_code)
    except KeyboardInterrupt:
        pass
    sys.exit(0)


async def serve(app: web.Application, port: int) -> None:
    """Serve on loopback until cancelled; prints the URL. Port 0 is any free one.

    Raises:
        UsageError: the port cannot be had.
    """
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", port, backlog=1024).start()
    except (OSError, OverflowError) as e:
        reason = os.strerror(e.errno) if isinstance(e, OSError) and e.errno else str(e)
        raise UsageError(
            f"Port {port} of 127.0.0.1 cannot be had ({reason}): give another --port, or none for any free one."
        ) from e
    host, bound = runner.addresses[0][:2]
    print(f"http://{host}:{bound}", flush=True)
    await asyncio.Event().wait()
