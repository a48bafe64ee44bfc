"""Short names of the ready-made agents, and the reward that they get where the user names none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from agentflow.channel.messages import AgentSpec
from agentflow.errors import UsageError

NAMES = {
    "rlvr": "agentflow.workflows.RLVRWorkflow",
    "multi-turn": "agentflow.workflows.MultiTurnWorkflow",
    "tools": "agentflow.workflows.ToolWorkflow",
}
DEFAULT_REWARDS = {"gsm8k": "gsm8k_reward", "math": "math_reward"}  # by recipe


def path_of(name: str) -> str:
    """The dotted path of a short name; any other name as it is."""
    return NAMES.get(name, name)


def is_ready_made(path: str) -> bool:
    """Whether a path (or a short name) names an agent of this room."""
    return path_of(path).startswith("agentflow.workflows.")


def with_reward(agent: AgentSpec, recipe: str, row: Mapping[str, Any]) -> AgentSpec:
    """A ready-made agent with the reward that suits the data, where the user gave none.

    Args:
        recipe: the one by which the data set's rows were made.
        row: the first of them.

    Raises:
        UsageError: nothing suits, or the rows have no ``messages``.
    """
    if not isinstance(row.get("messages"), list):
        columns = ", ".join(row) or "nothing"
        raise UsageError(
            f"{agent.path} sends a row's 'messages', and these rows have none (they have {columns}): "
            f"choose a column with --prompt-column, or write the prompt with --template."
        )
    if agent.kwargs.get("reward_fn") is not None or "reward_fn" in agent.objects:
        return agent
    reward = DEFAULT_REWARDS.get(recipe)
    if reward is None:
        raise UsageError(
            f"No reward: the recipe '{recipe}' suggests none. Give --reward: math_reward, gsm8k_reward, exact_match, "
            f"choice, contains, or a function of yours (my_rewards.py:my_reward)."
        )
    return msgspec.structs.replace(agent, kwargs={**agent.kwargs, "reward_fn": reward})
