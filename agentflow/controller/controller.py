"""The controller: the one process that decides and writes.

It starts workers and runners through the scheduler, hands out episodes, and records what comes back. All decisions are
made by the pure parts beside this file (board, placement, admission, retry, submissions); here they meet the sockets.
"""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import socket
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import anyio
import msgspec
from anyio.abc import TaskGroup

from agentflow.agents.spec import agent_spec
from agentflow.channel.client import Address
from agentflow.channel.messages import (
    AgentInfo,
    AgentSpec,
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
)
from agentflow.config import Config
from agentflow.controller import launch
from agentflow.controller.admission import Admission
from agentflow.controller.background import background
from agentflow.controller.board import Board, Settled, Work
from agentflow.controller.control import LOOPBACK, Peer, listen
from agentflow.controller.manifest import manifest_of
from agentflow.controller.placement import Placement
from agentflow.controller.retry import RunnerEnd
from agentflow.controller.runners import Runners
from agentflow.controller.submissions import Submissions, Submitted
from agentflow.controller.workers import Workers, existing_endpoints
from agentflow.datasets import rows_dataset
from agentflow.episode import EpisodeResult, Item, Kind, Outcome
from agentflow.errors import AgentflowError, AgentLoadError, DataError, RewardKeyError, WaitTimeoutError
from agentflow.metrics import Scoring, Summary, stats, summarize
from agentflow.schedulers import make_scheduler
from agentflow.schedulers.base import Scheduler
from agentflow.store import Manifest, Store, counted, owed
from agentflow.store.status import Status, write_status

log = logging.getLogger(__name__)
T = TypeVar("T")

WAIT_TIMEOUT_S = 7 * 24 * 3600.0  # the default of AReaL's wait()
STOP_GRACE_S = 5.0
STATUS_S = 5.0
TELL_PAUSE_S = 5.0  # a pause that somebody who watches would wonder about
HEARTBEAT_S = 60.0  # native code may hold a runner's GIL for a while; only a dead TCP connection is to be found
END_MARGIN_S = 3.0  # for what follows a grace: reports, goodbyes, exits


