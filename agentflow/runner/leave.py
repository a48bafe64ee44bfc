"""Why and how a runner ends."""

from __future__ import annotations

from dataclasses import dataclass

from agentflow.agents.adapter import Ending
from agentflow.episode import Kind, Outcome

EXIT_OK = 0
EXIT_CHANNEL = 74  # os.EX_IOERR: the controller cannot be reached, or is gone
EXIT_REPLACE = 75  # os.EX_TEMPFAIL: user code holds on to this process; start another

CANCELLED = Ending(Outcome.CANCELLED, error="Cancelled.")
LOST_WITH_RUNNER = Ending(Outcome.LOST, Kind.RUNNER_DIED, error="Its runner had to end while it was playing.")

HURRY_S = 2.0  # between cancelling episodes and giving them up, when nobody waits for a runner's niceties


@dataclass(frozen=True)
class Leave:
    """The runner is to end: start nothing, stop what plays after ``grace_s`` (None: wait for its own end), report, go.

    Args:
        code: exit code of the process.
        ending: of the episodes that have to be stopped.
        stop_grace_s: between their cancellation and giving them up.
    """

    code: int
    reason: str
    ending: Ending
    grace_s: float | None
    stop_grace_s: float


def drained(grace_s: float, stop_grace_s: float) -> Leave:
    """The controller wants the runner to end."""
    return Leave(EXIT_OK, "Drained.", CANCELLED, grace_s, stop_grace_s)


def terminated() -> Leave:
    """SIGTERM: a scheduler wants the process to end, and kills it soon. What plays is lost, not cancelled."""
    return Leave(EXIT_OK, "The runner was terminated (SIGTERM).", LOST_WITH_RUNNER, 0.0, HURRY_S)


def abandoned() -> Leave:
    """The controller is gone; nobody is there to report to."""
    return Leave(EXIT_CHANNEL, "The controller is gone.", LOST_WITH_RUNNER, 0.0, HURRY_S)


def held(by: str) -> Leave:
    """User code does not let go of the process. Other episodes may end by themselves."""
    return Leave(EXIT_REPLACE, f"{by}; the runner has to be replaced.", LOST_WITH_RUNNER, None, HURRY_S)
