"""The math reward: awaitable and blocking, graded in a reward process."""

from __future__ import annotations

import importlib.util
from functools import cache

from agentflow.errors import MissingExtraError
from agentflow.rewards.function import AsyncRewardWrapper
from agentflow.rewards.process import is_reward_process


async def math_reward(completion: str | None, answer: object) -> float:
    """1.0 if the answer in ``completion`` means the same as the gold ``answer``, else 0.0.

    Args:
        completion: what the model wrote; None (a message without content) earns 0.0.
        answer: the gold answer: a number, LaTeX with or without dollars, a box, or GSM8K's text with ``####``.

    Raises:
        GraderError: the grade took more than 10 s or 2 GiB, or could not be computed.
        MissingExtraError: math_verify is not installed.
    """
    return float(await _grader()(completion, answer))


def math_reward_sync(completion: str | None, answer: object) -> float:
    """The same as :func:`math_reward`, blocking the calling thread; from any thread."""
    if is_reward_process():
        from agentflow.rewards.grading import grade

        return grade(completion, answer)
    return float(_grader().call_sync(completion, answer))


@cache
def _grader() -> AsyncRewardWrapper:
    if importlib.util.find_spec("math_verify") is None:
        raise MissingExtraError("math_reward", "math")
    # by name: sympy, which costs half a second and 60 MB, is imported in the reward process only
    return AsyncRewardWrapper("agentflow.rewards.grading:grade")
