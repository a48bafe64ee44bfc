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
from agentflow.store.status import ProcessStatus

log = logging.getLogger(__name__)

POLL_S = 0.5
TELL_PENDING_S = 60.0
QUEUE_TIMEOUT_S = 7 * 86_400.0  # deadlines count from a job's start; its time in the queue is the cluster's affair
CONNECT_DEADLINE_S = 120.0  # from a copy's start to its Hello: imports on a cold shared file system take a minute
MAX_FRUITLESS = 3  # deaths in a row without anything done in between: the next copy would die as well
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
    node: str = ""
    started_at: float | None = None
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
        self.running = anyio.Event()
        self._pending: dict[str, str] = {}

    # --- facts pushed in ---

    def joined(self, peer: Peer) -> Member | None:
        """A process said Hello under one of our names; None turns a fenced or unknown one away."""
        member = self.members.get(peer.name)
        if member is None or member.dead or member.peer is not None:
            return None
        member.peer, member.left_at, member.connected_once = peer, None, True
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
    def pending(self) -> dict[str, str]:
        """Copies that wait for resources, with the scheduler's reason."""
        return dict(self._pending)

    def status(self, is_up: Callable[[str], bool], episodes: Callable[[str], int]) -> list[ProcessStatus]:
        """The living copies, for ``status.json``."""
        found = []
        for m in self.alive:
            away = m.left_at is not None
            state = "waiting" if m.name in self._pending else "away" if away else "up" if is_up(m.name) else "starting"
            note = self._pending.get(m.name, "")
            found.append(ProcessStatus(m.name, self.kind, state, m.node, m.started_at, episodes(m.name), note))
        return found

    @property
    def alive(self) -> list[Member]:
        """Members that are not known to be dead."""
        return [m for m in self.members.values() if not m.dead]

    # --- the one task of a fleet ---

    async def until_running(self, tell: Callable[[str], None]) -> None:
        """Wait until the first copy runs. Says every minute why none does: a queue may be long, and is nobody's fault.

        Raises:
            AgentflowError: nothing ran for QUEUE_TIMEOUT_S.
        """
        with anyio.move_on_after(QUEUE_TIMEOUT_S):
            while not self.running.is_set():
                with anyio.move_on_after(TELL_PENDING_S):
                    await self.running.wait()
                    return
                why = next((reason for reason in self._pending.values() if reason), "no reason given")
                tell(f"{len(self._pending)} {self.kind}(s) wait for resources: {why}")
            return
        raise self._give_up(f"none was started in {QUEUE_TIMEOUT_S / 86_400:.0f} days.")

    async def run(self) -> None:
        """Start the copies and keep their number until cancelled; raises what ``give_up`` makes."""
        await self._start(self.size)
        while True:
            copies = await self._scheduler.copies()
            for member in self.alive:
                await self._examine(member, copies)
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
            self._pending[member.name] = copy.reason if copy is not None else ""
            return
        self._pending.pop(member.name, None)
        if copy.state is not State.RUNNING:
            member.seen_dead_at = member.seen_dead_at or now
            if member.peer is not None and now - member.seen_dead_at < DRAIN_SOCKET_S:
                return
            end = RunnerEnd.NODE if copy.state is State.GONE else RunnerEnd.CRASHED
            self._bury(member, end, copy.reason or f"{member.name} is {copy.state}")
            return
        if member.seen_running_at is None:
            member.seen_running_at, member.node, member.started_at = now, copy.node, copy.started_at
            self.running.set()
        silent = member.peer is None and member.left_at is None
        if silent and now - member.seen_running_at > CONNECT_DEADLINE_S:
            reason = f"did not reach the controller in {CONNECT_DEADLINE_S:.0f} s"
            await self._give_up_on(member, RunnerEnd.NODE, f"{member.name} on {copy.node or 'its node'} {reason}")
        elif member.left_at is not None and now - member.left_at > self._away_grace_s:
            # The process lives, but does not speak: native code may hold its GIL for good, which is a crash to the
            # episodes in it. A network that fails looks the same; nothing fails for it before it failed three times.
            await self._give_up_on(member, RunnerEnd.CRASHED, f"{member.name} on {copy.node or 'its node'} went silent")

    async def _give_up_on(self, member: Member, end: RunnerEnd, reason: str) -> None:
        self._bury(member, end, reason)
        await self._scheduler.stop([member.name])

    def _bury(self, member: Member, end: RunnerEnd, reason: str) -> None:
        member.dead = True
        if member.peer is not None:
            member.peer.hang_up()
        if member.goodbye is not None:
            reason = f"{member.name} left: {member.goodbye}"
        reason = member.last_error or reason
        self._on_gone(member, end, reason)
        if self._closing:
            return
        log.warning("%s; starting another %s", reason, self.kind)
        if end is RunnerEnd.NODE and member.connected_once:
            return  # its node was taken away, maybe everybody's at once: no sign that the next copy would not work
        self._fruitless += 1
        self._not_before = time.monotonic() + BACKOFF_S * 2 ** (self._fruitless - 1) if self._fruitless > 1 else 0.0
        if self._fruitless >= MAX_FRUITLESS and not any(m.peer for m in self.alive):
            raise self._give_up(reason)
