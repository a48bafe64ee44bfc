"""agentflow run examples/handoffs.py --limit 4

openai-agents with handoffs: a receptionist passes the problem on to a specialist, who has the tool for it.
"""

from agents import Agent, OpenAIProvider, RunConfig, Runner, function_tool
from openai import AsyncOpenAI

from agentflow.rewards import math_reward


@function_tool
def add(a: float, b: float) -> float:
    """Add two numbers."""
    return a + b


@function_tool
def multiply(a: float, b: float) -> float:
    """Multiply two numbers."""
    return a * b


ADDER = Agent(name="adder", instructions="You add numbers, with the tool.", tools=[add])
MULTIPLIER = Agent(name="multiplier", instructions="You multiply numbers, with the tool.", tools=[multiply])
RECEPTIONIST = Agent(
    name="receptionist",
    instructions="Hand the problem over to the specialist for it.",
    handoffs=[ADDER, MULTIPLIER],
)


class HandoffAgent:
    """Returns named metrics: the reward, which is the headline, and whether the problem was handed over."""

    dataset = "math/problems.jsonl"

    async def run(self, data, base_url, api_key, http_client):
        client = AsyncOpenAI(base_url=base_url, api_key=api_key, http_client=http_client, max_retries=0)
        result = await Runner.run(
            RECEPTIONIST,
            input=data["messages"][-1]["content"],
            run_config=RunConfig(model_provider=OpenAIProvider(openai_client=client), model="default"),
        )
        reward = await math_reward(result.final_output, data["answer"])
        return {"reward": reward, "handed_over": result.last_agent is not RECEPTIONIST}
