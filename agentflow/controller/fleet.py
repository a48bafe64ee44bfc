"""Keeping processes at their number: start copies through the scheduler, see them connect, replace those that die.

The same for runners and for workers' supervisors. A copy is known to be dead when the scheduler says so, or when its
socket has been closed for longer than its grace. A dead copy's name is never used again, so nothing that it still
sends can be taken for its replacement's.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import anyio

from agentflow.controller.control import Peer
from agentflow.controller.retry import RunnerEnd
from agentflow.errors import AgentflowError
from agentflow.schedulers.base import Copy, Job, Scheduler, State

log = logging.getLogger(__name__)

POLL_S = 0.5
CONNECT_DEADLINE_S = 120.0  # from a copy's start to its Hello: imports on a cold shared file system take a minute
MAX_FRUITLESS = 3  # deaths in a row without anything done in between: the next copy would die as well
WAITING_NOTICE_S = 10.0  # before a copy that waits for resources is told of
BACKOFF_S = 1.0  # doubled for every fruitless death
DRAIN_SOCKET_S = 5.0  # what a dead process had still sent is read first; a dead node's socket never says its end


@dataclass
class Member:
    """One copy, as the fleet knows it. ``peer`` is None before its Hello and after its socket closed."""

    name: str
    peer: Peer | None = None
    connected_once: bool = False
    left_at: float | None = None
    seen_running_at: float | None = None
    seen_dead_at: float | None = None
    goodbye: str | None = None
    dead: bool = False
    last_error: str = ""


class Fleet:
    """Holds ``size`` copies of a job alive.

    Args:
        kind: what they are, for messages: ``runner`` or ``worker``.
        job: template; ``copies`` and ``first_index`` are set here.
        away_grace_s: how long a copy may be without its socket before it is given up.
        on_gone: called once for every dead copy, with the kind of its end and one sentence.
        give_up: makes the error to raise when copies die faster than they do anything.
    """

    def __init__(
        self,
        kind: str,
        scheduler: Scheduler,
        job: Job,
        size: int,
        *,
        away_grace_s: float,
        on_gone: Callable[[Member, RunnerEnd, str], None],
        give_up: Callable[[str], AgentflowError],
    ) -> None:
        self.kind = kind
        self.size = size
        self.members: dict[str, Member] = {}
        self._scheduler = scheduler
        self._job = job
        self._away_grace_s = away_grace_s
        self._on_gone = on_gone
        self._give_up = give_up
        self._next_index = 0
        self._fruitless = 0
        self._not_before = 0.0
        self._wake = anyio.Event()
        self._closing = False
        self._waiting_since: float | None = None
        self._told_reason = ""
        self.started = anyio.Event()  # the first copy runs: it waits for the scheduler no more

    # --- facts pushed in ---

    def joined(self, peer: Peer) -> Member | None:
        """A process said Hello under one of our names; None turns a fenced or unknown one away."""
        member = self.members.get(peer.name)
        if member is None or member.dead or member.peer is not None:
            return None
        member.peer, member.left_at, member.connected_once = peer, None, True
        self.started.set()
        return member

    def left(self, peer: Peer) -> Member | None:
        """A peer's socket closed."""
        member = self.members.get(peer.name)
        if member is None or member.peer is not peer:
            return None
        member.peer, member.left_at = None, time.monotonic()
        if peer.said_goodbye is not None:
            member.goodbye = peer.said_goodbye.reason
        self._wake.set()
        return member

    def fruitful(self) -> None:
        """A copy did what it is for; forget earlier deaths."""
        self._fruitless = 0

    def close(self) -> None:
        """Replace nobody any more."""
        self._closing = True

    @property
    def alive(self) -> list[Member]:
        """Members that are not known to be dead."""
        return [m for m in self.members.values() if not m.dead]

    # --- the one task of a fleet ---

    async def run(self) -> None:
        """Start the copies and keep their number until cancelled; raises what ``give_up`` makes."""
        await self._start(self.size)
        while True:
            copies = await self._scheduler.copies()
            for member in self.alive:
                await self._examine(member, copies)
            self._tell_what_waits(copies)
            missing = self.size - len(self.alive)
            if missing > 0 and not self._closing and time.monotonic() >= self._not_before:
                await self._start(missing)
            self._wake = anyio.Event()
            with anyio.move_on_after(POLL_S):
                await self._wake.wait()

    async def _start(self, count: int) -> None:
        job = replace(self._job, copies=count, first_index=self._next_index)
        self._next_index += count
        for name in job.copy_names:
            self.members[name] = Member(name)
        await self._scheduler.start(job)

    async def _examine(self, member: Member, copies: Mapping[str, Copy]) -> None:
        copy = copies.get(member.name)
        now = time.monotonic()
        if copy is None or copy.state is State.PENDING:
            return
        if copy.state is not State.RUNNING:
            member.seen_dead_at = member.seen_dead_at or now
            if member.peer is not None and now - member.seen_dead_at < DRAIN_SOCKET_S:
                return
            end = RunnerEnd.NODE if copy.state is State.GONE else RunnerEnd.CRASHED
            self._bury(member, end, copy.reason or f"{member.name} is {copy.state}")
            return
        if member.seen_running_at is None:
            member.seen_running_at = now
            self.started.set()
        silent = member.peer is None and member.left_at is None
        if silent and now - member.seen_running_at > CONNECT_DEADLINE_S:
            reason = f"did not reach the controller in {CONNECT_DEADLINE_S:.0f} s"
            await self._give_up_on(member, f"{member.name} on {copy.node or 'its node'} {reason}")
        elif member.left_at is not None and now - member.left_at > self._away_grace_s:
            await self._give_up_on(member, f"{member.name} on {copy.node or 'its node'} lost its channel")

    def _tell_what_waits(self, copies: Mapping[str, Copy]) -> None:
        waiting = [c for m in self.alive if (c := copies.get(m.name)) is not None and c.state is State.PENDING]
        now = time.monotonic()
        self._waiting_since = (self._waiting_since or now) if waiting else None
        if self._waiting_since is not None and now - self._waiting_since > WAITING_NOTICE_S:
            if waiting[0].reason != self._told_reason:
                self._told_reason = waiting[0].reason
                log.warning("%d of %d %ss wait: %s", len(waiting), self.size, self.kind, waiting[0].reason)

    async def _give_up_on(self, member: Member, reason: str) -> None:
        self._bury(member, RunnerEnd.NODE, reason)
        await self._scheduler.stop([member.name])

    def _bury(self, member: Member, end: RunnerEnd, reason: str) -> None:
        member.dead = True
        if member.peer is not None:
            member.peer.hang_up()
        self._on_gone(member, end, member.last_error or reason)
        if self._closing:
            return
        log.warning("%s; starting another %s", reason, self.kind)
        if end is RunnerEnd.NODE and member.connected_once:
            return  # its node was taken away, maybe everybody's at once: no sign that the next copy would not work
        self._fruitless += 1
        self._not_before = time.monotonic() + BACKOFF_S * 2 ** (self._fruitless - 1) if self._fruitless > 1 else 0.0
        if self._fruitless >= MAX_FRUITLESS and not any(m.peer for m in self.alive):
            raise self._give_up(member.last_error or reason)
