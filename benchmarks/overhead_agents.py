"""The agents of the overhead benchmark, played with and without agentflow: two tool calls and an answer an episode.

Each takes a client that it is to share with other episodes, as a script of one's own would do; without one it builds
its client from what agentflow hands to ``run``.
"""

from __future__ import annotations

import json
from typing import Any

from openai import AsyncOpenAI

INSTRUCTIONS = (
    "You are a careful assistant that solves arithmetic problems step by step. Use the tools to add and to multiply, "
    "never compute in your head, and end with the answer as one number on a line of its own."
)


def add(a: float, b: float) -> float:
    """Add two numbers."""
    return a + b


def multiply(a: float, b: float) -> float:
    """Multiply two numbers."""
    return a * b


FUNCTIONS = {"add": add, "multiply": multiply}
TOOLS: list[Any] = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": function.__doc__,
            "parameters": {
                "type": "object",
                "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
                "required": ["a", "b"],
            },
        },
    }
    for name, function in FUNCTIONS.items()
]


def _client(offered: dict[str, Any]) -> AsyncOpenAI:
    return AsyncOpenAI(
        base_url=offered["base_url"], api_key=offered["api_key"], http_client=offered["http_client"], max_retries=0
    )


class PlainAgent:
    """A tool loop over chat completions, written with the openai SDK alone."""

    def __init__(self, client: AsyncOpenAI | None = None) -> None:
        self.client = client

    async def run(self, data: dict[str, Any], **offered: Any) -> float:
        client = self.client or _client(offered)
        messages: list[Any] = [{"role": "system", "content": INSTRUCTIONS}, *data["messages"]]
        while True:
            completion = await client.chat.completions.create(model="default", messages=messages, tools=TOOLS)
            message = completion.choices[0].message
            if not message.tool_calls:
                return float(message.content is not None)
            messages.append(message.model_dump(exclude_none=True))
            for call in message.tool_calls:
                result = FUNCTIONS[call.function.name](**json.loads(call.function.arguments))
                messages.append({"role": "tool", "tool_call_id": call.id, "content": str(result)})


class SdkAgent:
    """The same with openai-agents, over chat completions."""

    def __init__(self, client: AsyncOpenAI | None = None) -> None:
        self.client = client

    async def run(self, data: dict[str, Any], **offered: Any) -> float:
        from agents import Agent, OpenAIProvider, RunConfig, Runner, function_tool

        provider = OpenAIProvider(openai_client=self.client or _client(offered), use_responses=False)
        agent = Agent(name="math", instructions=INSTRUCTIONS, tools=[function_tool(add), function_tool(multiply)])
        result = await Runner.run(
            agent,
            input=data["messages"][-1]["content"],
            run_config=RunConfig(model_provider=provider, model="default", tracing_disabled=True),
        )
        return float(result.final_output is not None)
