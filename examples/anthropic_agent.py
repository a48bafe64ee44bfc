"""agentflow run examples/anthropic_agent.py --limit 4

Anthropic's SDK, which speaks /v1/messages; agentflow translates where the engine does not. Streamed.
"""

from anthropic import AsyncAnthropic

from agentflow.rewards import math_reward


class AnthropicAgent:
    dataset = "math/problems.jsonl"

    async def run(self, data, base_url, api_key, http_client):
        client = AsyncAnthropic(
            base_url=base_url.removesuffix("/v1"), api_key=api_key, http_client=http_client, max_retries=0
        )
        async with client.messages.stream(model="default", max_tokens=256, messages=data["messages"]) as stream:
            message = await stream.get_final_message()
        text = "".join(block.text for block in message.content if block.type == "text")
        return await math_reward(text, data["answer"])
