"""The class that users copy from existing documentation runs as it stands there."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from player_rig import controller

from agentflow.episode import Kind, Outcome
from tests.scripted import Answer, Ask, chat, scripted, tool_call

MATH_AGENT = '''
import os

from agents import Agent, OpenAIProvider, RunConfig, Runner, SQLiteSession, function_tool
from math_verify import parse, verify
from openai import AsyncOpenAI


@function_tool
def add(a: float, b: float) -> float:
    """Add two numbers."""
    return a + b


@function_tool
def multiply(a: float, b: float) -> float:
    """Multiply two numbers."""
    return a * b


def math_reward_fn(result, answer):
    return float(verify(parse(result), parse(answer)))


class MathAgent:
    async def run(self, data, **extra_kwargs):
        http_client = extra_kwargs.get("http_client", None)
        base_url = extra_kwargs.get("base_url", None) or os.getenv("OPENAI_BASE_URL")
        api_key = extra_kwargs.get("api_key", None) or os.getenv("OPENAI_API_KEY")
        client = AsyncOpenAI(base_url=base_url, api_key=api_key, http_client=http_client, max_retries=0)
        run_config = RunConfig(
            model_provider=OpenAIProvider(openai_client=client), model="default", tracing_disabled=True
        )
        agent = Agent(name="math", instructions="Answer with the tools.", tools=[add, multiply])
        result = await Runner.run(
            agent, input=data["messages"][-1]["content"], session=SQLiteSession("math"), run_config=run_config
        )
        return math_reward_fn(result.final_output, data["answer"])
'''


def solve(ask: Ask) -> Answer:
    """Adds the two numbers of the question with the tool, then says what the tool said; never stops at "loop"."""
    question = next(m["content"] for m in ask.body["messages"] if m["role"] == "user")
    if not isinstance(question, str):
        question = question[0]["text"]
    last = ask.body["messages"][-1]
    if last["role"] == "tool" and question != "loop":
        return chat(f"The answer is ${last['content']}$.", id=f"chatcmpl-{question}-2")
    a, b = question.split("+") if "+" in question else ("1", "1")
    call = tool_call("add", {"a": float(a), "b": float(b)}, id="call_1")
    return chat(None, tool_calls=[call], id=f"chatcmpl-{question}-{len(ask.body['messages'])}")


@pytest.mark.asyncio
async def test_many_episodes_of_it_side_by_side(tmp_path: Path) -> None:
    async with controller(tmp_path) as control, scripted(solve) as server:
        runner = await control.runner(server.url, concurrency=40)
        agent = await runner.load(control.write(MATH_AGENT))
        rows = [
            {"messages": [{"role": "user", "content": f"{i}+{i}"}], "answer": str(2 * i if i % 4 else -1)}
            for i in range(40)
        ]
        episodes = [await runner.play(agent, f"item-{i}", row) for i, row in enumerate(rows)]
        results = await asyncio.gather(*(runner.result(e) for e in episodes))
        looping = await runner.played(agent, "loop", {"messages": [{"role": "user", "content": "loop"}], "answer": "1"})
    assert [r.error for r in results] == [""] * 40
    assert [r.reward for r in results] == [float(i % 4 != 0) for i in range(40)]
    for i, (episode, result) in enumerate(zip(episodes, results, strict=True)):
        assert result.usage["default"].calls == 2
        assert result.usage["default"].tool_calls == 1
        assert result.warnings == ()
        lines = [json.loads(line) for line in runner.trace(episode).splitlines()]
        assert [line["episode"] for line in lines] == [f"item-{i}/0"] * 2
    assert (looping.outcome, looping.kind) == (Outcome.FAILED, Kind.MAX_TURNS)
    assert looping.usage["default"].calls == 10
