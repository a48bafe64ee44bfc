"""What a runner does with the controller's messages: load agents and data, play, cancel, leave."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, nullcontext, suppress
from typing import TypeVar

import anyio
import anyio.abc

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
    Play,
    RunnerReady,
    RunnerSettings,
    Stalled,
    ToProcess,
)
from agentflow.errors import AgentflowError
from agentflow.runner.attempt import Attempt, Stop
from agentflow.runner.environment import clean
from agentflow.runner.leave import CANCELLED, Leave, abandoned, drained, held
from agentflow.runner.link import Link, Started
from agentflow.runner.main_thread import MainThread
from agentflow.runner.overseer import Overseer
from agentflow.runner.player import Player
from agentflow.runner.rows import stream_rows
from agentflow.runner.stall import StallWatch
from agentflow.runner.tasks import TaskBook

T = TypeVar("T")


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
        self._inbox: asyncio.Queue[ToProcess | Leave] = asyncio.Queue()
        self._main_thread = MainThread()
        self._tasks = TaskBook()
        self._settings = RunnerSettings()
        self._watch: StallWatch | None = None
        self._link = Link(address, self._arrive, lambda: self.leave(abandoned()))
        self._overseer = Overseer(address.name, self._link, end_process) if end_process is not None else None
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

    def _arrive(self, message: ToProcess | Leave) -> None:
        """In the I/O thread, mostly: take a message to the main thread."""
        if isinstance(message, Drain):
            message = drained(message.grace_s, self._link.started.result().settings.cancel_grace_s)
        if self._overseer is not None:
            self._overseer.heard(message)
        with suppress(RuntimeError):  # the main loop is closed: the runner has ended already
            self._loop.call_soon_threadsafe(self._inbox.put_nowait, message)

    def _prepare(self, started: Started) -> None:
        self._settings = started.settings
        cleaned = clean(os.environ, self._settings.passed_env, started.gateway.tripwire_url)
        self._secrets |= cleaned.values
        if self._overseer is None:
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
            player = Player(
                self._address.name,
                self._settings,
                started.forwarder,
                self._main_thread,
                self._tasks,
                self._watch,
                self._secrets,
            )
            if self._overseer is not None and self._watch is not None:
                self._overseer.start(player, self._watch, self._settings, self._secrets)
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
                    if self._overseer is None or self._overseer.take(message):
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
        if self._overseer is not None:
            self._overseer.forget(attempt.play.episode)
        if report is not None:
            self._link.post(report)

    async def _leave_when_stuck(self, player: Player) -> None:
        episode = await player.stuck
        self.leave(held(f"Episode {episode.id} ignored its cancellation"))

    async def _leave(self, player: Player, leave: Leave, left: asyncio.Future[Leave]) -> None:
        player.refuse(leave.reason)
        if leave.grace_s is not None:
            with anyio.move_on_after(leave.grace_s):
                await player.idle()
            player.stop(Stop(leave.ending, leave.stop_grace_s))
        await player.idle()
        if not left.done():
            left.set_result(leave)
