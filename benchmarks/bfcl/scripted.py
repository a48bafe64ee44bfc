"""An OpenAI-compatible server that plays the golden calls: what a perfect model would do, without a model.

::

    python -m benchmarks.bfcl.scripted multi_turn_base

prints its URL and serves until it is ended. It knows a conversation by what the user has said so far, and makes the
golden calls of a turn in one message where the turn's number is even, one a message where it is odd.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from aiohttp import web

from benchmarks.bfcl.calls import ApiCall
from benchmarks.bfcl.data import rows
from benchmarks.bfcl.golden import golden_call
from benchmarks.bfcl.package import handover_prompt, max_steps
from benchmarks.bfcl.task import Task, task_of

MODEL = "golden"

Said = tuple[str, ...]  # by the user, so far


class GoldenPlayer:
    """Which calls come next in a conversation. Pure.

    Args:
        tasks: the conversations that it knows.
        drop: leaves out the ``first`` or the ``last`` golden call of each, or ``all`` of them.

    Raises:
        ValueError: two conversations begin alike and go on differently.
    """

    def __init__(self, tasks: Sequence[Task], drop: str = "") -> None:
        self._turns: dict[Said, list[ApiCall]] = {}
        for task in tasks:
            for said, calls in _played(task, drop):
                if self._turns.setdefault(said, calls) != calls:
                    raise ValueError(f"{task.id} begins as another conversation does, and goes on differently")

    def next_calls(self, messages: Sequence[Mapping[str, Any]]) -> list[ApiCall]:
        """The calls of the next message; none where the turn is over. Raises KeyError for an unknown conversation."""
        users = [i for i, message in enumerate(messages) if message["role"] == "user"]
        calls = self._turns[tuple(messages[i]["content"] for i in users)]
        done = sum(message["role"] == "tool" for message in messages[users[-1] :])
        one_by_one = len(users) % 2 == 0 and len(calls) < max_steps()
        return calls[done : done + 1] if one_by_one else calls[done:]


def _played(task: Task, drop: str) -> list[tuple[Said, list[ApiCall]]]:
    turns = [[golden_call(source, task.involved_classes) for source in turn] for turn in task.ground_truth]
    with_calls = [turn for turn in turns if turn]
    if drop == "first":
        del with_calls[0][0]
    elif drop == "last":
        del with_calls[-1][-1]
    elif drop == "all":
        turns = [[] for _ in turns]
    spoken = [message["content"] for turn in task.question for message in turn or [{"content": handover_prompt()}]]
    return [(tuple(spoken[: i + 1]), calls) for i, calls in enumerate(turns)]


def completion(number: int, calls: Sequence[ApiCall], request_bytes: int) -> dict[str, Any]:
    """A chat completion with these calls. Tokens are counted as four bytes each: there is no tokenizer."""
    tool_calls = [
        {
            "id": f"call_{number}_{i}",
            "type": "function",
            "function": {"name": call.name, "arguments": msgspec.json.encode(call.arguments).decode()},
        }
        for i, call in enumerate(calls)
    ]
    said = {"tool_calls": tool_calls} if tool_calls else {}
    message = {"role": "assistant", "content": None if calls else "Done.", **said}
    written = len(msgspec.json.encode(message)) // 4
    return {
        "id": f"chatcmpl-{number}",
        "object": "chat.completion",
        "created": 0,
        "model": MODEL,
        "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}],
        "usage": {
            "prompt_tokens": request_bytes // 4,
            "completion_tokens": written,
            "total_tokens": request_bytes // 4 + written,
        },
    }


def application(player: GoldenPlayer) -> web.Application:
    """The server."""
    numbers = itertools.count(1)

    async def chat(request: web.Request) -> web.Response:
        raw = await request.read()
        messages = msgspec.json.decode(raw)["messages"]
        try:
            calls = player.next_calls(messages)
        except KeyError:
            error = {"error": {"message": "This conversation is not in the data that the server plays.", "code": 400}}
            return web.json_response(error, status=400)
        return web.json_response(completion(next(numbers), calls, len(raw)))

    async def models(request: web.Request) -> web.Response:
        return web.json_response({"object": "list", "data": [{"id": MODEL, "object": "model"}]})

    async def health(request: web.Request) -> web.Response:
        return web.json_response({"status": "ok"})

    app = web.Application(client_max_size=1 << 28)  # long contexts
    app.router.add_post("/v1/chat/completions", chat)
    app.router.add_get("/v1/models", models)
    app.router.add_get("/health", health)
    return app


async def serve(category: str, port: int, drop: str) -> None:
    """Serve on loopback until cancelled."""
    runner = web.AppRunner(application(GoldenPlayer([task_of(row) for row in rows(category)], drop)), access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port, backlog=1024).start()
    host, bound = runner.addresses[0][:2]
    print(f"http://{host}:{bound}", flush=True)
    await asyncio.Event().wait()


def main() -> None:
    """Serve until killed."""
    arguments = argparse.ArgumentParser(description="Plays the golden calls of BFCL; prints its URL.")
    arguments.add_argument("category", nargs="?", default="multi_turn_base")
    arguments.add_argument("--port", type=int, default=0)
    arguments.add_argument("--drop", choices=("first", "last", "all"), default="", help="golden calls left out")
    options = arguments.parse_args()
    asyncio.run(serve(options.category, options.port, options.drop))


if __name__ == "__main__":
    main()
