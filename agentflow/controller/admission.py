"""How many episodes may play at once.

A state machine without task, client or clock: facts are pushed in (heartbeats, 429s), a cap is read out. With a fixed
number the cap is that number. With ``auto`` it grows while the workers' own metrics show room and backs off when they
queue, as TCP does: doubling until the first sign of queueing, then one step up at a time and a fraction down. Endpoints
of others tell nothing of their load but 429s: there it grows to a number that most take.
"""

from __future__ import annotations

from collections.abc import Mapping

from agentflow.channel.messages import EngineLoad

START_A_WORKER = 8  # enough to see whether a batch of this size queues, too few to hurt a small engine
MAX_A_WORKER = 512  # engines of today batch 256 to 512 sequences; more only queue
UNSEEN_A_WORKER = 64  # of an endpoint without metrics: enough to batch well; who knows that it takes more says so
STEP_S = 5.0  # a change needs this long to show in the workers' counters
FULL_KV = 0.85  # above this, engines start to preempt
QUEUE_SHARE = 0.1  # waiting / running from which a queue is more than the jitter of arrivals
BACKOFF = 0.75


class Admission:
    """The cap on episodes in flight.

    Args:
        limit: ``rollout.max_concurrent_rollouts``; None means auto.
    """

    def __init__(self, limit: int | None) -> None:
        self._limit = limit
        self._cap = float(limit if limit is not None else START_A_WORKER)
        self._probing = True
        self._workers = 1
        self._last_change = -STEP_S
        self._preemptions: dict[str, int] = {}
        self._paused_until = 0.0

    def cap(self, now: float) -> int:
        """Episodes that may be in flight at this time (seconds of any monotonic clock). 0 while told to wait."""
        return 0 if now < self._paused_until else max(1, int(self._cap))

    @property
    def resumes_at(self) -> float:
        """When a pause asked for by a worker ends."""
        return self._paused_until

    def set_workers(self, count: int) -> None:
        """Workers that are healthy now; an automatic cap starts in proportion and never exceeds their sum."""
        if self._limit is None and count:
            if self._probing:
                self._cap = max(self._cap, float(START_A_WORKER * count))
            self._cap = min(self._cap, float(MAX_A_WORKER * count))
        self._workers = max(1, count)

    def backpressure(self, retry_after_s: float | None, now: float) -> None:
        """A worker answered 429: shrink (auto) and start nothing new for as long as it asked."""
        self._paused_until = max(self._paused_until, now + (retry_after_s or 0.0))
        if self._limit is None:
            self._shrink(now)

    def observe(self, loads: Mapping[str, EngineLoad], in_flight: int, now: float) -> None:
        """Look at the workers' latest heartbeats; at most one change every STEP_S. Without any: endpoints of others."""
        preempted = self._count_preemptions(loads)
        if self._limit is not None or now - self._last_change < STEP_S:
            return
        waiting = sum(load.waiting or 0 for load in loads.values())
        running = sum(load.running or 0 for load in loads.values())
        kv = max((load.kv_usage or 0.0 for load in loads.values()), default=0.0)
        if preempted or kv > FULL_KV or waiting > QUEUE_SHARE * max(running, 1):
            self._shrink(now)
        elif in_flight >= self._cap * 0.9:  # only a cap that is used has shown that there is room
            step = self._cap if self._probing else float(self._workers)
            most = float((MAX_A_WORKER if loads else UNSEEN_A_WORKER) * self._workers)
            self._cap = max(self._cap, min(self._cap + step, most))
            self._last_change = now

    def _shrink(self, now: float) -> None:
        if now - self._last_change >= STEP_S:
            self._probing = False
            self._cap = max(self._cap * BACKOFF, 1.0)
            self._last_change = now

    def _count_preemptions(self, loads: Mapping[str, EngineLoad]) -> int:
        new = 0
        for name, load in loads.items():
            if load.preemptions is not None:
                new += max(0, load.preemptions - self._preemptions.get(name, load.preemptions))
                self._preemptions[name] = load.preemptions
        return new
