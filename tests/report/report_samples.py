"""A stored run to show: two turns with a tool, a crash, a lost episode, one without a call; and its parts."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec

from agentflow.channel.messages import AgentInfo
from agentflow.episode import Call, EpisodeResult, Kind, Outcome, usage_by_role
from agentflow.store import DataInfo, Manifest, Rules, Store

TOOLS = [{"type": "function", "function": {"name": "add"}}, {"type": "function", "function": {"name": "multiply"}}]
ADD = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 2, "b": 2}'}}
CHAT = [
    {"role": "system", "content": "You compute [bold]carefully[/bold]."},
    {"role": "user", "content": "What is 2+2?\x1b[31m"},
    {"role": "assistant", "content": None, "tool_calls": [ADD]},
    {"role": "tool", "tool_call_id": "c1", "content": "4"},
]


def call(n: int, api: str = "/v1/chat/completions", **fields: object) -> Call:
    values: dict[str, object] = {
        "worker": "llamacpp-0",
        "status": 200,
        "ttft_s": 0.2,
        "prompt_tokens": 100,
        "completion_tokens": 12,
        **fields,
    }
    return Call(f"c{n}", api, float(n), 1.25, **values)  # type: ignore[arg-type]


def result_of(item: str, calls: tuple[Call, ...] = (), **fields: object) -> EpisodeResult:
    values: dict[str, object] = {"outcome": Outcome.SCORED, "reward": 1.0, "worker": "llamacpp-0", **fields}
    if values["outcome"] is not Outcome.SCORED:
        values["reward"] = None
    return EpisodeResult(item, 0, 0, calls=calls, usage=usage_by_role(calls), **values)  # type: ignore[arg-type]


def trace_line(result: EpisodeResult, call: Call, request: dict, response: object, messages: dict) -> bytes:  # type: ignore[type-arg]
    line = {
        "episode": result.id,
        "attempt": 0,
        "call": msgspec.to_builtins(call),
        "api": call.api,
        "request": request,
        "response": response,
        "messages": messages,
    }
    return json.dumps(line).encode() + b"\n"


async def write_run(run: Path) -> None:
    manifest = Manifest(
        run_id="r",
        created_at=1.0,
        versions={},
        config={},
        agent=AgentInfo("MathAgent", True),
        rules=Rules(model="/models/SmolLM2-135M.gguf"),
        data=DataInfo("math.jsonl", n_items=5),
    )
    names = {f"h{n}": m for n, m in enumerate(CHAT)}
    async with Store.create(run, manifest) as store:
        store.add_schema("t", json.dumps(TOOLS).encode())
        chat = result_of("math-001", (call(0), call(1, cached_tokens=90, truncated=True)), metrics={"steps": 2.0})
        asked = {"model": "m", "messages": ["h0", "h1"], "tools": "t", "temperature": 0.0}
        again = {**asked, "messages": ["#0", "h2", "h3"]}
        final = {"role": "assistant", "content": "It is 4."}
        first = trace_line(chat, chat.calls[0], asked, {"choices": [{"message": CHAT[2]}]}, names)
        second = trace_line(chat, chat.calls[1], again, {"choices": [{"message": final}]}, {})
        await store.append(chat, [first, second])
        crashed = result_of(
            "math-002",
            (call(0, status=400, error="The prompt is too long."),),
            outcome=Outcome.FAILED,
            kind=Kind.EXCEPTION,
            error="ValueError: no number in '[/red]'",
            traceback="Traceback (most recent call last):\n  boom",
        )
        await store.append(
            crashed,
            [trace_line(crashed, crashed.calls[0], asked, {"error": {"message": "The prompt is too long."}}, names)],
        )
        await store.append(result_of("math-003", outcome=Outcome.LOST, kind=Kind.UNREACHABLE, error="No worker."))
        await store.append(result_of("math-004", warnings=("Scored without a single call.",)))
