"""agentflow run examples/call_rewards.py --limit 4

Several turns with a reward for each call: the model answers, then is asked to check its answer.
"""

from openai import AsyncOpenAI

from agentflow.rewards import math_reward

QUESTIONS = ("Answer with one number.", "Check your answer step by step, then give the final answer.")


class CheckingAgent:
    """The headline is the reward of the last call; the first call's is kept beside it."""

    dataset = "math/problems.jsonl"

    async def run(self, data, base_url, api_key, http_client):
        client = AsyncOpenAI(base_url=base_url, api_key=api_key, http_client=http_client, max_retries=0)
        messages = list(data["messages"])
        rewards = {}
        for question in QUESTIONS:
            messages.append({"role": "user", "content": question})
            completion = await client.chat.completions.create(model="default", messages=messages)
            answer = completion.choices[0].message.content or ""
            rewards[completion.id] = await math_reward(answer, data["answer"])
            messages.append({"role": "assistant", "content": answer})
        return rewards
