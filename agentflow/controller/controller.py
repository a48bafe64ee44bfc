"""The controller: the one process that decides and writes.

It starts workers and runners through the scheduler, hands out episodes, and records what comes back. All decisions are
made by the pure parts beside this file (board, placement, admission, retry, submissions); here they meet the sockets.
"""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import anyio
import msgspec

from agentflow.agents.spec import agent_spec
from agentflow.channel.client import Address
from agentflow.channel.messages import AgentInfo, AgentSpec
from agentflow.config import Config
from agentflow.controller import launch
from agentflow.controller.background import background
from agentflow.controller.board import Work
from agentflow.controller.conductor import END_MARGIN_S, Conductor
from agentflow.controller.control import LOOPBACK, listen
from agentflow.controller.ending import ending, was_refused
from agentflow.controller.manifest import manifest_of
from agentflow.controller.own import with_own
from agentflow.controller.runners import Runners
from agentflow.controller.submissions import Submitted
from agentflow.controller.workers import Workers, existing_endpoints
from agentflow.datasets import rows_dataset
from agentflow.episode import EpisodeResult, Item
from agentflow.errors import AgentLoadError, WaitTimeoutError
from agentflow.metrics import Scoring, Summary, stats, summarize
from agentflow.metrics.functions import Functions, check_functions
from agentflow.schedulers import make_scheduler
from agentflow.schedulers.base import Scheduler
from agentflow.store import Manifest, Store, counted, mixtures, owed
from agentflow.store.status import keep_status

log = logging.getLogger(__name__)

WAIT_TIMEOUT_S = 7 * 24 * 3600.0  # the default of AReaL's wait()
STOP_GRACE_S = 5.0
HEARTBEAT_S = 60.0  # native code may hold a runner's GIL for a while; only a dead TCP connection is to be found


class Controller(Conductor):
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
            print(tabulate_stats(await controller.export_stats()))
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
        super().__init__(config, run_dir or launch.run_directory(config), on_result, on_message)
        self.functions = Functions(config.item_metrics, config.run_metrics, os.getcwd())
        self._manifest = manifest or manifest_of(config)
        self._resume = resume
        self._stack = AsyncExitStack()

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
        if self.functions:
            await check_functions(self.functions)
        enter = self._stack.enter_async_context
        opened = Store.open(self.run_dir) if self._resume else Store.create(self.run_dir, self._manifest)
        self._store = await enter(opened)
        self._put_status_back = await anyio.to_thread.run_sync(keep_status, self.run_dir)
        self._stack.push_async_exit(self._say_how_it_ended)
        log_dir = self.run_dir / "logs"
        token = secrets.token_urlsafe(32)
        existing = await existing_endpoints(self.config)
        self._workers = Workers(existing, self._table_changed)
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
        patience_s = self.config.rollout.setup_timeout
        for endpoint in existing:
            self._tasks.start_soon(self._guarded, self._workers.look_after, endpoint.name, patience_s, self._on_message)
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

    async def _say_how_it_ended(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with anyio.CancelScope(shield=True):
            if was_refused(error, self._resume, self._recorded):
                with contextlib.suppress(OSError):  # the refusal is what the user has to hear of
                    await anyio.to_thread.run_sync(self._put_status_back)
                return
            await self._write_status((), ending(error, self._interrupted, time.time()))

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

    def summary(self, item_ids: Sequence[str] = (), headline: str = "") -> Summary:
        """All metrics over what is stored now, but for the user's own functions.

        Args:
            item_ids: the items of the run; all that there are results of when not given.
            headline: what the agent wants to be quoted by.
        """
        rollout, n_samples = self.config.rollout, self.config.n_samples
        scoring = Scoring(rollout.failed_reward, rollout.reward_range, n_samples, len(item_ids) or None, headline)
        summary = summarize(counted(self._store.results.values(), item_ids, n_samples), scoring)
        return msgspec.structs.replace(summary, notes=mixtures(self._store.manifest))

    async def export_stats(self) -> dict[str, float]:
        """A flat dict of metrics: ``reward``, ``reward/stderr``, ``pass@1``, ``episodes/scored``, ..."""
        return stats(await with_own(self.summary(), self.run_dir, self.functions, self._on_message))

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
