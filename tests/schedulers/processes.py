"""Scripts that spawn children in nasty ways, and looks at which of them still live."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import psutil

# argv: file to write pids to, one of the ways below.
FAMILY = """
import os, signal, subprocess, sys, time
def note():
    with open(sys.argv[1], "a") as f: f.write(f"{os.getpid()}\\n")
def forever():
    if "stubborn" in sys.argv: signal.signal(signal.SIGTERM, signal.SIG_IGN)
    note()
    while True: time.sleep(60)
if os.fork() == 0: forever()                       # a plain child
if os.fork() == 0:                                 # double-forked, in a session of its own: a daemon
    os.setsid()
    if os.fork() == 0: forever()
    os._exit(0)
if "leave" in sys.argv:
    while len(open(sys.argv[1]).read().split()) < 2: time.sleep(0.01)
    sys.exit(3)
forever()
"""
FAMILY_SIZE = 3


def family(pid_file: Path, *ways: str) -> list[str]:
    """A command that becomes three processes: itself, a child, and a double-forked daemon."""
    pid_file.touch()
    return [sys.executable, "-c", FAMILY, str(pid_file), *ways]


def pids(pid_file: Path, expected: int = FAMILY_SIZE, limit_s: float = 60) -> list[int]:
    """The pids of a family, once all of them are up."""
    end = time.monotonic() + limit_s
    while len(found := pid_file.read_text().split()) < expected:
        assert time.monotonic() < end, f"only {found} of {expected} processes came up"
        time.sleep(0.02)
    return [int(p) for p in found]


def alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def wait_gone(some: list[int], limit_s: float = 60) -> None:
    """Fails when one of these still lives at the limit."""
    end = time.monotonic() + limit_s
    while left := [p for p in some if alive(p)]:
        assert time.monotonic() < end, f"still alive: {[' '.join(psutil.Process(p).cmdline()) for p in left]}"
        time.sleep(0.02)


def guard_of(pid: int) -> int:
    """Pid of the guard above a command."""
    parent = psutil.Process(pid).parent()
    assert parent is not None
    assert any(a.endswith("guard.py") for a in parent.cmdline())
    return parent.pid


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, **more}
