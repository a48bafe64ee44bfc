"""The reward of a ready-made agent: a function, or the name of one."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from agentflow.errors import UsageError
from agentflow.rewards import load_reward
from agentflow.rewards.load import Reward

RewardFn = str | Callable[..., Any]

_loaded = cache(load_reward)  # an agent is made anew for every episode, its reward function need not be


def reward_of(reward_fn: RewardFn | None, agent: str) -> Reward:
    """What grades a completion.

    Args:
        reward_fn: a function, ``pkg.mod:fn``, ``file.py:fn``, or the bare name of one of ``agentflow.rewards``.
        agent: who asks, for the message.

    Raises:
        UsageError: there is none, or it cannot be loaded.
    """
    if reward_fn is None:
        raise UsageError(
            f"{agent} needs a reward function: give reward_fn (--reward on the command line), for instance "
            f"math_reward, exact_match or my_rewards.py:my_reward."
        )
    if isinstance(reward_fn, str):
        return _loaded(reward_fn)
    return Reward(reward_fn, getattr(reward_fn, "__qualname__", type(reward_fn).__qualname__))
