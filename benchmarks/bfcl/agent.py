"""The episode: the user's turns one after the other, the model's calls in between, the checker at the end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agentflow.workflows import MaxTurnsExceeded
from agentflow.workflows.chat import Chat, Message
from benchmarks.arguments import check_count
from benchmarks.bfcl.checker import Transcript, judge
from benchmarks.bfcl.package import handover_prompt, max_steps, require
from benchmarks.bfcl.simulation import FAILED, Simulation
from benchmarks.bfcl.task import Task, task_of
from benchmarks.bfcl.tools import Toolbox
from benchmarks.replies import ToolCall, said

REASONS = {  # the checker's names of what can be wrong -> the metric that counts it
    "empty_turn_model_response": "turn_without_calls",
    "instance_state_mismatch": "wrong_state",
    "execution_response_mismatch": "missing_results",
}


class Bfcl:
    """Plays a multi-turn task of BFCL with function calling.

    A turn goes on until the model answers without calls. Where the arguments of a call are no JSON object the turn is
    over and the step does not count, as the benchmark's authors have it.

    Args:
        max_steps: most steps with calls in a turn; the package's own limit where it is not given. One more and the
            episode has failed, with the kind ``max_turns``.

    Raises:
        UsageError: ``max_steps`` is no whole number of at least 1, or the package ``bfcl-eval`` is not installed.
    """

    dataset = "bfcl:multi_turn_base"
    group_by = ("category",)
    headline = "pass^k"

    def __init__(self, max_steps: int | None = None) -> None:
        check_count("max_steps", max_steps)
        require()
        self._max_steps = max_steps

    async def run(self, data: Mapping[str, Any], base_url: str, api_key: str, http_client: Any) -> dict[str, float]:
        """``reward`` 1 where the checker finds it right, else 0; what is wrong; and how much was done."""
        task = task_of(data)
        chat = Chat(base_url, api_key, http_client)
        episode = _Episode(task, chat, max_steps() if self._max_steps is None else self._max_steps)
        transcript = await episode.play()
        verdict = await judge(task, transcript)
        wrong = {metric: float(verdict.reason == reason) for reason, metric in REASONS.items()}
        steps = sum(len(turn) for turn in transcript)
        return {"reward": float(verdict.valid), **wrong, "steps": steps, "undecodable": episode.undecodable}


class _Episode:
    """The conversation so far, the world that it acts on, and the calls that were made."""

    def __init__(self, task: Task, chat: Chat, max_steps: int) -> None:
        self._task = task
        self._chat = chat
        self._max_steps = max_steps
        self._tools = Toolbox(task)
        self._simulation = Simulation(task)
        self._messages: list[Message] = []
        self.undecodable = 0

    async def play(self) -> Transcript:
        transcript: Transcript = []
        for turn, messages in enumerate(self._task.question):
            handed_over = self._tools.hand_over(turn)
            self._messages += [{"role": "user", "content": handover_prompt()}] if handed_over else messages
            transcript.append(await self._turn(turn))
        return transcript

    async def _turn(self, turn: int) -> list[list[str]]:
        """Steps with calls, until the model answers without one."""
        steps: list[list[str]] = []
        while True:
            one = said(await self._chat(self._messages, tools=self._tools.offered))
            self._messages.append(one.message)
            if not one.calls:
                return steps
            if len(steps) == self._max_steps:
                raise MaxTurnsExceeded(f"Turn {turn} still has calls after {self._max_steps} steps.")
            step = await self._step(one.calls)
            if step is None:
                self.undecodable += 1
                return steps
            steps.append(step)

    async def _step(self, calls: Sequence[ToolCall]) -> list[str] | None:
        """Make the calls of one message, in their order; None where one of them cannot be read."""
        trouble = next((call.trouble for call in calls if call.arguments is None), None)
        if trouble is not None:
            # Every call needs its answer, or engines refuse the conversation.
            self._messages += [_result(call.id, f"{FAILED}{trouble}") for call in calls]
            return None
        sources = []
        for call in calls:
            told, source = await self._simulation.call(call.name, call.arguments or {})
            self._messages.append(_result(call.id, told))
            sources.append(source)
        return sources


def _result(call_id: str, content: str) -> Message:
    return {"role": "tool", "tool_call_id": call_id, "content": content}
