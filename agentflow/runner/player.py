"""Plays episodes on the main thread: ``run()`` as an asyncio task, cancelled once when it has to end."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable
from contextlib import nullcontext
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from typing import Any

from agentflow.agents.adapter import MODEL_NAME, Ending, ending_of, episode_seed
from agentflow.agents.failures import ending_of_exception
from agentflow.agents.loader import LoadedAgent
from agentflow.agents.sources import where_suspended
from agentflow.channel.messages import NotPlayed, Play, RunnerSettings
from agentflow.episode import Episode, Kind, Outcome
from agentflow.runner.attempt import Attempt, Stop
from agentflow.runner.door import EpisodeDoor
from agentflow.runner.environment import current_scope
from agentflow.runner.forward import Forwarder
from agentflow.runner.link import Ended
from agentflow.runner.main_thread import MainThread
from agentflow.runner.stall import StallWatch
from agentflow.runner.tasks import TaskBook

ABOUT_TO_END_S = 0.1  # for tasks that run() left but that are in their last steps, as an SDK's stream readers are
LEFT_BEHIND_S = 1.0  # for the others to see their cancellation


def patience_s(grace_s: float) -> float:
    """How long others wait for an attempt that was cancelled with this grace, before they end it themselves."""
    return 2 * grace_s + 2.0


@dataclass(frozen=True)
class _Raised:
    error: BaseException


class Player:
    """Plays what it is given, side by side; agents with a plain ``def run`` one at a time.

    Args:
        name: of the runner, for results.
        watch: the loop's stall watch; None plays without timeouts and one episode at a time, for a debugger.
        secrets: values to be kept out of texts.
    """

    def __init__(
        self,
        name: str,
        settings: RunnerSettings,
        doors: Forwarder,
        main_thread: MainThread,
        tasks: TaskBook,
        watch: StallWatch | None,
        secrets: frozenset[str],
    ) -> None:
        self.agents: dict[str, LoadedAgent] = {}
        self.playing: dict[Episode, Attempt] = {}
        self.stuck: asyncio.Future[Episode] = asyncio.get_running_loop().create_future()  # ignored its cancellation
        self._name = name
        self._settings = settings
        self._doors = doors
        self._main_thread = main_thread
        self._tasks = tasks
        self._watch = watch
        self._timeout_s = settings.episode_timeout_s if watch is not None else None
        self._secrets = secrets
        self._alone = asyncio.Lock()
        self._refusal: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._idle = asyncio.Event()
        self._idle.set()

    def admit(self, play: Play) -> Attempt:
        """Take an attempt on; from now on it can be stopped. :meth:`play` has to follow."""
        attempt = Attempt(play, asyncio.get_running_loop().create_future())
        self.playing[play.episode] = attempt
        self._idle.clear()
        return attempt

    async def play(self, attempt: Attempt) -> Ended | NotPlayed | None:
        """Play it; never raises what user code raises.

        Returns:
            Its end; or that it was not started because the runner is leaving; or None when somebody else reported it.
        """
        try:
            return await self._play(attempt)
        finally:
            del self.playing[attempt.play.episode]
            if not self.playing:
                self._idle.set()

    def stop(self, stop: Stop, episode: Episode | None = None) -> None:
        """End this attempt, or all. Those that already are asked to end keep their first reason."""
        attempts = list(self.playing.values()) if episode is None else [self.playing.get(episode)]
        for attempt in attempts:
            if attempt is not None and not attempt.stop.done():
                attempt.stop.set_result(stop)

    def refuse(self, reason: str) -> None:
        """Start nothing from now on, and hand back what waits for its turn."""
        if not self._refusal.done():
            self._refusal.set_result(reason)

    async def idle(self) -> None:
        """Return when nothing plays."""
        await self._idle.wait()

    async def _play(self, attempt: Attempt) -> Ended | NotPlayed | None:
        play = attempt.play
        agent = self.agents.get(play.agent)
        if agent is None:
            sentence = f"Runner {self._name} was told to play an agent that it has not loaded ('{play.agent}')."
            return self._report(attempt, Ending(Outcome.LOST, Kind.RUNNER_DIED, error=sentence))
        alone = self._watch is None or not agent.info.is_async
        has_turn = await self._turn(attempt, alone)
        try:
            if attempt.stop.done():
                return self._report(attempt, attempt.stop.result().ending)
            if self._refusal.done():
                return NotPlayed(play.episode, self._refusal.result()) if attempt.claim() else None
            return await self._open_and_run(agent, attempt, alone)
        finally:
            if has_turn and alone:
                self._alone.release()

    async def _turn(self, attempt: Attempt, alone: bool) -> bool:
        """Wait for the turn of an episode that plays alone; False when it was told to end before."""
        if not alone:
            return True
        acquired = asyncio.ensure_future(self._alone.acquire())
        first: set[asyncio.Future[Any]] = {acquired, attempt.stop, self._refusal}
        await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
        if not acquired.done():
            acquired.cancel()
            await asyncio.wait({acquired})
        return not acquired.cancelled()

    async def _open_and_run(self, agent: LoadedAgent, attempt: Attempt, alone: bool) -> Ended | None:
        play = attempt.play
        door = self._doors.open_episode(play.episode, play.worker, agent.info.roles)
        # One that plays alone is not held up by others, and blocks the loop on purpose: all its time is its own.
        attempt.start(door, None if alone else self._watch)
        if not agent.info.is_async and self._timeout_s is not None:
            attempt.end_by(time.monotonic() + self._timeout_s, _late(self._timeout_s, ""))
        self._tasks.open(attempt.scope)
        context = copy_context()
        context.run(current_scope.set, attempt.scope)
        task = asyncio.get_running_loop().create_task(
            self._call(agent, attempt, door), name=f"episode {play.episode.id}", context=context
        )
        try:
            ending = await self._watch_over(attempt, task, alone)
            await self._cancel_left_behind(attempt, task)
        except BaseException:  # the runner itself is being cancelled (inline)
            task.cancel()
            raise
        finally:
            self._tasks.close(attempt.scope)
            if self._watch is not None:
                self._watch.forget(attempt.scope)
            self._doors.close_episode(door)
        await door.aclose_clients()
        return self._report(attempt, ending)

    def _report(self, attempt: Attempt, ending: Ending) -> Ended | None:
        return attempt.ended(ending, self._name, self._secrets) if attempt.claim() else None

    async def _watch_over(self, attempt: Attempt, task: asyncio.Task[Ending], alone: bool) -> Ending:
        """How it ends: by itself, or stopped, or in its timeout. It is cancelled once at most."""
        limit_s = self._timeout_s
        await _wait(attempt, {task, attempt.stop}, limit_s)
        if task.done() and not attempt.stop.done():
            overran = alone and limit_s is not None and attempt.spent_s() > limit_s
            return _late(limit_s, "") if overran else _result(task)
        if attempt.stop.done():
            stop = attempt.stop.result()
        else:
            if attempt.door is not None:
                attempt.door.out_of_time()
            stop = Stop(_late(limit_s, where_suspended(task.get_coro())), self._settings.cancel_grace_s)
        attempt.end_by(time.monotonic() + patience_s(stop.grace_s), stop.ending)
        task.cancel()
        await _wait(attempt, {task}, attempt.spent_s() + stop.grace_s)
        if not task.done() and not self.stuck.done():
            self.stuck.set_result(attempt.play.episode)
            # At once: what the controller sends when it hears of this end must not be started here.
            self.refuse(f"Episode {attempt.play.episode.id} ignored its cancellation; the runner has to be replaced.")
        return stop.ending

    async def _call(self, agent: LoadedAgent, attempt: Attempt, door: EpisodeDoor) -> Ending:
        try:
            value = await self._value(agent, attempt, door)
            return ending_of(value, door.calls, self._settings.reward_key)
        except GeneratorExit:
            raise
        except BaseException as e:  # noqa: BLE001 - sys.exit(), math_verify's timeouts: an episode's end, not the runner's
            return ending_of_exception(e, door.hint)

    async def _value(self, agent: LoadedAgent, attempt: Attempt, door: EpisodeDoor) -> object:
        """What ``run()`` returns, or raises."""
        offered = self._offered(agent, attempt.play.episode, door)
        if agent.info.is_async:
            result = agent.new()(attempt.play.data, **offered)
        else:
            call = partial(self._plain, agent, attempt.play.data, offered)
            result = await self._main_thread.call(call, attempt.scope)
            if isinstance(result, _Raised):
                raise result.error
        return await result if inspect.isawaitable(result) else result

    def _plain(self, agent: LoadedAgent, data: dict[str, Any], offered: dict[str, Any]) -> object:
        with self._watch.excused() if self._watch is not None else nullcontext():
            try:
                return agent.new()(data, **offered)
            except BaseException as e:  # noqa: BLE001 - nothing but an Exception may cross the loop; see MainThread
                return _Raised(e)

    def _offered(self, agent: LoadedAgent, episode: Episode, door: EpisodeDoor) -> dict[str, Any]:
        client = door.http_client if agent.info.is_async else door.sync_http_client
        makers: dict[str, Callable[[], Any]] = {
            "base_url": lambda: door.base_url,
            "http_client": client,
            "api_key": lambda: door.api_key,
            "model": lambda: MODEL_NAME,
            "seed": lambda: episode_seed(episode),
            "episode_id": lambda: episode.id,
            "sample_index": lambda: episode.sample_index,
        }
        return {name: makers[name]() for name in agent.takes}

    async def _cancel_left_behind(self, attempt: Attempt, task: asyncio.Task[Ending]) -> None:
        left = self._tasks.unfinished(attempt.scope) - {task}
        if left:
            _, left = await asyncio.wait(left, timeout=ABOUT_TO_END_S)
        if not left:
            return
        for one in left:
            one.cancel()
        _, alive = await asyncio.wait(left, timeout=LEFT_BEHIND_S)
        names = ", ".join(sorted({getattr(one.get_coro(), "__qualname__", one.get_name()) for one in left})[:5])
        attempt.warnings.append(
            f"run() ended and left {len(left)} task(s) running ({names}); they were cancelled"
            + (f", and {len(alive)} went on." if alive else ".")
        )


async def _wait(attempt: Attempt, ends: set[asyncio.Future[Any]], limit_s: float | None) -> None:
    """Return when one of ``ends`` is done or the attempt has spent ``limit_s``."""
    while not any(end.done() for end in ends):
        remaining = None if limit_s is None else limit_s - attempt.spent_s()
        if remaining is not None and remaining <= 0:
            return
        await asyncio.wait(ends, timeout=remaining, return_when=asyncio.FIRST_COMPLETED)


def _result(task: asyncio.Task[Ending]) -> Ending:
    if task.cancelled():
        return ending_of_exception(asyncio.CancelledError("run() cancelled itself"))
    error = task.exception()  # a GeneratorExit that run() raised: the one that a coroutine may not catch
    return task.result() if error is None else ending_of_exception(error)


def _late(limit_s: float | None, where: str) -> Ending:
    at = f"; it was at {where}" if where else ""
    return Ending(Outcome.FAILED, Kind.TIMEOUT, error=f"The episode did not end in {limit_s:g} s{at}.")
