"""How a controller ended, for ``status.json``. Pure."""

from __future__ import annotations

from agentflow.errors import AgentflowError, UsageError
from agentflow.store.status import Ended


def ending(error: BaseException | None, interrupted: bool, now: float) -> Ended:
    """What is to be said of a controller that is over.

    Args:
        error: with which its block was left; what is no Exception was a cancellation.
        interrupted: the user asked it to stop.
        now: Unix timestamp.
    """
    if isinstance(error, AgentflowError):
        return Ended(now, "error", str(error))
    if isinstance(error, Exception):
        return Ended(now, "error", f"{type(error).__name__}: {error}")
    if interrupted:
        return Ended(now, "user")
    return Ended(now, "caller" if error is not None else "")


def was_refused(error: BaseException | None, resumed: bool, recorded: bool) -> bool:
    """Whether a controller was refused before it did anything, so that its run still ended as it did before.

    Args:
        resumed: the run was there already.
        recorded: the end of an attempt was handed to the store.
    """
    return isinstance(error, UsageError) and resumed and not recorded
