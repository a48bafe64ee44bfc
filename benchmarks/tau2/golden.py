"""The golden actions of a task: who makes which call, and the words that have to be said."""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec

from benchmarks.tau2.checker import Trajectory
from benchmarks.tau2.package import new_environment, package_module, stop_tokens, task_of
from benchmarks.tau2.task import Task
from benchmarks.tau2.world import Side, World

DROPS = ("first", "last", "all")


class GoldenAction(msgspec.Struct, frozen=True):
    """One call: by the agent (``assistant``) or by the user."""

    side: Side
    name: str
    arguments: dict[str, Any]


def golden_actions(task: Task, drop: str = "") -> list[GoldenAction]:
    """What leads to the goal.

    Args:
        drop: leaves out the ``first`` or the ``last`` call that changes something, or ``all`` calls.
    """
    criteria = task.task.get("evaluation_criteria") or {}
    actions = [
        GoldenAction(action.get("requestor", "assistant"), action["name"], action["arguments"])
        for action in criteria.get("actions") or []
    ]
    if drop == "all":
        return []
    changing = [i for i, action in enumerate(actions) if changes_something(task.domain, action)]
    if drop and changing:
        del actions[changing[0 if drop == "first" else -1]]
    return actions


def golden_words(task: Task, drop: str = "") -> str:
    """What the agent has to tell the user, in one sentence."""
    told = (task.task.get("evaluation_criteria") or {}).get("communicate_info") or []
    return f"That is done: {'; '.join(told)}." if told and drop != "all" else "That is done."


def changes_something(domain: str, action: GoldenAction) -> bool:
    """Whether the call is of a tool that writes, on either side."""
    return action.name in _writing_tools(domain, action.side)


@cache
def _writing_tools(domain: str, side: Side) -> frozenset[str]:
    environment = new_environment(domain)
    tools = environment.user_tools if side == "user" else environment.tools
    write = package_module("tau2.environment.toolkit").ToolType.WRITE
    return frozenset(name for name in tools.tools if tools.tool_type(name) == write)


async def golden_trajectory(task: Task, drop: str = "") -> Trajectory:
    """The golden actions as they are played, one call a message, and the golden words."""
    world = World(task.domain, task_of(task.task))
    said: list[dict[str, Any]] = [message.model_dump(mode="json") for message in world.history]
    for number, action in enumerate(golden_actions(task, drop)):
        call = {"id": f"call_{number}", "name": action.name, "arguments": action.arguments, "requestor": action.side}
        result = await world.call(action.side, call["id"], action.name, action.arguments)
        said.append({"role": action.side, "tool_calls": [call]})
        said.append(
            {"role": "tool", "id": call["id"], "content": result.told, "requestor": action.side, "error": result.error}
        )
    words = {"role": "assistant", "content": golden_words(task, drop)}
    return [*said, words, {"role": "user", "content": stop_tokens()[0]}]
