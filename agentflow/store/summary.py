"""``summary.json``: all metrics of a run, derived from its episodes and replaced as a whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
from anyio import to_thread

from agentflow.store.files import SUMMARY, write_atomically


async def write_summary(run_dir: Path, summary: Any) -> None:
    """Write or replace it.

    Args:
        summary: a :class:`agentflow.metrics.Summary`, or whatever else msgspec makes JSON of.

    Raises:
        StoreError: it cannot be written.
    """
    text = msgspec.json.format(msgspec.json.encode(summary), indent=2) + b"\n"
    await to_thread.run_sync(write_atomically, run_dir / SUMMARY, text)
