"""agentflow run examples/openai_loop.py --limit 4

A tool loop written out with the openai SDK: ask, run what the model calls, tell it the results, until it answers.
"""

import json

from openai import AsyncOpenAI

from agentflow.rewards import math_reward

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "multiply",
            "description": "Multiply two numbers.",
            "parameters": {
                "type": "object",
                "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
                "required": ["a", "b"],
            },
        },
    }
]


def multiply(a, b):
    return a * b


class LoopAgent:
    """At most ``max_steps`` calls of the model; an episode that needs more fails."""

    dataset = "math/problems.jsonl"

    def __init__(self, max_steps=5):
        self.max_steps = max_steps

    async def run(self, data, base_url, api_key, http_client):
        client = AsyncOpenAI(base_url=base_url, api_key=api_key, http_client=http_client, max_retries=0)
        messages = list(data["messages"])
        for _ in range(self.max_steps):
            completion = await client.chat.completions.create(model="default", messages=messages, tools=TOOLS)
            message = completion.choices[0].message
            if not message.tool_calls:
                return await math_reward(message.content or "", data["answer"])
            messages.append(message)
            for call in message.tool_calls:
                try:
                    content = str(multiply(**json.loads(call.function.arguments)))
                except (TypeError, ValueError) as e:  # what a model writes need not fit
                    content = f"Error: {e}"
                messages.append({"role": "tool", "tool_call_id": call.id, "content": content})
        raise RuntimeError(f"still calling tools after {self.max_steps} steps")
