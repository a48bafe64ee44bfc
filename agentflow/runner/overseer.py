"""The last word on attempts that the main thread does not end: it is blocked, or never gets to it.

A plain ``def run`` cannot be cancelled, nor can a coroutine that does not give the loop back. The I/O thread looks
at every attempt about once a second; for one that is overdue it reports the end itself, and the process ends.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import replace

from agentflow.agents.adapter import Ending
from agentflow.episode import Kind, Outcome
from agentflow.runner.attempt import Attempt
from agentflow.runner.link import Ended

LOOK_EVERY_S = 1.0


def patience_s(grace_s: float) -> float:
    """How long after an attempt's cancellation the overseer waits for the main thread, which gives it ``grace_s``."""
    return 2 * grace_s + 2.0


def overdue(
    attempts: Iterable[Attempt],
    now: float,
    *,
    blocked_s: float = 0.0,
    blocked_by: Hashable | None = None,
    limit_s: float | None = None,
    grace_s: float = 0.0,
) -> list[tuple[Attempt, Ending]]:
    """Which attempts have to be ended from outside, and how.

    Args:
        now: monotonic time in seconds.
        blocked_s: for how long the main thread has been blocked, by the scope ``blocked_by``.
        limit_s: the episode timeout.
        grace_s: what the blocking attempt gets beyond it.
    """
    found: list[tuple[Attempt, Ending]] = []
    for attempt in attempts:
        if attempt.must_end is not None and now >= attempt.must_end[0]:
            found.append((attempt, attempt.must_end[1]))
        elif limit_s is not None and blocked_s > 0 and attempt.is_scope(blocked_by):
            if attempt.spent_s() + blocked_s <= limit_s + grace_s:
                continue
            sentence = f"The episode did not end in {limit_s:g} s: it blocks the event loop."
            found.append((attempt, Ending(Outcome.FAILED, Kind.TIMEOUT, error=sentence)))
    return found


def last_words(
    late: Iterable[tuple[Attempt, Ending]], *, runner: str, secrets: frozenset[str], where: str
) -> list[Ended]:
    """The ends of these attempts, unless somebody else has reported them.

    Args:
        where: what the main thread is executing.
    """
    words: list[Ended] = []
    for attempt, ending in late:
        if attempt.claim():
            if ending.kind is Kind.TIMEOUT:
                ending = replace(ending, error=f"{ending.error} It is at {where}.")
            words.append(attempt.ended(ending, runner, secrets))
    return words