class Controller:
    """Runs agents over items and keeps what comes back.

    Use as an async context manager: everything that it starts has ended when the block ends.

    Args:
        config: the whole configuration.
        run_dir: where results go; ``<fileroot>/<experiment_name>/<trial_name>`` when not given.
        manifest: what ``run.json`` is to say; one is made from the configuration when not given.
        resume: continue the run in ``run_dir``.
        on_result: called with every line as it becomes durable (also attempts that are tried again).
        on_message: called with one sentence about something the user may want to know.

    Raises:
        AgentflowError: on entering, when workers, runners or the run directory cannot be had.

    Example::

        async with Controller(load_config(None, ["model=/models/qwen.gguf"])[0]) as controller:
            for row in rows:
                controller.submit(row, workflow=MathAgent, group_size=8)
            results = await controller.wait(len(rows), timeout=3600)
            print(tabulate_stats(controller.export_stats()))
    """

    def __init__(
        self,
        config: Config,
        *,
        run_dir: Path | None = None,
        manifest: Manifest | None = None,
        resume: bool = False,
        on_result: Callable[[EpisodeResult], None] | None = None,
        on_message: Callable[[str], None] | None = None,
    ) -> None:
        self.config = config
        self.run_dir = run_dir or launch.run_directory(config)
        self._manifest = manifest or manifest_of(config)
        self._resume = resume
        self._on_result = on_result or (lambda result: None)
        self._on_message = on_message or log.info
        self._placement = Placement()
        self._board = Board(self._placement, config.rollout.lost_retries)
        self._admission = Admission(launch.concurrency(config))
        self._submissions = Submissions()
        self._traces: dict[tuple[str, int], list[bytes]] = {}
        self._writing = 0
        self._changed = anyio.Event()
        self._failure: Exception | None = RuntimeError(
            "This controller has not begun: use 'async with Controller(...)'."
        )
        self._waiting: set[anyio.CancelScope] = set()
        self._stack = AsyncExitStack()
        self._tasks: TaskGroup
        self._store: Store
        self._workers: Workers
        self._runners: Runners

    # --- the block ---

    async def __aenter__(self) -> Self:
        try:
            await self._open()
        except BaseException as e:  # no cancel scope around this: those that were entered would not be left in turn
            await self._stack.__aexit__(type(e), e, e.__traceback__)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return await self._stack.__aexit__(kind, error, trace)

    async def _open(self) -> None:
        self._failure = None
        enter = self._stack.enter_async_context
        opened = Store.open(self.run_dir) if self._resume else Store.create(self.run_dir, self._manifest)
        self._store = await enter(opened)
        log_dir = self.run_dir / "logs"
        token = secrets.token_urlsafe(32)
        self._workers = Workers(await existing_endpoints(self.config), self._table_changed)
        self._runners = Runners(
            launch.runner_settings(self.config), self._workers.table, self._runner_ready, self._runner_gone
        )
        self._table_changed()
        inline = launch.runner_count(self.config) == 0
        host = self.config.cluster.controller_host or LOOPBACK
        heartbeat_s = 0.0 if inline else HEARTBEAT_S
        listening = await enter(listen(self, token, host, heartbeat_s))
        address = Address(listening.url, token, "inline", heartbeat_s)
        secret_env = address.environment()
        del secret_env["AGENTFLOW_NAME"]
        scheduler = await enter(make_scheduler(self.config))
        for note in await self._workers.start_ours(self.config, scheduler, log_dir, secret_env):
            self._on_message(note)
        if not inline:
            job = launch.runner_job(self.config, log_dir, secret_env)
            self._runners.start_with(scheduler, job, job.copies)
        self._tasks = await enter(background())
        self._stack.push_async_callback(self._stop, scheduler)
        self._tasks.start_soon(self._guarded, self._workers.run)
        self._tasks.start_soon(self._guarded, self._runners.run)
        self._tasks.start_soon(self._pace)
        self._tasks.start_soon(self._publish_status)
        if inline:
            from agentflow.runner.inline import inline_runner

            await enter(inline_runner(address))
        timeout_s = self.config.rollout.setup_timeout
        await self._until_failure(self._workers.first_healthy, timeout_s, self._on_message)

    async def _stop(self, scheduler: Scheduler) -> None:
        """Ask everything to end, give it a moment; the scheduler's own exit ends what is left."""
        self._fail(RuntimeError("The block of this controller is over."))
        with anyio.CancelScope(shield=True):
            self._runners.drain(0.0)
            self._workers.stop(STOP_GRACE_S)
            with anyio.move_on_after(END_MARGIN_S):
                while self._runners.connected or self._writing:
                    await self._next_change()
        self._tasks.cancel_scope.cancel()

    # --- the public verbs ---

    def submit(
        self,
        data: Mapping[str, Any] | Item,
        workflow: Any = None,
        workflow_kwargs: Mapping[str, Any] | None = None,
        group_size: int | None = None,
    ) -> str:
        """Queue one item; returns at once.

        Args:
            data: the row that ``run(data, ...)`` receives, or an Item.
            workflow: a class, an instance, or a dotted path; the configuration's ``eval_workflow`` or ``workflow``
                when not given.
            workflow_kwargs: for the class's constructor.
            group_size: episodes of this item; ``gconfig.n_samples`` when not given.

        Returns:
            The id under which the results come back: the row's own ``id``, else a hash of the row; ``id#2`` and so on
            for one that was submitted before. In a run that goes on, only what it owes of this item is played.

        Raises:
            DataError, AgentLoadError: the row or the agent cannot be used.
            AgentflowError: the run cannot go on.
        """
        self._raise_failure()
        item = data if isinstance(data, Item) else rows_dataset([data]).item(0)
        size = self.config.n_samples if group_size is None else group_size
        if size < 1:
            raise ValueError(f"group_size={group_size}: an item has at least one episode.")
        key = self._runners.add_agent(self.agent_spec(workflow, workflow_kwargs))
        number, item_id = self._submissions.open(item.id, size)
        debt = owed(self._store.results, [item_id], size, seed=self.config.seed)
        for sample in set(range(size)) - {episode.sample_index for episode in debt}:
            self._submissions.ended(number, self._store.results[item_id, sample])
        self._board.add(Work(episode, lambda: item.data, key, number) for episode in debt)
        self._dispatch()
        self._notify()
        return item_id

    async def wait(self, count: int | None = None, timeout: float = WAIT_TIMEOUT_S) -> list[Submitted]:
        """Wait until ``count`` submits are over, and give them back in submission order.

        Args:
            count: number of submits (not episodes); all that are outstanding when not given.
            timeout: seconds.

        Raises:
            WaitTimeoutError: fewer are over in time. Nothing is lost: wait again.
            ValueError: more than are outstanding, perhaps because another ``wait`` took some.
            AgentflowError: the run cannot go on.
        """
        wanted = self._submissions.outstanding if count is None else count
        if wanted < 0:
            raise ValueError(f"wait({wanted}): a number of submits is not negative.")
        with anyio.move_on_after(timeout):
            while True:
                self._raise_failure()
                over = self._submissions.take(wanted)
                if over is not None:
                    return over
                if wanted > (outstanding := self._submissions.outstanding):
                    raise ValueError(f"wait({wanted}) for {outstanding} outstanding submits would never end.")
                await self._next_change()
        raise WaitTimeoutError(
            f"wait({wanted}): {self._submissions.over} of {wanted} submits are over after {timeout:.0f} s; nothing is "
            "lost, call wait again."
        )

    def summary(self, item_ids: Sequence[str] = ()) -> Summary:
        """All metrics over what is stored now.

        Args:
            item_ids: the items of the run; all that there are results of when not given.
        """
        rollout, n_samples = self.config.rollout, self.config.n_samples
        scoring = Scoring(rollout.failed_reward, rollout.reward_range, n_samples, len(item_ids) or None)
        return summarize(counted(self._store.results.values(), item_ids, n_samples), scoring)

    def export_stats(self) -> dict[str, float]:
        """A flat dict of metrics: ``reward``, ``reward/stderr``, ``pass@1``, ``episodes/scored``, ..."""
        return stats(self.summary())

    # --- for the evaluation of a whole data set ---

    def agent_spec(self, workflow: Any = None, workflow_kwargs: Mapping[str, Any] | None = None) -> AgentSpec:
        """The agent that was given, else the configuration's; raises AgentLoadError where there is neither."""
        config = self.config
        agent = workflow or config.agent_path
        if agent is None:
            raise AgentLoadError("No agent: give workflow=..., or set workflow in the configuration.")
        if workflow_kwargs is None and workflow is None:
            workflow_kwargs = config.agent_kwargs
        return agent_spec(agent, workflow_kwargs)

    async def load_agent(self, spec: AgentSpec) -> tuple[str, AgentInfo]:
        """Have the runners load an agent; raises AgentLoadError when they cannot."""
        return await self._until_failure(self._runners.load_agent, spec, self._on_message)

    async def load_rows(self, path: str) -> bytes:
        """Rows of a ``module:function`` data set, made in a runner, as JSON lines."""
        return await self._until_failure(self._runners.load_rows, path, self.config.rollout.setup_timeout)

    def play(self, work: Iterable[Work]) -> None:
        """Queue episodes without a submit; :meth:`finished` waits for them."""
        self._board.add(work)
        self._dispatch()

    async def finished(self) -> None:
        """Wait until nothing waits, nothing plays and everything is written (or, interrupted, until that is so)."""
        while not (self._board.idle or (self._board.closed and not self._board.in_flight)) or self._writing:
            self._raise_failure()
            await self._next_change()
        self._raise_failure()

    async def interrupt(self, grace_s: float) -> None:
        """Stop admitting, let what plays end within the grace, save it; what is left is recorded as cancelled."""
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
                if settled is not None:
                    self._record(settled, trace)
                if fatal:
                    self._fail(RewardKeyError(result.error))
                self._dispatch()
            case NotPlayed(episode=episode):
                self._board.drain_runner(peer.name)
                self._board.returned(peer.name, episode)
                self._dispatch()
            case ToolSchema(hash=digest, data=data):
                self._store.add_schema(digest, data)
            case Stalled(seconds=seconds, where=where):
                self._on_message(f"{peer.name} was blocked for {seconds:.1f} s by {where}.")
            case Backpressure(worker=worker, retry_after_s=retry_after):
                now = time.monotonic()
                told = max(now, self._admission.resumes_at)
                self._admission.backpressure(retry_after, now)
                if (longer := self._admission.resumes_at - told) > TELL_PAUSE_S:
                    self._on_message(f"{worker} answered 429: nothing new starts for another {longer:.0f} s.")
            case WorkerSuspect(worker=worker, error=error):
                log.info("a call to %s failed: %s", worker, error)
            case _ if peer.hello.role == "supervisor":
                self._workers.received(peer, message)
            case _:
                self._runners.received(peer, message)
                if (refusal := self._runners.refusal()) is not None:
                    self._fail(refusal)

    def _table_changed(self) -> None:
        healthy = self._workers.healthy()
        self._placement.set_workers(healthy)
        self._admission.set_workers(len(healthy))
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
            now = Status(
                at=time.time(),
                host=socket.gethostname(),
                pid=os.getpid(),
                in_flight=self._board.in_flight,
                cap=self._admission.cap(time.monotonic()),
                processes=(*workers, *runners),
            )
            with contextlib.suppress(OSError):  # a full disk is told by the store, which knows what it costs
                await anyio.to_thread.run_sync(write_status, self.run_dir, now)
            await anyio.sleep(STATUS_S)

    async def _guarded(self, body: Callable[..., Any], *args: Any) -> None:
        """Run a background task whose failure is the run's."""
        try:
            await body(*args)
        except AgentflowError as e:
            self._fail(e)

    def _fail(self, error: Exception) -> None:
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
