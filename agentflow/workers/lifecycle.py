"""When an engine is up, down, hung, started again, or given up: a state machine without tasks, processes or clock.

Facts are pushed in with the time at which they were seen; decisions come back.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

STARTING_PROBE_S = 0.2  # between probes of an engine that starts: the run waits for it
FIRST_BACKOFF_S = 1.0  # doubled with every restart: whatever killed it may need a moment to pass
LONGEST_BACKOFF_S = 60.0
SETTLED_S = 600.0  # an engine that served so long starts with all its restarts again: one crash a day is no series
PORT_TRIES = 5  # a port can be lost between the search and the start, but not five times by chance


@dataclass(frozen=True)
class Up:
    """It serves. ``generation`` counts its starts from 0."""

    generation: int


@dataclass(frozen=True)
class Down:
    """It is dead or to be killed; started again after ``restart_in_s``, or given up when that is None."""

    reason: str
    restart_in_s: float | None


class _Phase(Enum):
    STARTING = auto()
    UP = auto()
    DOWN = auto()


class Lifecycle:
    """One engine's, over all its starts.

    Args:
        deadline_s: from a start to the first healthy answer.
        max_restarts: after deaths that follow each other, before it is given up.
        hang_s: probes fail and token counters stand still for so long: it is hung.
        heartbeat_s: between probes of a running engine.
    """

    def __init__(self, *, deadline_s: float, max_restarts: int, hang_s: float, heartbeat_s: float) -> None:
        self._deadline_s = deadline_s
        self._max_restarts = max_restarts
        self._hang_s = hang_s
        self._heartbeat_s = heartbeat_s
        self._phase = _Phase.DOWN
        self._generation = -1
        self._restarts = 0
        self._lost_ports = 0
        self._ever_up = False
        self._started_at = 0.0
        self._up_at = 0.0
        self._moved_at = 0.0
        self._tokens: int | None = None

    @property
    def probe_in_s(self) -> float:
        """How long to wait before the next probe."""
        return STARTING_PROBE_S if self._phase is _Phase.STARTING else self._heartbeat_s

    def started(self, now: float) -> None:
        """A process has been started."""
        self._phase = _Phase.STARTING
        self._generation += 1
        self._started_at = now
        self._tokens = None

    def probed(self, now: float, *, healthy: bool, tokens: int | None) -> Up | Down | None:
        """An answer to a probe, or none in time.

        Args:
            tokens: the sum of the engine's token counters; None when they could not be read.
        """
        if healthy or (tokens is not None and tokens != self._tokens):
            self._moved_at = now
        if tokens is not None:
            self._tokens = tokens
        if self._phase is _Phase.STARTING:
            if healthy:
                self._phase = _Phase.UP
                self._ever_up = True
                self._up_at = now
                return Up(self._generation)
            if now - self._started_at >= self._deadline_s:
                return self._down(now, f"was not healthy within {self._deadline_s:g} s of its start")
        elif self._phase is _Phase.UP and now - self._moved_at >= self._hang_s:
            return self._down(now, f"is hung: no answer and no new token for {self._hang_s:g} s")
        return None

    def exited(self, now: float, how: str, *, port_lost: bool = False) -> Down:
        """The process has ended by itself.

        Args:
            port_lost: another process has its port.
        """
        if port_lost and self._phase is _Phase.STARTING and self._lost_ports < PORT_TRIES:
            self._lost_ports += 1
            self._phase = _Phase.DOWN
            return Down("lost its port to another process while it started", 0.0)
        if self._phase is _Phase.STARTING:
            how += " before it was healthy"
        return self._down(now, how)

    def _down(self, now: float, reason: str) -> Down:
        if self._phase is _Phase.UP and now - self._up_at >= SETTLED_S:
            self._restarts = 0
        self._phase = _Phase.DOWN
        if not self._ever_up:
            return Down(reason, None)  # it will not do better the next time: a flag, a model, memory
        if self._restarts >= self._max_restarts:
            return Down(f"{reason}; it has been restarted {self._restarts} times", None)
        self._restarts += 1
        return Down(reason, min(LONGEST_BACKOFF_S, FIRST_BACKOFF_S * 2 ** (self._restarts - 1)))
