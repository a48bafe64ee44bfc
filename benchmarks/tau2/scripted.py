"""An OpenAI-compatible server that plays both sides of a conversation: the golden actions, without a model.

::

    python -m benchmarks.tau2.scripted airline

prints its URL and serves until it is ended. It tells the user from the agent by their system messages, and a task by
the user's scenario. The user's first words name the task, so that the agent knows it as well. The agent makes its
golden calls, all of them in one message where their number is even, and asks the user to make the user's.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any

import msgspec
from aiohttp import web

from benchmarks.tau2.data import DOMAINS, rows
from benchmarks.tau2.golden import DROPS, GoldenAction, golden_actions, golden_words
from benchmarks.tau2.package import stop_tokens, task_of
from benchmarks.tau2.task import Task
from benchmarks.tau2.task import task_of as read_task

MODEL = "golden"
ENDING = "That is done"  # how the agent's last words begin
DID_IT = "I have done that."  # what the user says after a call

Move = str | list[GoldenAction]  # words, or calls

Messages = Sequence[Mapping[str, Any]]


class GoldenPlayer:
    """What comes next in a conversation, for either side. Pure.

    Args:
        tasks: by the ids of their rows.
        drop: leaves out the ``first`` or the ``last`` golden call that changes something, or ``all`` calls.
    """

    def __init__(self, tasks: Mapping[str, Task], drop: str = "") -> None:
        self._actions = {id: golden_actions(task, drop) for id, task in tasks.items()}
        self._words = {id: golden_words(task, drop) for id, task in tasks.items()}
        scenarios = [(str(task_of(task.task).user_scenario), id) for id, task in tasks.items()]
        often = Counter(scenario for scenario, _ in scenarios)
        self._scenarios = {scenario: id for scenario, id in scenarios if often[scenario] == 1}

    def move(self, messages: Messages) -> Move:
        """Raises KeyError for a conversation that is none of the tasks'."""
        scenario = re.search(r"<scenario>\n(.*)\n</scenario>", messages[0]["content"], re.DOTALL)
        return self._user(scenario[1], messages[1:]) if scenario else self._agent(messages[1:])

    def _user(self, scenario: str, messages: Messages) -> Move:
        last = messages[-1]
        if last["role"] == "tool":
            return DID_IT
        asked = re.fullmatch(r"Please do step (\d+) of (.+)\.", last["content"])
        if asked:
            return [self._actions[asked[2]][int(asked[1])]]
        if last["content"].startswith(ENDING):
            return stop_tokens()[0]
        named = re.search(r"This is about (.+)\.", scenario)
        return named[0] if named else f"This is about {self._scenarios[scenario]}."

    def _agent(self, messages: Messages) -> Move:
        named = [re.fullmatch(r"This is about (.+)\.", message.get("content") or "") for message in messages]
        start, found = next((i, match) for i, match in enumerate(named) if match)
        id, since = found[1], messages[start:]
        done = sum(message["role"] == "tool" or message.get("content") == DID_IT for message in since)
        left = self._actions[id][done:]
        if not left:
            return self._words[id]
        mine = list(takewhile(lambda action: action.side == "assistant", left))
        if not mine:
            return f"Please do step {done} of {id}."
        return mine if len(self._actions[id]) % 2 == 0 else mine[:1]


def named(row: Mapping[str, Any]) -> dict[str, Any]:
    """The row with a scenario that names its task: 104 of telecom's share theirs with others."""
    task, scenario = row["task"], row["task"]["user_scenario"]
    persona = f"{scenario.get('persona') or ''}\nThis is about {row['id']}."
    return {**row, "task": {**task, "user_scenario": {**scenario, "persona": persona}}}


def completion(number: int, move: Move, request_bytes: int) -> dict[str, Any]:
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
        try:
            move = player.move(msgspec.json.decode(raw)["messages"])
        except (KeyError, StopIteration):
            error = {"error": {"message": "This conversation is not in the data that the server plays.", "code": 400}}
            return web.json_response(error, status=400)
        return web.json_response(completion(next(numbers), move, len(raw)))

    async def models(request: web.Request) -> web.Response:
        return web.json_response({"object": "list", "data": [{"id": MODEL, "object": "model"}]})

    async def health(request: web.Request) -> web.Response:
        return web.json_response({"status": "ok"})

    app = web.Application(client_max_size=1 << 28)
    app.router.add_post("/v1/chat/completions", chat)
    app.router.add_get("/v1/models", models)
    app.router.add_get("/health", health)
    return app


async def serve(domains: Sequence[str], port: int, drop: str) -> None:
    """Serve on loopback until cancelled."""
    tasks = {row["id"]: read_task(row) for domain in domains for row in rows(domain)}
    runner = web.AppRunner(application(GoldenPlayer(tasks, drop)), access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port, backlog=1024).start()
    host, bound = runner.addresses[0][:2]
    print(f"http://{host}:{bound}", flush=True)
    await asyncio.Event().wait()


def main() -> None:
    """Serve until killed."""
    arguments = argparse.ArgumentParser(description="Plays the golden actions of tau2, both sides; prints its URL.")
    arguments.add_argument("domains", nargs="*", default=DOMAINS)
    arguments.add_argument("--port", type=int, default=0)
    arguments.add_argument("--drop", choices=DROPS, default="", help="golden calls left out")
    options = arguments.parse_args()
    asyncio.run(serve(options.domains, options.port, options.drop))


if __name__ == "__main__":
    main()
