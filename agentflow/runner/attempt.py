"""One attempt while it is played: what it was asked to do, how long it took, and who may report its end."""

from __future__ import annotations

import asyncio
import threading
import time
from dataclasses import dataclass

from agentflow.agents.adapter import Ending
from agentflow.agents.masking import mask
from agentflow.channel.messages import EpisodeEnded, Play
from agentflow.episode import EpisodeResult, Outcome, usage_by_role
from agentflow.runner.door import EpisodeDoor
from agentflow.runner.environment import EpisodeScope
from agentflow.runner.link import Ended
from agentflow.runner.stall import StallWatch

MOST_CALLS_IN_RESULT = 20_000  # a result has to fit a frame of the channel; the trace holds all calls


@dataclass(frozen=True)
class Stop:
    """An attempt is to end now: with this ending, whatever ``run()`` makes of the cancellation within ``grace_s``."""

    ending: Ending
    grace_s: float


class Attempt:
    """An attempt that is being played, or waits for its turn (then it has no door yet).

    Its end is reported once, by whoever gets to :meth:`claim` it: the player, or the overseer in another thread.
    """

    def __init__(self, play: Play, stop: asyncio.Future[Stop]) -> None:
        self.play = play
        self.stop = stop
        self.door: EpisodeDoor | None = None
        self.must_end: tuple[float, Ending] | None = None  # monotonic time from which the overseer ends it, and how
        self.warnings: list[str] = []
        self._watch: StallWatch | None = None
        self._claimed = threading.Lock()

    def start(self, door: EpisodeDoor, watch: StallWatch | None) -> None:
        """Its turn has come."""
        self.door = door
        self.scope = EpisodeScope(self.play.episode.id, door.base_url, door.api_key)
        self.started_at = time.time()
        self._began = time.monotonic()
        self._watch = watch
        self._watch_began = watch.now() if watch is not None else 0.0

    def is_scope(self, scope: object) -> bool:
        """True if this attempt plays under that scope."""
        return self.door is not None and self.scope == scope

    def spent_s(self) -> float:
        """What counts against its timeout: the time since its start, without stalls that others caused."""
        if self._watch is None:
            return time.monotonic() - self._began
        return self._watch.now() - self._watch_began + self._watch.caused_s(self.scope)

    def wall_s(self) -> float:
        """Seconds since its start."""
        return time.monotonic() - self._began

    def end_by(self, at: float, ending: Ending) -> None:
        """Let the overseer end it so, if nothing else has at that monotonic time. An earlier deadline stays."""
        if self.must_end is None or at < self.must_end[0]:
            self.must_end = (at, ending)

    def claim(self) -> bool:
        """True for the first who asks."""
        return self._claimed.acquire(blocking=False)

    def ended(self, ending: Ending, runner: str, secrets: frozenset[str]) -> Ended:
        """The report of its end. What the doors decided (an unreachable worker) wins over what ``run()`` returned."""
        door, episode = self.door, self.play.episode
        if door is not None and door.verdict is not None and ending.outcome is not Outcome.CANCELLED:
            ending = Ending(door.verdict.outcome, door.verdict.kind, error=door.verdict.message)
        calls = tuple(door.calls) if door is not None else ()
        warnings = [*self.warnings, *(door.warnings if door is not None else ())]
        if ending.outcome is Outcome.SCORED and not calls:
            warnings.append(
                "Scored without a single call to a model: does the agent use base_url, or the http_client it is given?"
            )
        if len(calls) > MOST_CALLS_IN_RESULT:
            warnings.append(f"Only {MOST_CALLS_IN_RESULT} of {len(calls)} calls are listed here; the trace has all.")

        def hide(text: str) -> str:
            return mask(text if door is None else door.redact(text), secrets)

        result = EpisodeResult(
            item_id=episode.item_id,
            sample_index=episode.sample_index,
            attempt=episode.attempt,
            outcome=ending.outcome,
            kind=ending.kind,
            reward=ending.reward,
            metrics=dict(ending.metrics),
            call_rewards=dict(ending.call_rewards),
            error=hide(ending.error),
            traceback=hide(ending.traceback),
            started_at=self.started_at if door is not None else time.time(),
            wall_s=self.wall_s() if door is not None else 0.0,
            runner=runner,
            worker=self.play.worker,
            calls=calls[:MOST_CALLS_IN_RESULT],
            usage=usage_by_role(calls),
            warnings=tuple(hide(w) for w in warnings),
        )
        return Ended(EpisodeEnded(episode, result, fatal=ending.fatal), door.trace() if door is not None else ())
