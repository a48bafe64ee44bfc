"""agentflow run examples/math/agent.py --limit 16

A small arithmetic agent in openai-agents: two tools, graded by math_verify. Nothing in it knows of agentflow; the three
values that `run` takes from `extra_kwargs` are what any OpenAI client is built from.
"""

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


def math_reward(completion: str, answer: str) -> float:
    """1.0 where the completion's last number or formula equals the answer."""
    return float(verify(parse(answer), parse(completion)))


class MathAgent:
    """Answers one arithmetic problem, with tools where the model asks for them."""

    dataset = "problems.jsonl"

    async def run(self, data, **extra_kwargs):
        client = AsyncOpenAI(
            base_url=extra_kwargs.get("base_url") or os.environ.get("OPENAI_BASE_URL"),
            api_key=extra_kwargs.get("api_key") or os.environ.get("OPENAI_API_KEY"),
            http_client=extra_kwargs.get("http_client"),
            max_retries=0,
        )
        agent = Agent(
            name="math",
            instructions="Solve the problem. Use the tools to add and multiply. End with the answer as one number.",
            tools=[add, multiply],
        )
        result = await Runner.run(
            agent,
            input=data["messages"][-1]["content"],
            session=SQLiteSession("math"),
            run_config=RunConfig(
                model_provider=OpenAIProvider(openai_client=client), model="default", tracing_disabled=True
            ),
        )
        return math_reward(result.final_output, data["answer"])
