"""One question, one answer, one grade."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentflow.workflows.chat import Chat, prompt_text
from agentflow.workflows.fields import request_fields
from agentflow.workflows.reward import RewardFn, reward_of


class RLVRWorkflow:
    """Sends the row's ``messages``, grades what comes back. The name and the arguments are those of AReaL's workflow.

    Args:
        reward_fn: a function, or its name (``math_reward``, ``pkg.mod:fn``, ``file.py:fn``).
        gconfig: sampling values of every request; those of the run's configuration fill in what it leaves out.
        tokenizer: accepted and not used: the engine applies the chat template.
        enable_thinking: for templates that know it, sent as ``chat_template_kwargs``.

    Raises:
        UsageError: the reward function cannot be loaded.
    """

    def __init__(
        self,
        reward_fn: RewardFn | None = None,
        gconfig: Any = None,
        tokenizer: Any = None,
        enable_thinking: bool | None = None,
    ) -> None:
        self._reward = reward_of(reward_fn, "RLVRWorkflow")
        self._fields = request_fields(gconfig, enable_thinking)

    async def run(self, data: Mapping[str, Any], base_url: str, api_key: str, http_client: Any) -> float:
        """One call; its reward."""
        messages = data["messages"]
        reply = await Chat(base_url, api_key, http_client)(messages, **self._fields)
        return await self._reward(reply.text, data, prompt=prompt_text(messages))
