"""One episode's own environment: the domain's tools and databases, called with what a model wrote."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from agentflow.rewards import AsyncRewardWrapper, GraderError
from benchmarks.tau2.package import new_environment, package_module

CALL_TIMEOUT_S = 5.0

STATELESS = "calculate"  # the one tool that computes what it is given: 9**9**9**9 is made of characters that it admits

Side = Literal["assistant", "user"]


@dataclass(frozen=True)
class Result:
    """What came of a call. ``made``: the environment has seen it, so the evaluators have to see it too."""

    told: str
    error: bool
    made: bool


class World:
    """The state that an episode acts on.

    Args:
        domain: whose environment it is.
        task: the package's task; what it says of the initial state is applied.
    """

    def __init__(self, domain: str, task: Any) -> None:
        self._domain = domain
        self._environment = new_environment(domain)
        initial = task.initial_state
        # A copy: tools may keep an argument in the database and change it there later.
        self.history: list[Any] = copy.deepcopy(initial.message_history or []) if initial else []
        self._environment.set_state(
            initialization_data=copy.deepcopy(initial.initialization_data) if initial else None,
            initialization_actions=copy.deepcopy(initial.initialization_actions) if initial else None,
            message_history=self.history,
        )

    @property
    def policy(self) -> str:
        """The domain's policy, as the agent is told it."""
        policy: str = self._environment.get_policy()
        return policy

    @property
    def tools(self) -> list[dict[str, Any]]:
        """What the agent may call."""
        return [tool.openai_schema for tool in self._environment.get_tools()]

    @property
    def user_tools(self) -> list[dict[str, Any]]:
        """What the user may call: in telecom, the things one does with a phone."""
        if self._environment.user_tools is None:
            return []
        return [tool.openai_schema for tool in self._environment.get_user_tools()]

    async def call(self, side: Side, id: str, name: str, arguments: Mapping[str, Any]) -> Result:
        """Make a call that the model on this side asked for. A tool that is not its own is not found."""
        if name == STATELESS and side == "assistant" and self._has(name):
            try:
                return await _in_a_process(self._domain, dict(arguments))
            except GraderError:
                return Result(f"Error: {name} took too long or too much memory", error=True, made=False)
        return respond(self._environment, side, id, name, arguments)

    def sync(self) -> None:
        """Let the user's side see what the agent's has changed, as the authors do after every step."""
        self._environment.sync_tools()

    def _has(self, name: str) -> bool:
        return bool(self._environment.tools.has_tool(name))


def respond(environment: Any, side: Side, id: str, name: str, arguments: Mapping[str, Any]) -> Result:
    """What the package's environment answers to a call. The arguments stay the caller's."""
    call = package_module("tau2.data_model.message").ToolCall(
        id=id, name=name, arguments=copy.deepcopy(dict(arguments)), requestor=side
    )
    said = environment.get_response(call)
    return Result(said.content, said.error, made=True)


_in_a_process = AsyncRewardWrapper("benchmarks.tau2.arithmetic:calculate", timeout=CALL_TIMEOUT_S)
