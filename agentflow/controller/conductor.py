"""The part of the controller in which its pure decisions meet the sockets.

The control server pushes facts in (a process joined, said something, left), these go to the pure parts (board,
placement, admission, submissions), and what those decide goes out again: assignments to runners, lines to the store.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import anyio
import msgspec
from anyio.abc import TaskGroup

from agentflow.channel.messages import (
    Backpressure,
    CancelEpisode,
    EpisodeEnded,
    NotPlayed,
    Play,
    Stalled,
    ToController,
    ToolSchema,
    TraceChunk,
    WorkerSuspect,
    WorkerUnreachable,
)
from agentflow.config import Config
from agentflow.controller import launch
from agentflow.controller.admission import Admission
from agentflow.controller.board import Board, Settled
from agentflow.controller.control import Peer
from agentflow.controller.notes import Notes
from agentflow.controller.placement import Placement
from agentflow.controller.retry import RunnerEnd
from agentflow.controller.runners import Runners
from agentflow.controller.submissions import Submissions
from agentflow.controller.workers import Workers
from agentflow.episode import EpisodeResult, Kind, Outcome
from agentflow.errors import AgentflowError, DataError, RewardKeyError
from agentflow.store import Store, stays
from agentflow.store.status import Ended, ProcessStatus, Status, write_status

log = logging.getLogger(__name__)
T = TypeVar("T")

STATUS_S = 5.0
TELL_PAUSE_S = 5.0  # a pause that somebody who watches would wonder about
END_MARGIN_S = 3.0  # for what follows a grace: reports, goodbyes, exits


class Conductor:
    """State of a run and all that happens to it while it is played; :class:`Controller` opens and closes it.

    Args:
        on_result: called with every line as it becomes durable (also attempts that are tried again).
        on_message: called with one sentence about something the user may want to know.
    """

    def __init__(
        self,
        config: Config,
        run_dir: Path,
        on_result: Callable[[EpisodeResult], None] | None,
        on_message: Callable[[str], None] | None,
    ) -> None:
        self.config = config
        self.run_dir = run_dir
        self._on_result = on_result or (lambda result: None)
        self._on_message = on_message or log.info
        self._placement = Placement()
        self._board = Board(self._placement, config.rollout.lost_retries)
        self._admission = Admission(launch.concurrency(config))
        self._submissions = Submissions()
        self._notes = Notes()
        self._traces: dict[tuple[str, int], list[bytes]] = {}
        self._writing = 0
        self._recorded = False
        self._interrupted = False
        self._changed = anyio.Event()
        self._failure: Exception | None = RuntimeError(
            "This controller has not begun: use 'async with Controller(...)'."
        )
        self._waiting: set[anyio.CancelScope] = set()
        self._tasks: TaskGroup
        self._store: Store
        self._workers: Workers
        self._runners: Runners

    async def finished(self) -> None:
        """Wait until nothing waits, nothing plays and everything is written (or, interrupted, until that is so)."""
        while not (self._board.idle or (self._board.closed and not self._board.in_flight)) or self._writing:
            self._raise_failure()
            await self._next_change()
        self._raise_failure()

    async def interrupt(self, grace_s: float) -> None:
        """Stop admitting, let what plays end within the grace, save it; what is left is recorded as cancelled."""
        self._interrupted = True
        self._board.close()
        for name in self._runners.names:
            peer = self._runners.peer(name)
            if peer is not None and grace_s <= 0:
                for episode in self._board.playing_on(name):
                    peer.post(CancelEpisode(episode))
        self._runners.drain(grace_s)
        with anyio.move_on_after(grace_s + END_MARGIN_S):
            while self._board.in_flight:
                await self._next_change()
        for name in self._runners.names:
            self._runner_gone(name, RunnerEnd.REPLACED, "Stopped by the user.")

    @property
    def store(self) -> Store:
        """The open run directory."""
        return self._store

    @property
    def in_flight(self) -> int:
        """Episodes playing now."""
        return self._board.in_flight

    @property
    def workers(self) -> Workers:
        """The worker table."""
        return self._workers

    # --- Receiver: what the control server pushes in ---

    def joined(self, peer: Peer) -> bool:
        """A process said Hello."""
        return self._workers.joined(peer) if peer.hello.role == "supervisor" else self._runners.joined(peer)

    async def received(self, peer: Peer, message: ToController) -> None:
        """A message of a runner or a supervisor."""
        try:
            self._take(peer, message)
        except Exception as e:  # noqa: BLE001 - not the peer's fault: raised to whoever waits for the run
            self._fail(e)
        self._notify()

    def left(self, peer: Peer) -> None:
        """A socket closed."""
        (self._workers if peer.hello.role == "supervisor" else self._runners).left(peer)
        self._notify()

    # --- inside ---

    def _take(self, peer: Peer, message: ToController) -> None:
        match message:
            case TraceChunk(episode=episode, data=data):
                self._traces.setdefault((episode.id, episode.attempt), []).append(data)
                return  # nobody waits for a piece of a trace
            case EpisodeEnded(episode=episode, result=result, fatal=fatal):
                trace = self._traces.pop((episode.id, episode.attempt), [])
                if result.outcome is Outcome.LOST and result.kind is Kind.RUNNER_DIED:  # it is about to leave
                    self._board.drain_runner(peer.name)
                settled = self._board.ended(peer.name, episode, result)
                if fatal:  # not recorded: it is still owed when the user has chosen the headline
                    self._fail(RewardKeyError(f"{result.error} {self._how_to_go_on()}"))
                elif settled is not None:
                    self._record(settled, trace)
                self._dispatch()
            case NotPlayed(episode=episode):
                self._board.drain_runner(peer.name)
                self._board.returned(peer.name, episode)
                self._dispatch()
            case ToolSchema(hash=digest, data=data):
                self._store.add_schema(digest, data)
            case Stalled():
                self._tell(self._notes.stalled(peer.name, message))
            case WorkerUnreachable(worker=worker):
                # What is being stopped, or is down, is not reached by anybody: the network is not to blame.
                if self._failure is None and self._workers.is_healthy(worker):
                    self._tell(self._notes.unreachable(peer.name, peer.hello.host, message))
            case Backpressure(worker=worker, retry_after_s=retry_after):
                now = time.monotonic()
                told = max(now, self._admission.resumes_at)
                self._admission.backpressure(retry_after, now)
                if (longer := self._admission.resumes_at - told) > TELL_PAUSE_S:
                    self._on_message(f"{worker} answered 429: nothing new starts for another {longer:.0f} s.")
            case WorkerSuspect(worker=worker, error=error):
                log.info("a call to %s failed: %s", worker, error)
                self._workers.suspect(worker)
            case _ if peer.hello.role == "supervisor":
                self._workers.received(peer, message)
            case _:
                self._runners.received(peer, message)
                if (refusal := self._runners.refusal()) is not None:
                    self._fail(refusal)

    def _how_to_go_on(self) -> str:
        if any(map(stays, self._store.results.values())):
            return "Some episodes have ended already, so begin a new run."
        key = "rollout.reward_key=NAME"
        how = f"'agentflow resume {self.run_dir} {key}'" if self._store.manifest.agent_path else f"a resume with {key}"
        return f"No episode has ended yet, so {how} goes on with this run."

    def _table_changed(self) -> None:
        workers = self._workers.placeable()
        self._placement.set_workers(workers)
        self._admission.set_workers(len(workers))
        self._runners.push_workers()
        self._dispatch()

    def _runner_ready(self, name: str, capacity: int) -> None:
        self._board.add_runner(name, capacity)
        self._dispatch()

    def _runner_gone(self, name: str, end: RunnerEnd, reason: str) -> None:
        for settled in self._board.runner_gone(name, end, reason):
            episode = settled.work.episode
            self._record(settled, self._traces.pop((episode.id, episode.attempt), []))
        self._dispatch()
        self._notify()

    def _dispatch(self) -> None:
        try:
            while (a := self._board.next(self._admission.cap(time.monotonic()))) is not None:
                peer = self._runners.peer(a.runner)
                if peer is not None:  # else its socket just closed: the fleet is about to say so
                    peer.post(Play(a.work.episode, a.work.agent, a.work.data(), a.worker))
        except DataError as e:  # the file changed under the run; no usage error any more: episodes have been played
            self._fail(AgentflowError(str(e)))

    def _record(self, settled: Settled, trace: list[bytes]) -> None:
        self._writing += 1
        self._recorded = True
        self._tasks.start_soon(self._guarded, self._write, settled, trace)

    async def _write(self, settled: Settled, trace: list[bytes]) -> None:
        try:
            result = msgspec.structs.replace(settled.result, groups=settled.work.groups)
            written = await self._store.append(result, trace)
            self._on_result(written)
            if written.final and settled.work.submission is not None:
                self._submissions.ended(settled.work.submission, written)
        finally:
            self._writing -= 1
            self._notify()

    async def _pace(self) -> None:
        """Look at the workers' load, and hand out what a pause or a grown cap has held back."""
        while True:
            await anyio.sleep(0.5)
            self._admission.observe(self._workers.loads(), self._board.in_flight, time.monotonic())
            self._dispatch()

    async def _publish_status(self) -> None:
        while True:
            workers = self._workers.status(self._placement.load)
            runners = self._runners.status(lambda name: len(self._board.playing_on(name)))
            await self._write_status((*workers, *runners))
            await anyio.sleep(STATUS_S)

    async def _write_status(self, processes: tuple[ProcessStatus, ...], ended: Ended | None = None) -> None:
        now = Status(
            at=time.time(),
            host=socket.gethostname(),
            pid=os.getpid(),
            in_flight=self._board.in_flight,
            cap=self._admission.cap(time.monotonic()),
            processes=processes,
            ended=ended,
        )
        with contextlib.suppress(OSError):  # a full disk is told by the store, which knows what it costs
            await anyio.to_thread.run_sync(write_status, self.run_dir, now)

    def _tell(self, sentence: str | None) -> None:
        if sentence is not None:
            self._on_message(sentence)

    async def _guarded(self, body: Callable[..., Any], *args: Any) -> None:
        """Run a background task whose failure is the run's."""
        try:
            await body(*args)
        except AgentflowError as e:
            self._fail(e)

    def _fail(self, error: Exception) -> None:
        # A RuntimeError says that the block is over: nobody is left to whom the error could be raised.
        if isinstance(self._failure, RuntimeError) and isinstance(error, AgentflowError):
            log.error("%s", error)
        self._failure = self._failure or error
        self._board.close()
        for scope in self._waiting:
            scope.cancel()
        self._notify()

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    async def _until_failure(self, body: Callable[..., Awaitable[T]], *args: Any) -> T:
        """Await something that a failing background task would otherwise leave waiting."""
        self._raise_failure()
        with anyio.CancelScope() as scope:
            self._waiting.add(scope)
            try:
                return await body(*args)
            finally:
                self._waiting.discard(scope)
        self._raise_failure()
        raise AssertionError("only a failure cancels this scope")

    def _notify(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()

    async def _next_change(self) -> None:
        await self._changed.wait()
