"""What becomes of an attempt that was lost: try it again, try it alone, or let it count.

Pure: facts in, a decision out. A runner that dies takes all its episodes with it, and one of them may be the cause. So
whoever was on two dead runners is played alone, and only a death there is held against the episode itself.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

import msgspec

from agentflow.episode import EpisodeResult, Kind, Outcome

CRASHES_BEFORE_ALONE = 2  # one death is bad luck, a second beside other company is a suspicion


class RunnerEnd(StrEnum):
    """Why a runner is gone, as far as its episodes are concerned."""

    CRASHED = "crashed"  # it died by itself: one of its episodes may have done it
    NODE = "node"  # its node or allocation went away: never held against an episode
    REPLACED = "replaced"  # drained and replaced by us, because of another episode that did not end


@dataclass(frozen=True)
class History:
    """What an episode went through so far: lost attempts, and runner crashes it was present at."""

    lost: int = 0
    crashes: int = 0
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
    if end is RunnerEnd.CRASHED:
        if history.alone:
            sentence = f"The runner died while this episode played alone in it, for the third time. {result.error}"
            crash = msgspec.structs.replace(
                result, outcome=Outcome.FAILED, kind=Kind.RUNNER_CRASH, error=sentence.strip()
            )
            return Verdict(crash, again=False, history=history)
        crashes = history.crashes + 1
        after = replace(history, crashes=crashes, alone=crashes >= CRASHES_BEFORE_ALONE)
        return Verdict(msgspec.structs.replace(result, final=False), again=True, history=after)
    if end is RunnerEnd.REPLACED:
        # Bounded by the number of replaced runners, each of which ends an episode for good.
        return Verdict(msgspec.structs.replace(result, final=False), again=True, history=history)
    after = replace(history, lost=history.lost + 1)
    again = after.lost <= lost_retries
    return Verdict(msgspec.structs.replace(result, final=not again), again=again, history=after)
