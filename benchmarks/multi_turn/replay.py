"""Golden replay of BFCL: the load of real tool use, the same for every backend whatever its model says.

The user's messages, the tools (about 28 functions, 16 kB of schemas) and the golden calls are the benchmark's own. The
engine generates a reply to each step for real; the conversation goes on with the golden call instead, one a step, which
is made on the real simulated APIs, and with its result. A turn ends with a plain message of the assistant.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import msgspec

from agentflow.errors import UsageError
from agentflow.workflows.chat import Message
from benchmarks.bfcl.calls import ApiCall
from benchmarks.bfcl.data import rows
from benchmarks.bfcl.golden import golden_call
from benchmarks.bfcl.package import handover_prompt
from benchmarks.bfcl.simulation import Simulation
from benchmarks.bfcl.task import task_of
from benchmarks.bfcl.tools import Toolbox
from benchmarks.multi_turn.conversations import MEASURED, WARM_UP
from benchmarks.multi_turn.scripts import Ask

WORKLOAD = "bfcl"  # a row's ``workload``
END_OF_TURN = "Done."
BYTES_A_TOKEN = 4  # an estimate of a golden message's length: it has to be the same for every backend
LEAST_TOKENS = 32


def replays(category: str, conversations: int | None, warm_up: int) -> list[dict[str, Any]]:
    """``warm_up`` and then ``conversations`` (None: all that are left) conversations of a category, as rows.

    Raises:
        UsageError: the package ``bfcl-eval`` is not installed, or the category has fewer conversations.
    """
    tasks = rows(category)
    wanted = len(tasks) if conversations is None else warm_up + conversations
    if wanted > len(tasks) or warm_up >= wanted:
        raise UsageError(
            f"{category} has {len(tasks)} conversations: --warmup {warm_up} and --conversations "
            f"{len(tasks) if conversations is None else conversations} are more."
        )
    parts = (WARM_UP if number < warm_up else MEASURED for number in range(wanted))
    return [{**task, "workload": WORKLOAD, "part": part} for task, part in zip(tasks, parts, strict=False)]


class GoldenReplay:
    """The script of one conversation.

    Args:
        row: a row of :func:`replays`.
        output_tokens: of every reply; None: of the golden message, at :data:`BYTES_A_TOKEN`, at least
            :data:`LEAST_TOKENS`.
    """

    def __init__(self, row: Mapping[str, Any], output_tokens: int | None) -> None:
        self._task = task_of(row)
        self._output_tokens = output_tokens
        self._tools = Toolbox(self._task)
        self._simulation = Simulation(self._task)
        self._messages: list[Message] = []
        self._turn = -1
        self._calls: list[ApiCall] = []  # golden calls of this turn that are still to be made
        self._in_turn = False
        self._step = 0
        self.tools_s = 0.0

    def next(self) -> Ask | None:
        """The conversation up to the next golden message."""
        if not self._in_turn and not self._next_turn():
            return None
        return Ask(self._messages, self._output_tokens or self._golden_tokens(), self._tools.offered)

    def _next_turn(self) -> bool:
        self._turn += 1
        if self._turn == len(self._task.question):
            return False
        handed_over = self._tools.hand_over(self._turn)
        spoken = self._task.question[self._turn]
        self._messages += [{"role": "user", "content": handover_prompt()}] if handed_over else spoken
        golden = self._task.ground_truth[self._turn]
        self._calls = [golden_call(source, self._task.involved_classes) for source in golden]
        self._in_turn = True
        return True

    async def answered(self, text: str) -> None:
        """Goes on with the golden message, and with the result of its call. ``text`` is let go."""
        self._messages.append(self._golden_message())
        if not self._calls:
            self._in_turn = False
            return
        call = self._calls.pop(0)
        since = time.perf_counter()
        told, _ = await self._simulation.call(call.name, call.arguments)
        self.tools_s += time.perf_counter() - since
        self._messages.append({"role": "tool", "tool_call_id": f"call_{self._step}", "content": told})
        self._step += 1

    def _golden_message(self) -> Message:
        if not self._calls:
            return {"role": "assistant", "content": END_OF_TURN}
        call = self._calls[0]
        function = {"name": call.name, "arguments": msgspec.json.encode(call.arguments).decode()}
        return {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"id": f"call_{self._step}", "type": "function", "function": function}],
        }

    def _golden_tokens(self) -> int:
        return max(LEAST_TOKENS, len(msgspec.json.encode(self._golden_message())) // BYTES_A_TOKEN)
