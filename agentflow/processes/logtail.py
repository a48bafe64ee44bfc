"""The last lines of a log file: what an error message shows of a process that died."""

from __future__ import annotations

from pathlib import Path

MAX_BYTES = 16 * 1024


def tail(path: Path, lines: int = 20, since: int = 0, max_bytes: int = MAX_BYTES) -> str:
    """The last ``lines`` lines that were written after byte ``since``; empty when the file cannot be read."""
    try:
        with path.open("rb") as f:
            end = f.seek(0, 2)
            f.seek(max(since, end - max_bytes))
            text = f.read().decode("utf-8", "replace")
    except OSError:
        return ""
    return "\n".join(text.splitlines()[-lines:])
