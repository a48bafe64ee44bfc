"""The board: which episodes wait, which play where, and what follows when an attempt ends.

No I/O and no clock. The controller pushes in what happened (a result, a runner gone) and asks for the next assignment.
Every attempt that was handed out comes back exactly once as a :class:`Settled`, whatever happened to its runner.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from agentflow.controller.placement import Placement
from agentflow.controller.retry import History, RunnerEnd, settle
from agentflow.episode import Episode, EpisodeResult, Kind, Outcome


@dataclass(frozen=True)
class Work:
    """An episode to be played.

    Args:
        data: gives the row when it is needed, so that a million rows need not be held.
        agent: key of the loaded agent.
        submission: the number of the submit it belongs to; None outside of submits.
        groups: values of the breakdown columns.
    """

    episode: Episode
    data: Callable[[], dict[str, Any]]
    agent: str
    submission: int | None = None
    groups: dict[str, str] = field(default_factory=dict)
    history: History = field(default_factory=History)


@dataclass(frozen=True)
class Assignment:
    """Play ``work`` on ``runner``, its calls on ``worker``."""

    work: Work
    runner: str
    worker: str


@dataclass(frozen=True)
class Settled:
    """An attempt's end: the line to write; ``result.final`` says whether the episode is over."""

    work: Work
    result: EpisodeResult


@dataclass
class _Runner:
    capacity: int
    playing: set[str] = field(default_factory=set)
    alone: bool = False
    draining: bool = False


class Board:
    """State of all episodes of a run.

    Args:
        placement: chooses the workers.
        lost_retries: how often a lost episode is tried again.
    """

    def __init__(self, placement: Placement, lost_retries: int) -> None:
        self._placement = placement
        self._lost_retries = lost_retries
        self._fresh: deque[Iterator[Work]] = deque()
        self._again: deque[Work] = deque()
        self._alone: deque[Work] = deque()
        self._playing: dict[str, Assignment] = {}
        self._runners: dict[str, _Runner] = {}
        self.stale = 0
        self.closed = False

    # --- facts pushed in ---

    def add(self, work: Iterable[Work]) -> None:
        """Queue episodes; the iterable is drawn from only as they are handed out."""
        self._fresh.append(iter(work))

    def add_runner(self, name: str, capacity: int) -> None:
        """A runner is ready for this many episodes at once; told again when it has loaded one more agent."""
        self._runners.setdefault(name, _Runner(capacity)).capacity = capacity

    def drain_runner(self, name: str) -> None:
        """Give this runner nothing new."""
        if name in self._runners:
            self._runners[name].draining = True

    def close(self) -> None:
        """Hand out nothing more, to anyone."""
        self.closed = True

    def ended(self, runner: str, episode: Episode, result: EpisodeResult) -> Settled | None:
        """A runner reported an attempt's end; None (and counted) when it is not the attempt that plays there."""
        assignment = self._playing.get(episode.id)
        if assignment is None or assignment.runner != runner or assignment.work.episode.attempt != episode.attempt:
            self.stale += 1
            return None
        return self._settle(assignment, result, None)

    def returned(self, runner: str, episode: Episode) -> None:
        """A runner that is leaving never started this attempt: another one plays it."""
        assignment = self._playing.get(episode.id)
        if assignment is None or assignment.runner != runner or assignment.work.episode != episode:
            self.stale += 1
            return
        self._take_back(assignment)
        self._again.appendleft(assignment.work)

    def runner_gone(self, name: str, end: RunnerEnd, reason: str) -> list[Settled]:
        """A runner is gone; every episode it was playing is settled."""
        runner = self._runners.pop(name, None)
        if runner is None:
            return []
        settled = []
        for episode_id in sorted(runner.playing):
            assignment = self._playing[episode_id]
            episode = assignment.work.episode
            cancelled = self.closed
            result = EpisodeResult(
                item_id=episode.item_id,
                sample_index=episode.sample_index,
                attempt=episode.attempt,
                outcome=Outcome.CANCELLED if cancelled else Outcome.LOST,
                kind=None if cancelled else Kind.RUNNER_DIED,
                error=reason,
                runner=name,
                worker=assignment.worker,
            )
            settled.append(self._settle(assignment, result, end))
        return settled

    # --- decisions read out ---

    def next(self, cap: int) -> Assignment | None:
        """The next episode to hand out, where to; None when nothing can be handed out now."""
        if self.closed or len(self._playing) >= cap:
            return None
        runner = self._freest()
        if runner is None:
            return None
        # Episodes that must play alone come last, or as soon as a runner happens to be empty.
        if self._alone and not self._runners[runner].playing:
            queue = self._alone
        elif self._again:
            queue = self._again
        else:
            return self._hand_out_fresh(runner)
        return self._hand_out(queue, runner)

    @property
    def in_flight(self) -> int:
        """Episodes playing now."""
        return len(self._playing)

    @property
    def idle(self) -> bool:
        """Nothing plays and nothing waits."""
        return not (self._playing or self._again or self._alone or self._peek_fresh())

    def playing_on(self, runner: str) -> list[Episode]:
        """What this runner plays now."""
        state = self._runners.get(runner)
        return [self._playing[i].work.episode for i in sorted(state.playing)] if state else []

    # --- inside ---

    def _freest(self) -> str | None:
        def free(name: str) -> int:
            r = self._runners[name]
            return 0 if r.draining or r.alone else r.capacity - len(r.playing)

        best = max(self._runners, key=free, default=None)
        return best if best is not None and free(best) > 0 else None

    def _peek_fresh(self) -> bool:
        while self._fresh:
            work = next(self._fresh[0], None)
            if work is not None:
                self._fresh.appendleft(iter((work,)))
                return True
            self._fresh.popleft()
        return False

    def _hand_out_fresh(self, runner: str) -> Assignment | None:
        while self._fresh:
            work = next(self._fresh[0], None)
            if work is None:
                self._fresh.popleft()
                continue
            self._again.append(work)
            return self._hand_out(self._again, runner)
        return None

    def _hand_out(self, queue: deque[Work], runner: str) -> Assignment | None:
        work = queue[0]
        worker = self._placement.place(work.episode.item_id)
        if worker is None:
            return None
        queue.popleft()
        assignment = Assignment(work, runner, worker)
        self._playing[work.episode.id] = assignment
        state = self._runners[runner]
        state.playing.add(work.episode.id)
        state.alone = work.history.alone
        return assignment

    def _settle(self, assignment: Assignment, result: EpisodeResult, end: RunnerEnd | None) -> Settled:
        work = assignment.work
        self._take_back(assignment)
        if self.closed:  # nothing is tried again any more; a resume owes what is lost
            return Settled(work, result)
        verdict = settle(result, work.history, self._lost_retries, end)
        if verdict.again:
            episode = Episode(
                work.episode.item_id, work.episode.sample_index, work.episode.attempt + 1, work.episode.seed
            )
            again = replace(work, episode=episode, history=verdict.history)
            (self._alone if again.history.alone else self._again).append(again)
        return Settled(work, verdict.result)

    def _take_back(self, assignment: Assignment) -> None:
        episode_id = assignment.work.episode.id
        del self._playing[episode_id]
        self._placement.release(assignment.worker)
        runner = self._runners.get(assignment.runner)
        if runner is not None:
            runner.playing.discard(episode_id)
            runner.alone = False
