"""The plain loop: ask, run the tools that the model calls, tell it what came out, until it answers in words."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from agentflow.errors import UsageError
from agentflow.workflows.chat import Chat, prompt_text
from agentflow.workflows.function_tool import Function, FunctionTool, functions_of, outcome
from agentflow.workflows.reward import RewardFn, reward_of
from agentflow.workflows.tool_calls import sendable, tool_calls


class MaxTurnsExceeded(Exception):
    """The model still calls tools after its last step. By this name the episode fails with the kind ``max_turns``."""


class ToolWorkflow:
    """Lets the model call Python functions. Calls of one message run side by side; an error is told to the model.

    Args:
        tools: functions, or where they are: ``mytools.py`` (all public functions defined in it), ``mytools.py:add``,
            ``pkg.mod:add``; one or several.
        reward_fn: grades the final answer: a function, or its name (``math_reward``, ``pkg.mod:fn``, ``file.py:fn``).
        max_steps: most calls of the model.

    Raises:
        UsageError: there are no tools, a tool or the reward function cannot be loaded, or two tools have the same name.
        ValueError: ``max_steps`` is below 1.
    """

    def __init__(
        self,
        tools: str | Function | Sequence[str | Function] | None = None,
        reward_fn: RewardFn | None = None,
        max_steps: int = 10,
    ) -> None:
        if tools is None:
            raise UsageError("ToolWorkflow needs tools: give tools (--tools on the command line), such as mytools.py.")
        if max_steps < 1:
            raise ValueError(f"max_steps is {max_steps}; give at least 1")
        given = [tools] if isinstance(tools, str) or callable(tools) else tools
        self._functions = [function for one in given for function in functions_of(one)]
        self._max_steps = max_steps
        self._reward = reward_of(reward_fn, "ToolWorkflow")
        self._tools()

    async def run(self, data: Mapping[str, Any], base_url: str, api_key: str, http_client: Any) -> float:
        """The reward of the final answer."""
        chat = Chat(base_url, api_key, http_client)
        tools = self._tools()
        schemas = [tool.schema for tool in tools.values()]
        messages = list(data["messages"])
        for _ in range(self._max_steps):
            reply = await chat(messages, tools=schemas)
            if not reply.tool_calls:
                return await self._reward(reply.text, data, prompt=prompt_text(messages))
            calls = tool_calls(reply)
            results = await asyncio.gather(*(outcome(tools, call, is_cut_off=reply.is_cut_off) for call in calls))
            messages += [sendable(reply, calls), *results]
        raise MaxTurnsExceeded(f"The model still calls tools after {self._max_steps} steps.")

    def _tools(self) -> dict[str, FunctionTool]:
        """By name. Made for each episode: an instance given from Python is pickled, and these cannot be."""
        tools: dict[str, FunctionTool] = {}
        for function in self._functions:
            tool = FunctionTool(function)
            if tool.name in tools:
                raise UsageError(f"Two tools are called '{tool.name}': a model tells them apart by name.")
            tools[tool.name] = tool
        return tools
