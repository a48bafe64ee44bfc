"""agentflow run examples/langchain_agent.py --limit 4

LangChain: its agent with one tool, on a ChatOpenAI that gets the three values of the episode.
"""

from langchain.agents import create_agent
from langchain_openai import ChatOpenAI

from agentflow.rewards import math_reward


def multiply(a: float, b: float) -> float:
    """Multiply two numbers."""
    return a * b


class LangChainAgent:
    dataset = "math/problems.jsonl"

    async def run(self, data, base_url, api_key, http_client):
        model = ChatOpenAI(
            model="default", base_url=base_url, api_key=api_key, http_async_client=http_client, max_retries=0
        )
        agent = create_agent(model, tools=[multiply], system_prompt="Solve the problem with the tool.")
        state = await agent.ainvoke({"messages": data["messages"]}, {"recursion_limit": 20})
        return await math_reward(state["messages"][-1].text, data["answer"])
