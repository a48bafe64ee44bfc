"""The conversation, step by step as the authors' orchestrator takes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import msgspec

from agentflow.workflows import MaxTurnsExceeded
from agentflow.workflows.chat import Chat, Message
from benchmarks.replies import Said, ToolCall
from benchmarks.tau2.package import agent_prompt, greeting, stop_tokens, task_of, user_prompt
from benchmarks.tau2.speaker import Speaker
from benchmarks.tau2.task import Task
from benchmarks.tau2.world import Result, Side, World


class End(StrEnum):
    """How a conversation ended: the user's word for it, or too many calls that failed."""

    DONE = "done"
    TRANSFERRED = "transferred"
    OUT_OF_SCOPE = "out_of_scope"
    TOO_MANY_ERRORS = "too_many_errors"


@dataclass
class Counts:
    """What happened: messages and rounds of calls (``steps``), what the user said and called, calls that failed."""

    steps: int = 0
    user_turns: int = 0
    user_tool_calls: int = 0
    tool_errors: int = 0


class Episode:
    """One conversation.

    Args:
        max_steps: after which it is given up; looked at only when nobody waits for a tool.
        max_errors: of tools, both sides together, after which it ends.

    Attributes:
        trajectory: what was said and called, as the evaluators want it.
    """

    def __init__(self, task: Task, chat: Chat, max_steps: int, max_errors: int) -> None:
        self._max_steps = max_steps
        self._max_errors = max_errors
        self.counts = Counts()
        self.trajectory: list[dict[str, Any]] = []
        of_package = task_of(task.task)
        self._world = World(task.domain, of_package)
        tools = self._world.user_tools
        scenario = user_prompt(str(of_package.user_scenario), has_tools=bool(tools))
        self._speakers: dict[Side, Speaker] = {
            "assistant": Speaker(chat, "agent", "default", agent_prompt(self._world.policy), self._world.tools),
            "user": Speaker(chat, "simulated user", "user", scenario, tools),
        }

    async def play(self) -> End:
        """Until the user ends it, or too many calls have failed.

        Raises:
            MaxTurnsExceeded: there were ``max_steps`` steps.
            NothingSaidError: one of the two said nothing.
            ChatError: there was no reply.
        """
        side = self._begin()
        while True:
            one = await self._speaks(side)
            end: End | None = None
            if one.calls:
                await self._calls(side, one)
            else:
                end = end_of(one.text) if side == "user" else None
                side = _other(side)
                self._speakers[side].hears(one.text)
            # In this order, as the authors have it: who says goodbye in the last step is too late.
            if self.counts.tool_errors >= self._max_errors:
                return End.TOO_MANY_ERRORS
            if self.counts.steps >= self._max_steps:
                raise MaxTurnsExceeded(f"The conversation was not over after {self._max_steps} steps.")
            if end is not None:
                return end

    def _begin(self) -> Side:
        """Repeat what has been said already, by default the agent's greeting. Returns whose turn it is."""
        history = [message.model_dump(mode="json") for message in self._world.history]
        side: Side = "assistant"
        for message in history or [{"role": "assistant", "content": greeting()}]:
            self.trajectory.append(message)
            if message["role"] == "tool":
                side = message["requestor"]
                self._speakers[side].gets(message["id"], message["content"])
                continue
            side = message["role"]
            self._speakers[side].has_said(_as_said(message))
            if not message.get("tool_calls"):
                side = _other(side)
                self._speakers[side].hears(message["content"])
        return side

    async def _speaks(self, side: Side) -> Said:
        one = await self._speakers[side].speaks()
        self.counts.steps += 1
        self._world.sync()
        if not one.calls:
            self.trajectory.append({"role": side, "content": one.text})
            self.counts.user_turns += side == "user"
        return one

    async def _calls(self, side: Side, one: Said) -> None:
        """Make the calls of a message, in their order. Those that were made are told to the evaluators."""
        made: list[dict[str, Any]] = []
        results: list[dict[str, Any]] = []
        for call in one.calls:
            result = await self._call(side, call)
            self._speakers[side].gets(call.id, result.told)
            self.counts.tool_errors += result.error
            self.counts.user_tool_calls += side == "user"
            if result.made:
                made.append({"id": call.id, "name": call.name, "arguments": call.arguments, "requestor": side})
                results.append(
                    {"role": "tool", "id": call.id, "content": result.told, "requestor": side, "error": result.error}
                )
        if made:
            self.trajectory += [{"role": side, "content": one.text or None, "tool_calls": made}, *results]
        elif one.text.strip():
            self.trajectory.append({"role": side, "content": one.text})
        self.counts.steps += 1
        self._world.sync()

    async def _call(self, side: Side, call: ToolCall) -> Result:
        if call.arguments is None:
            return Result(f"Error: {call.trouble}", error=True, made=False)
        return await self._world.call(side, call.id, call.name, call.arguments)


def end_of(text: str) -> End | None:
    """What a message of the user ends the conversation with; None where it goes on."""
    ends = zip(stop_tokens(), (End.DONE, End.TRANSFERRED, End.OUT_OF_SCOPE), strict=True)
    return next((end for token, end in ends if token in text), None)


def _other(side: Side) -> Side:
    return "user" if side == "assistant" else "assistant"


def _as_said(message: Mapping[str, Any]) -> Message:
    """A message of the package as its side's model would have written it."""
    calls = [
        {
            "id": call["id"],
            "type": "function",
            "function": {"name": call["name"], "arguments": msgspec.json.encode(call["arguments"]).decode()},
        }
        for call in message.get("tool_calls") or ()
    ]
    return {"role": "assistant", "content": message.get("content"), **({"tool_calls": calls} if calls else {})}
