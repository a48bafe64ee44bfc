"""The last word on what the main thread does not end: it is blocked, or never gets to it.

A plain ``def run`` cannot be cancelled, nor can a coroutine that does not give the loop back. From the I/O thread the
overseer looks at every attempt about once a second; for one that is overdue it reports the end itself, hands back
what was never started, and ends the process.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable, Iterable
from dataclasses import replace

from agentflow.agents.adapter import Ending
from agentflow.channel.messages import CancelEpisode, Goodbye, NotPlayed, Play, RunnerSettings, ToProcess
from agentflow.episode import Episode, Kind, Outcome
from agentflow.runner.attempt import Attempt
from agentflow.runner.leave import CANCELLED, Leave, held
from agentflow.runner.link import Ended, Link
from agentflow.runner.player import Player, patience_s
from agentflow.runner.stall import StallWatch

LOOK_EVERY_S = 1.0
FAREWELL_S = 10.0  # for reports and clean-up once everything has ended or was given up


def overdue(
    attempts: Iterable[Attempt],
    now: float,
    *,
    blocked_s: float = 0.0,
    blocked_by: Hashable | None = None,
    limit_s: float | None = None,
    grace_s: float = 0.0,
) -> list[tuple[Attempt, Ending]]:
    """Which attempts have to be ended from outside, and how. Pure.

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
                if attempt.door is not None:
                    attempt.door.out_of_time()
            words.append(attempt.ended(ending, runner, secrets))
    return words


class Overseer:
    """Watches over a runner process from its I/O thread.

    Args:
        end_process: ends this process at once with an exit code, from any thread.
    """

    def __init__(self, runner: str, link: Link, end_process: Callable[[int], None]) -> None:
        self._runner = runner
        self._link = link
        self._end_process = end_process
        self._settings = RunnerSettings()
        self._leaving: Leave | None = None
        self._unread: dict[Episode, Play] = {}  # received, but the main thread has not come to it yet
        self._asked_to_end: dict[Episode | None, tuple[float, Ending]] = {}  # by when, how; None: all of them
        self._done = False

    def start(self, player: Player, watch: StallWatch, settings: RunnerSettings, secrets: frozenset[str]) -> None:
        """Look at what this player plays, from now on."""
        self._settings = settings
        self._link.every(LOOK_EVERY_S, lambda: self._look(player, watch, secrets))

    def heard(self, message: ToProcess | Leave) -> None:
        """Note a message before the main thread reads it, if it ever does. In the I/O thread, or a signal handler."""
        now = time.monotonic()
        match message:
            case Play():
                self._unread[message.episode] = message
            case CancelEpisode(episode):
                self._asked_to_end[episode] = (now + patience_s(self._settings.cancel_grace_s), CANCELLED)
            case Leave(grace_s=float(grace_s)):
                self._leaving = message
                within_s = grace_s + patience_s(message.stop_grace_s)
                self._asked_to_end[None] = (now + within_s, message.ending)
                self._end_within(within_s + FAREWELL_S, message.code)

    def take(self, play: Play) -> bool:
        """The main thread starts this; False if it was handed back already."""
        return self._unread.pop(play.episode, None) is not None

    def forget(self, episode: Episode) -> None:
        """The main thread has ended this."""
        self._asked_to_end.pop(episode, None)

    def _look(self, player: Player, watch: StallWatch, secrets: frozenset[str]) -> None:
        if self._done:
            return
        limit_s, grace_s = self._settings.episode_timeout_s, self._settings.cancel_grace_s
        blocked_s, blocked_by = watch.blocked_s(), watch.blocked_by()
        playing = list(player.playing.values())
        for attempt in playing:
            for asked in (attempt.play.episode, None):
                if asked in self._asked_to_end:
                    attempt.end_by(*self._asked_to_end[asked])
        late = overdue(
            playing, time.monotonic(), blocked_s=blocked_s, blocked_by=blocked_by, limit_s=limit_s, grace_s=grace_s
        )
        if late:
            culprits = ", ".join(attempt.play.episode.id for attempt, _ in late)
        elif limit_s is not None and blocked_s > limit_s + grace_s:
            culprits = "code outside any episode"
        else:
            return
        self._done = True
        leave = self._leaving or held(f"The main thread was held by {culprits} at {watch.where()}")
        for ended in last_words(late, runner=self._runner, secrets=secrets, where=watch.where()):
            self._link.post(ended)
        self._hand_back(playing, leave.reason)
        self._link.post(Goodbye(leave.reason))
        self._link.close(after_channel=lambda: self._end_within(0.0, leave.code))
        self._end_within(FAREWELL_S, leave.code)

    def _hand_back(self, playing: Iterable[Attempt], reason: str) -> None:
        waiting = [attempt.play.episode for attempt in playing if attempt.door is None and attempt.claim()]
        unread = [episode for episode in list(self._unread) if self._unread.pop(episode, None) is not None]
        for episode in waiting + unread:
            self._link.post(NotPlayed(episode, reason))

    def _end_within(self, seconds: float, code: int) -> None:
        """Whatever the main thread does: the process ends in so many seconds."""
        timer = threading.Timer(seconds, self._end_process, (code,))
        timer.daemon = True
        timer.start()
