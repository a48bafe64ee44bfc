"""Rewards: numbers for what a model answered. See ``docs/rewards.md``."""

from agentflow.rewards.errors import GraderError
from agentflow.rewards.function import AsyncRewardWrapper
from agentflow.rewards.load import load_reward
from agentflow.rewards.math import math_reward, math_reward_sync
from agentflow.rewards.text import choice, contains, exact_match, gsm8k_reward

__all__ = [
    "AsyncRewardWrapper",
    "GraderError",
    "choice",
    "contains",
    "exact_match",
    "gsm8k_reward",
    "load_reward",
    "math_reward",
    "math_reward_sync",
]
