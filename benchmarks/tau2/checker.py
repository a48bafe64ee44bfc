"""The authors' own evaluators, in a reward process: they play the whole episode again, which takes up to seconds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from agentflow.rewards import AsyncRewardWrapper
from benchmarks.tau2.package import new_environment, package_module, task_of
from benchmarks.tau2.task import Task

VERDICT_TIMEOUT_S = 120.0

Trajectory = Sequence[dict[str, Any]]  # the package's messages as plain data, in their order

_KINDS = {"assistant": "AssistantMessage", "user": "UserMessage", "tool": "ToolMessage"}


class Verdict(msgspec.Struct, frozen=True):
    """What the evaluators say.

    Args:
        reward: the product of its parts, 0 or 1.
        parts: what the task's reward is made of: ``db``, ``env_assertion``, ``action``, ``communicate``.
    """

    reward: float
    parts: dict[str, float] = {}


async def judge(task: Task, trajectory: Trajectory) -> Verdict:
    """The verdict on an episode that came to its own end.

    Raises:
        GraderError: the evaluators took too long, crashed or raised.
    """
    verdict: Verdict = await _judge(task, list(trajectory))
    return verdict


def verdict_on(task: Task, trajectory: Trajectory) -> Verdict:
    """The same, here and now: for a reward process, or a test.

    The parts and their product are what the package's ``evaluate_simulation`` makes of them with its type ``all``;
    that function itself cannot be imported without litellm.

    Raises:
        ValueError: the task wants assertions in natural language to be judged, by a model. None of the package does.
    """
    criteria = task_of(task.task).evaluation_criteria
    if criteria is None:
        return Verdict(1.0)
    kinds = package_module("tau2.data_model.tasks").RewardType
    basis = set(criteria.reward_basis)
    if kinds.NL_ASSERTION in basis:
        raise ValueError("NL assertions are part of the reward basis, but they are not being evaluated.")
    given = {"task": task_of(task.task), "full_trajectory": messages(trajectory)}
    found: dict[Any, float] = {}
    reward = 1.0
    if basis & {kinds.DB, kinds.ENV_ASSERTION}:
        info = _evaluator("env", "EnvironmentEvaluator").calculate_reward(
            environment_constructor=lambda solo_mode=False: new_environment(task.domain), **given
        )
        found |= info.reward_breakdown or {}
        reward *= info.reward
    if kinds.ACTION in basis:
        info = _evaluator("action", "ActionEvaluator").calculate_reward(**given)
        found |= info.reward_breakdown
        reward *= info.reward
    if kinds.COMMUNICATE in basis:
        info = _evaluator("communicate", "CommunicateEvaluator").calculate_reward(**given)
        found |= info.reward_breakdown
        reward *= info.reward
    return Verdict(reward, {kind.value.lower(): value for kind, value in found.items()})


def messages(trajectory: Trajectory) -> list[Any]:
    """The package's own messages."""
    module = package_module("tau2.data_model.message")
    return [getattr(module, _KINDS[message["role"]]).model_validate(message) for message in trajectory]


def _evaluator(name: str, of: str) -> Any:
    return getattr(package_module(f"tau2.evaluator.evaluator_{name}"), of)


_judge = AsyncRewardWrapper("benchmarks.tau2.checker:verdict_on", timeout=VERDICT_TIMEOUT_S)
