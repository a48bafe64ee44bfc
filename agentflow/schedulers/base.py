"""What a scheduler is: it starts a command n times with resources, tells each copy's state, and stops it.

It knows nothing of engines, runners or the controller. A copy is known by its name, ``<job>-<index>``; everything a
copy needs to report back travels in its environment.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self


@dataclass(frozen=True)
class Resources:
    """What one copy needs. ``memory_gb`` None: whatever there is."""

    cpus: float = 1
    gpus: int = 0
    memory_gb: float | None = None


@dataclass(frozen=True)
class Job:
    """Start ``command`` in ``copies`` copies.

    Args:
        name: unique in the run; copies are called ``<name>-<first_index + i>``.
        command: argv. Carries no secret.
        env: added to each copy's environment. ``AGENTFLOW_NAME`` is added by the scheduler: the copy's name.
        secret_env: the same, but never shown, never in argv and never in a rendered script.
        log_dir: each copy writes its output to ``<log_dir>/<copy name>.log``.
        rides_along: its copies are light and may run on nodes that another job's copies hold.
    """

    name: str
    command: Sequence[str]
    copies: int
    log_dir: Path
    resources: Resources = Resources()
    env: Mapping[str, str] = field(default_factory=dict)
    secret_env: Mapping[str, str] = field(default_factory=dict)
    first_index: int = 0
    rides_along: bool = False

    @property
    def copy_names(self) -> tuple[str, ...]:
        """Names of all copies, in order."""
        return tuple(f"{self.name}-{self.first_index + i}" for i in range(self.copies))


class State(StrEnum):
    """State of one copy."""

    PENDING = "pending"  # waiting for resources
    RUNNING = "running"
    EXITED = "exited"  # ended with exit code 0, or was stopped by us
    FAILED = "failed"  # ended by itself with another code or a signal
    GONE = "gone"  # its node or allocation is gone (preempted, node failure, cancelled from outside)


@dataclass(frozen=True)
class Copy:
    """What is known of one copy. ``reason`` is one sentence: why it is pending, or why it is dead."""

    name: str
    state: State
    reason: str = ""
    node: str = ""
    pid: int | None = None
    started_at: float | None = None


class Scheduler(Protocol):
    """Entered once a run; leaving stops every copy that still lives and leaves no process behind."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    async def start(self, job: Job) -> None:
        """Start all copies, or queue them. Raises SchedulerError when that can never work."""

    async def copies(self) -> dict[str, Copy]:
        """State of every copy ever started, by name."""

    async def stop(self, names: Sequence[str], grace_s: float = 5.0) -> None:
        """TERM, then KILL after the grace, with all descendants. Unknown or dead names are no error."""

    def render(self, job: Job) -> str:
        """What ``start`` would run, as ``--dry-run`` prints it. Pure; shows no secret."""
