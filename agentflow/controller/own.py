"""The user's own metrics in a summary."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import anyio
import msgspec

from agentflow.controller.background import background
from agentflow.metrics import Summary
from agentflow.metrics.functions import TIMEOUT_S, Functions, own_metrics

QUIET_S = 5.0  # that the functions may take without a word


async def with_own(
    summary: Summary,
    run_dir: Path,
    functions: Functions,
    on_message: Callable[[str], None],
    cut: anyio.CancelScope | None = None,
) -> Summary:
    """The summary with what the functions make of the stored results.

    Args:
        on_message: told what is waited for, where that takes long.
        cut: when it is cancelled, functions that are not done are left out.
    """
    if not functions:
        return summary

    async def name_the_wait() -> None:
        await anyio.sleep(QUIET_S)
        names = ", ".join((*functions.of_item, *functions.of_run))
        on_message(f"Computing {names}, which may take {TIMEOUT_S:.0f} s each.")

    async with background() as tasks:
        tasks.start_soon(name_the_wait)
        own = await own_metrics(run_dir, functions, cut=cut)
    return msgspec.structs.replace(summary, own=own)
