"""What becomes of an attempt that was lost: try it again, try it alone, or let it count.

Pure: facts in, a decision out. A runner that dies takes all its episodes with it, and one of them may be the cause. So
whoever was on two dead runners is played alone, and only a death there is held against the episode itself. The same
holds for runners that had to be replaced, or were told to end: those have other causes more often, so it takes more.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

import msgspec

from agentflow.episode import EpisodeResult, Kind, Outcome

CRASHES_BEFORE_ALONE = 2  # one death is bad luck, a second beside other company is a suspicion
REPLACED_BEFORE_ALONE = 3  # mostly another episode was at fault, and that one is over; or a scheduler was


class RunnerEnd(StrEnum):
    """Why a runner is gone, as far as its episodes are concerned."""

    CRASHED = "crashed"  # it died by itself: one of its episodes may have done it
    NODE = "node"  # its node or allocation went away: never held against an episode
    REPLACED = "replaced"  # it left on purpose: something in it did not let go, mostly another episode


@dataclass(frozen=True)
class History:
    """What an episode went through so far: lost attempts, and crashes and replacements of runners it was present at."""

    lost: int = 0
    crashes: int = 0
    replaced: int = 0
    alone: bool = False


@dataclass(frozen=True)
class Verdict:
    """``result`` is what is to be written; ``again`` whether another attempt follows, with this ``history``."""

    result: EpisodeResult
    again: bool
    history: History


def settle(result: EpisodeResult, history: History, lost_retries: int, end: RunnerEnd | None = None) -> Verdict:
    """Decide over one attempt's end.

    Args:
        result: as the runner reported it, or made by the controller for a runner that is gone.
        history: of this episode before this attempt.
        lost_retries: how often a ``lost`` episode is tried again (crashes have their own rule).
        end: how the runner ended, where that is why the attempt did.
    """
    if result.outcome is not Outcome.LOST:
        return Verdict(result, again=False, history=history)
    after = replace(
        history,
        lost=history.lost + (end is None or end is RunnerEnd.NODE),
        crashes=history.crashes + (end is RunnerEnd.CRASHED),
        replaced=history.replaced + (end is RunnerEnd.REPLACED or (end is None and result.kind is Kind.RUNNER_DIED)),
    )
    suspect = after.crashes >= CRASHES_BEFORE_ALONE or after.replaced >= REPLACED_BEFORE_ALONE
    after = replace(after, alone=history.alone or suspect)
    if history.alone and end in (RunnerEnd.CRASHED, RunnerEnd.REPLACED):
        how = "died" if end is RunnerEnd.CRASHED else "had to be replaced"
        error = f"The runner {how} while this episode played alone in it, as others had before. {result.error}".strip()
        crash = msgspec.structs.replace(result, outcome=Outcome.FAILED, kind=Kind.RUNNER_CRASH, error=error)
        return Verdict(crash, again=False, history=after)
    again = after.lost <= lost_retries
    return Verdict(msgspec.structs.replace(result, final=not again), again=again, history=after)
