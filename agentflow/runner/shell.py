"""What a runner does with the controller's messages: load agents and data, play, cancel, leave."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from typing import TypeVar

import anyio
import anyio.abc

from agentflow.agents.adapter import Ending
from agentflow.agents.failures import render, said
from agentflow.agents.loader import LoadedAgent, check_agent, import_agent
from agentflow.agents.masking import mask
from agentflow.channel.client import Address
from agentflow.channel.messages import (
    AgentLoaded,
    AgentRefused,
    CancelEpisode,
    DataRows,
    Drain,
    Goodbye,
    LoadAgent,
    LoadData,
    NotPlayed,
    Play,
    RunnerReady,
    RunnerSettings,
    Stalled,
    ToProcess,
)
from agentflow.episode import Episode, Kind, Outcome
from agentflow.errors import AgentflowError
from agentflow.runner.attempt import Attempt, Stop
from agentflow.runner.environment import clean
from agentflow.runner.link import Link, Started
from agentflow.runner.main_thread import MainThread
from agentflow.runner.overseer import LOOK_EVERY_S, last_words, overdue, patience_s
from agentflow.runner.player import Player
from agentflow.runner.rows import stream_rows
from agentflow.runner.stall import StallWatch
from agentflow.runner.tasks import TaskBook

EXIT_OK = 0
EXIT_CHANNEL = 74  # os.EX_IOERR: the controller cannot be reached, or is gone
EXIT_REPLACE = 75  # os.EX_TEMPFAIL: user code holds on to this process; start another

CANCELLED = Ending(Outcome.CANCELLED, error="Cancelled.")
LOST_WITH_RUNNER = Ending(Outcome.LOST, Kind.RUNNER_DIED, error="Its runner was told to end while it was playing.")

HURRY_S = 2.0  # between cancelling episodes and giving them up, when nobody waits for a runner's niceties
FAREWELL_S = 10.0  # for reports and clean-up once everything has ended or was given up


T = TypeVar("T")


@dataclass(frozen=True)
class Leave:
    """The runner is to end: start nothing, stop what plays after ``grace_s`` (None: wait for its own end), report, go.

    Args:
        ending: of the episodes that have to be stopped.
        stop_grace_s: between their cancellation and giving them up.
    """

    code: int
    reason: str
    ending: Ending
    grace_s: float | None
    stop_grace_s: float


class Shell:
    """One runner.

    Args:
        loop: the main thread's, on which :meth:`run` will run.
        end_process: ends this process at once with an exit code, from any thread, when user code does not let go of
            it. None: the process is not ours to end (inline), so nothing here has a timeout.
    """

    def __init__(
        self, address: Address, loop: asyncio.AbstractEventLoop, end_process: Callable[[int], None] | None
    ) -> None:
        self._address = address
        self._loop = loop
        self._end_process = end_process
        self._inbox: asyncio.Queue[ToProcess | Leave] = asyncio.Queue()
        self._main_thread = MainThread()
        self._tasks = TaskBook()
        self._settings = RunnerSettings()
        self._watch: StallWatch | None = None
        self._player: Player | None = None
        self._link = Link(address, self._arrive, self._closed)
        self._leaving: Leave | None = None
        self._unread: dict[Episode, Play] = {}  # received, but the main thread has not come to it yet
        self._asked_to_end: dict[Episode | None, tuple[float, Ending]] = {}  # by when, how; None: all of them
        self._last_words_said = False
        self._secrets: frozenset[str] = frozenset({address.token})

    async def run(self) -> int:
        """Connect, serve the controller, and return the exit code.

        Raises:
            ChannelClosedError, RunnerError: the runner never came up.
        """
        self._link.start()
        try:
            started = await asyncio.wrap_future(self._link.started)
            self._prepare(started)
            leave = await self._serve(started)
            await started.forwarder.aclose()
            self._link.post(Goodbye(leave.reason))
        finally:
            self._link.close()
        await asyncio.wrap_future(self._link.finished)
        return leave.code

    def leave(self, leave: Leave) -> None:
        """Make the runner end. From any thread, or from a signal handler."""
        self._arrive(leave)

    def finish(self) -> None:
        """Leave now, because whoever started the runner is done with it."""
        self.leave(Leave(EXIT_OK, "The runner's block ended.", CANCELLED, 0.0, self._settings.cancel_grace_s))

    def terminate(self) -> None:
        """Leave because the scheduler said so (SIGTERM): episodes that play are lost, not cancelled."""
        self.leave(Leave(EXIT_OK, "The runner was terminated (SIGTERM).", LOST_WITH_RUNNER, 0.0, HURRY_S))

    # --- in the I/O thread ---------------------------------------------------------------------------------------

    def _arrive(self, message: ToProcess | Leave) -> None:
        if isinstance(message, Drain):
            stop_grace_s = self._link.started.result().settings.cancel_grace_s
            message = Leave(EXIT_OK, "Drained.", CANCELLED, message.grace_s, stop_grace_s)
        if isinstance(message, Play):
            self._unread[message.episode] = message
        self._forewarn(message)
        self._loop.call_soon_threadsafe(self._inbox.put_nowait, message)

    def _closed(self) -> None:
        self._arrive(Leave(EXIT_CHANNEL, "The controller is gone.", LOST_WITH_RUNNER, 0.0, HURRY_S))

    def _forewarn(self, message: ToProcess | Leave) -> None:
        """Set the deadlines that hold even if the main thread never reads the message."""
        if self._end_process is None:
            return
        now = time.monotonic()
        if isinstance(message, CancelEpisode):
            self._asked_to_end[message.episode] = (now + patience_s(self._settings.cancel_grace_s), CANCELLED)
        elif isinstance(message, Leave):
            self._leaving = message
            if message.grace_s is not None:
                within_s = message.grace_s + patience_s(message.stop_grace_s)
                self._asked_to_end[None] = (now + within_s, message.ending)
                self._end_within(within_s + FAREWELL_S, message.code)

    def _look(self) -> None:
        """End attempts that the main thread does not end, and this process with them."""
        watch, player = self._watch, self._player
        if watch is None or player is None or self._last_words_said:
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
            held_by = ", ".join(attempt.play.episode.id for attempt, _ in late)
        elif limit_s is not None and blocked_s > limit_s + grace_s:
            held_by = "code outside any episode"
        else:
            return
        self._last_words_said = True
        leave = self._leaving or Leave(
            EXIT_REPLACE, f"The main thread was held by {held_by}.", LOST_WITH_RUNNER, None, grace_s
        )
        for ended in last_words(late, runner=self._address.name, secrets=self._secrets, where=watch.where()):
            self._link.post(ended)
        waiting = [attempt.play.episode for attempt in playing if attempt.door is None and attempt.claim()]
        for episode in [*waiting, *(e for e in list(self._unread) if self._unread.pop(e, None) is not None)]:
            self._link.post(NotPlayed(episode, leave.reason))
        self._link.post(Goodbye(leave.reason))
        self._link.close(after_channel=lambda: self._end_within(0.0, leave.code))
        self._end_within(FAREWELL_S, leave.code)

    def _end_within(self, seconds: float, code: int) -> None:
        """Whatever the main thread does: the process ends in so many seconds."""
        if self._end_process is not None:
            timer = threading.Timer(seconds, self._end_process, (code,))
            timer.daemon = True
            timer.start()

    # --- on the main thread --------------------------------------------------------------------------------------

    def _prepare(self, started: Started) -> None:
        self._settings = started.settings
        cleaned = clean(os.environ, self._settings.passed_env, started.gateway.tripwire_url)
        self._secrets |= cleaned.values
        if self._end_process is None:
            return
        if cleaned.removed:
            print(f"Kept from agents (rollout.pass_env passes them on): {', '.join(cleaned.removed)}", file=sys.stderr)
        threads = max(32, self._settings.concurrency)  # sync tools and SQLiteSession: about one an episode
        self._watch = StallWatch(
            self._settings.stall_s,
            report=lambda seconds, where: self._link.post(Stalled(seconds, mask(where, self._secrets))),
            holder=lambda: self._tasks.owner(asyncio.current_task(self._loop)),
        )
        self._loop.set_default_executor(ThreadPoolExecutor(threads, thread_name_prefix="agent"))

    async def _serve(self, started: Started) -> Leave:
        """Answer messages until one of them, or an agent that does not let go, makes the runner leave."""
        with ExitStack() as stack:
            stack.callback(self._main_thread.close)
            stack.enter_context(self._tasks.installed())
            if self._watch is not None:
                stack.enter_context(self._watch)
                self._link.every(LOOK_EVERY_S, self._look)
            player = Player(
                self._address.name,
                self._settings,
                started.forwarder,
                self._main_thread,
                self._tasks,
                self._watch,
                self._secrets,
            )
            self._player = player
            self._link.post(RunnerReady(started.gateway.url))
            left: asyncio.Future[Leave] = self._loop.create_future()
            async with anyio.create_task_group() as group:
                group.start_soon(self._leave_when_stuck, player)
                group.start_soon(self._read, player, group, left)
                leave = await left
                group.cancel_scope.cancel()
        return leave

    async def _read(self, player: Player, group: anyio.abc.TaskGroup, left: asyncio.Future[Leave]) -> None:
        while True:
            match await self._inbox.get():
                case LoadAgent() as message:
                    await self._load(player, message)
                case LoadData() as message:
                    group.start_soon(self._send_rows, message)
                case Play() as message:
                    if self._unread.pop(message.episode, None) is not None:
                        group.start_soon(self._play, player, player.admit(message))
                case CancelEpisode(episode):
                    player.stop(Stop(CANCELLED, self._settings.cancel_grace_s), episode)
                case Leave() as leave:
                    group.start_soon(self._leave, player, leave, left)

    async def _load(self, player: Player, message: LoadAgent) -> None:
        try:
            agent = await self._load_excused(message)
        except Exception as e:  # noqa: BLE001 - user code runs on import; a sentence is owed for whatever it does
            sentence = str(e) if isinstance(e, AgentflowError) else f"{message.agent.path} cannot be loaded: {said(e)}."
            hidden = self._secrets
            self._link.post(AgentRefused(message.key, mask(sentence, hidden), mask(render(e), hidden)))
        else:
            player.agents[message.key] = agent
            self._link.post(AgentLoaded(message.key, agent.info))

    async def _load_excused(self, message: LoadAgent) -> LoadedAgent:
        imported = await self._main_thread.call(lambda: self._excused(lambda: import_agent(message.agent)))
        if imported.is_async:  # its constructor may want the running loop, as aiohttp's sessions do
            return self._excused(lambda: check_agent(imported))
        return await self._main_thread.call(lambda: self._excused(lambda: check_agent(imported)))

    def _excused(self, function: Callable[[], T]) -> T:
        with self._watch.excused() if self._watch is not None else nullcontext():
            return function()

    async def _send_rows(self, message: LoadData) -> None:
        async def send(chunk: bytes) -> None:
            await self._link.send(DataRows(chunk))

        rows = self._loop.create_task(stream_rows(message.path, message.kwargs, self._main_thread, send))
        try:
            await asyncio.wait({rows})  # not awaited itself: it runs user code, which may ignore a cancellation
        finally:
            rows.cancel()
        error = rows.exception()
        if error is None:
            self._link.post(DataRows(b"", last=True))
        else:
            sentence = str(error) if isinstance(error, AgentflowError) else f"{message.path} failed: {said(error)}."
            self._link.post(DataRows(b"", last=True, error=mask(sentence, self._secrets)))

    async def _play(self, player: Player, attempt: Attempt) -> None:
        report = await player.play(attempt)
        self._asked_to_end.pop(attempt.play.episode, None)
        if report is not None:
            self._link.post(report)

    async def _leave_when_stuck(self, player: Player) -> None:
        episode = await player.stuck
        reason = f"Episode {episode.id} ignored its cancellation, so its runner is replaced."
        self.leave(Leave(EXIT_REPLACE, reason, LOST_WITH_RUNNER, None, HURRY_S))

    async def _leave(self, player: Player, leave: Leave, left: asyncio.Future[Leave]) -> None:
        player.refuse(leave.reason)
        if leave.grace_s is not None:
            with anyio.move_on_after(leave.grace_s):
                await player.idle()
            player.stop(Stop(leave.ending, leave.stop_grace_s))
        await player.idle()
        if not left.done():
            left.set_result(leave)
