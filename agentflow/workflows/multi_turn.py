"""Answer, be told that it is wrong, try again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentflow.workflows.chat import Chat, prompt_text
from agentflow.workflows.reward import RewardFn, reward_of

FEEDBACK = "Your answer is wrong, or it could not be read. Look for the mistake and answer again."


class MultiTurnWorkflow:
    """Asks until an answer gets a reward above 0, at most ``max_turns`` times. A reward a call.

    Args:
        reward_fn: a function, or its name (``math_reward``, ``pkg.mod:fn``, ``file.py:fn``).
        max_turns: most answers.
        feedback: what the model is told after an answer without a reward.
        turn_discount: the reward of turn t (from 0) is multiplied by its t-th power, so that early answers count more.

    Raises:
        UsageError: the reward function cannot be loaded.
        ValueError: ``max_turns`` is below 1.
    """

    def __init__(
        self,
        reward_fn: RewardFn | None = None,
        max_turns: int = 3,
        feedback: str = FEEDBACK,
        turn_discount: float = 1.0,
    ) -> None:
        if max_turns < 1:
            raise ValueError(f"max_turns is {max_turns}; give at least 1")
        self._reward = reward_of(reward_fn, "MultiTurnWorkflow")
        self._max_turns = max_turns
        self._feedback = feedback
        self._turn_discount = turn_discount

    async def run(self, data: Mapping[str, Any], base_url: str, api_key: str, http_client: Any) -> dict[str, float]:
        """Reward by call id; the last call's is the headline."""
        chat = Chat(base_url, api_key, http_client)
        messages = list(data["messages"])
        rewards: dict[str, float] = {}
        for turn in range(self._max_turns):
            reply = await chat(messages)
            reward = await self._reward(reply.text, data, prompt=prompt_text(messages))
            rewards[reply.id] = reward * self._turn_discount**turn
            if reward > 0:
                break
            messages += [reply.message, {"role": "user", "content": self._feedback}]
        return rewards
