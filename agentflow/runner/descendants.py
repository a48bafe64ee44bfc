"""End the child processes that agents left behind, so that none outlives its runner."""

from __future__ import annotations

import os
import signal
from collections import defaultdict
from pathlib import Path

_PROC = Path("/proc")


def descendants(pid: int) -> list[int]:
    """Ids of all living descendants, parents before children; [] where there is no /proc.

    One whose parent has ended belongs to another by then: the scheduler's guard process ends these.
    """
    children: defaultdict[int, list[int]] = defaultdict(list)
    for entry in _PROC.glob("[0-9]*"):
        try:
            stat = (entry / "stat").read_text()
        except OSError:  # ended meanwhile
            continue
        state, parent = stat.rpartition(")")[2].split()[:2]
        if state != "Z":
            children[int(parent)].append(int(entry.name))
    found = list(children[pid])
    for child in found:
        found.extend(children[child])
    return found


def kill_descendants() -> None:
    """SIGKILL to every descendant of this process."""
    for pid in descendants(os.getpid()):
        try:
            os.kill(pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):  # ended meanwhile, or changed its user: not ours to end
            continue
