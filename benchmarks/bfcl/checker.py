"""The package's own checker, run in a reward process: one call at a time, nothing left behind.

It keeps API objects in module globals under a name made of model and task, and would find them there again; lists that
are default values of the APIs' functions keep what calls put into them; and it depends on mpmath's precision, which is
the process's. Hence a name of its own and fresh defaults for every verdict, and a process.
"""

from __future__ import annotations

import uuid
from typing import Any

import msgspec

from agentflow.rewards import AsyncRewardWrapper
from benchmarks.bfcl.package import package_module, restore_defaults
from benchmarks.bfcl.task import Task

VERDICT_TIMEOUT_S = 60.0

Transcript = list[list[list[str]]]  # calls as source, by turn and step; steps without calls are left out

_EVAL = "bfcl_eval.eval_checker.multi_turn_eval"


class Verdict(msgspec.Struct, frozen=True):
    """What the checker says. ``reason`` is its own name for what is wrong, without ``multi_turn:``; "" if valid."""

    valid: bool
    reason: str = ""
    message: str = ""


async def judge(task: Task, transcript: Transcript) -> Verdict:
    """The verdict on an episode.

    Raises:
        GraderError: the checker took too long, crashed or raised.
    """
    verdict: Verdict = await _judge(task, transcript)
    return verdict


def verdict_on(task: Task, transcript: Transcript) -> Verdict:
    """The same, here and now: for a reward process, or a test."""
    check = package_module(f"{_EVAL}.multi_turn_checker").multi_turn_checker
    for api in task.involved_classes:
        restore_defaults(api)
    tag = f"agentflow_{uuid.uuid4().hex}"
    entry = {"id": task.id, "initial_config": task.initial_config, "involved_classes": task.involved_classes}
    try:
        said: dict[str, Any] = check(transcript, task.ground_truth, entry, task.id.rpartition("_")[0], tag)
    finally:
        kept = vars(package_module(f"{_EVAL}.multi_turn_utils"))
        for name in [name for name in kept if name.startswith(tag)]:
            del kept[name]
    if said["valid"]:
        return Verdict(True)
    return Verdict(False, said["error_type"].removeprefix("multi_turn:"), said["error_message"])


_judge = AsyncRewardWrapper("benchmarks.bfcl.checker:verdict_on", timeout=VERDICT_TIMEOUT_S)
