"""The runners of a run: who is ready to play, which agents they have loaded, what became of them."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field

import anyio

from agentflow.channel.messages import (
    AgentInfo,
    AgentLoaded,
    AgentRefused,
    AgentSpec,
    DataRows,
    Drain,
    LoadAgent,
    LoadData,
    RunnerReady,
    RunnerSettings,
    SetUpRunner,
    ToController,
    WorkerInfo,
)
from agentflow.channel.messages import Workers as WorkersMessage
from agentflow.controller.control import Peer
from agentflow.controller.fleet import Fleet, Member
from agentflow.controller.retry import RunnerEnd
from agentflow.errors import AgentLoadError, DataError, RunnerError
from agentflow.schedulers.base import Job, Scheduler
from agentflow.store.status import ProcessStatus

log = logging.getLogger(__name__)

AWAY_GRACE_S = 5.0  # a runner does not come back: without its channel it ends by itself
LOAD_TIMEOUT_S = 300.0  # importing an agent with torch from a cold shared file system takes minutes


@dataclass
class _Agent:
    spec: AgentSpec
    info: AgentInfo | None = None
    refused: AgentLoadError | None = None
    answered: anyio.Event = field(default_factory=anyio.Event)


@dataclass
class _Rows:
    data: bytearray = field(default_factory=bytearray)
    error: str | None = None
    done: anyio.Event = field(default_factory=anyio.Event)


class Runners:
    """The runner fleet.

    Args:
        settings: what every runner is told.
        table: the worker table now.
        on_ready: a runner has loaded every agent known so far; called with its name and how many episodes it takes.
        on_gone: a runner is gone, how, and one sentence.
    """

    def __init__(
        self,
        settings: RunnerSettings,
        table: Callable[[], tuple[WorkerInfo, ...]],
        on_ready: Callable[[str, int], None],
        on_gone: Callable[[str, RunnerEnd, str], None],
    ) -> None:
        self._settings = settings
        self._table = table
        self._on_ready = on_ready
        self._on_gone = on_gone
        self._fleet: Fleet | None = None
        self._inline: Peer | None = None
        self._ready: dict[str, Peer] = {}
        self._loaded: dict[str, set[str]] = {}
        self._agents: dict[str, _Agent] = {}
        self._rows: _Rows | None = None
        self._some_ready = anyio.Event()

    def start_with(self, scheduler: Scheduler, job: Job, size: int) -> None:
        """Have ``size`` runner processes once :meth:`run` is entered. Without this, the runner is an inline one."""
        self._fleet = Fleet(
            "runner",
            scheduler,
            job,
            size,
            away_grace_s=AWAY_GRACE_S,
            on_gone=self._gone,
            give_up=lambda detail: RunnerError(f"Runners die as soon as they start: {detail}"),
        )

    async def run(self) -> None:
        """Keep the fleet alive until cancelled."""
        if self._fleet is not None:
            await self._fleet.run()

    async def load_agent(self, spec: AgentSpec, tell: Callable[[str], None]) -> tuple[str, AgentInfo]:
        """Have every runner load this agent; returns its key and what the first runner found.

        ``tell`` gets a sentence a minute while all runners wait in a queue.

        Raises:
            AgentLoadError: it cannot be loaded.
            RunnerError: no runner answered in time.
        """
        key = self.add_agent(spec)
        agent = self._agents[key]
        if self._fleet is not None:
            await self._fleet.until_running(tell)
        with anyio.move_on_after(LOAD_TIMEOUT_S):
            await agent.answered.wait()
        if agent.refused is not None:
            raise agent.refused
        if agent.info is None:
            raise RunnerError(f"No runner loaded the agent {spec.path or 'given'} in {LOAD_TIMEOUT_S:.0f} s.")
        return key, agent.info

    def add_agent(self, spec: AgentSpec) -> str:
        """Register an agent (the same one keeps its key) and have the ready runners load it."""
        for key, known in self._agents.items():
            if known.spec == spec:
                return key
        key = f"agent-{len(self._agents)}"
        self._agents[key] = _Agent(spec)
        for peer in self._ready.values():
            peer.post(LoadAgent(key, spec))
        return key

    def refusal(self) -> AgentLoadError | None:
        """The first agent's refusal, if any agent was refused."""
        return next((a.refused for a in self._agents.values() if a.refused is not None), None)

    async def load_rows(self, path: str, timeout_s: float) -> bytes:
        """Call ``module:function`` in a runner and return its rows as JSON lines.

        Raises:
            DataError: the function failed or took longer than ``timeout_s``.
        """
        with anyio.move_on_after(timeout_s):
            await self._some_ready.wait()
            self._rows = _Rows()
            next(iter(self._ready.values())).post(LoadData(path))
            await self._rows.done.wait()
        if self._rows is None or not self._rows.done.is_set():
            raise DataError(f"{path} gave no rows in rollout.setup_timeout = {timeout_s:.0f} s.")
        if self._rows.error is not None:
            raise DataError(self._rows.error)
        return bytes(self._rows.data)

    # --- facts pushed in by the control server ---

    def joined(self, peer: Peer) -> bool:
        """A runner said Hello: hand it its settings."""
        if self._fleet is None:
            if self._inline is not None:
                return False
            self._inline = peer
        elif self._fleet.joined(peer) is None:
            return False
        peer.post(SetUpRunner(self._settings, self._table()))
        return True

    def received(self, peer: Peer, message: ToController) -> None:
        """A runner's message about itself (not about an episode)."""
        match message:
            case RunnerReady():
                self._ready[peer.name] = peer
                self._loaded[peer.name] = set()
                self._some_ready.set()
                for key, agent in self._agents.items():
                    peer.post(LoadAgent(key, agent.spec))
            case AgentLoaded(key=key, info=info):
                agent = self._agents[key]
                agent.info = agent.info or info
                agent.answered.set()
                self._loaded[peer.name].add(key)
                if self._fleet is not None:  # what ends it from now on are its episodes, and those are counted
                    self._fleet.fruitful()
                if self._loaded[peer.name] >= self._agents.keys():
                    # A plain `def run` blocks its runner: one at a time there.
                    plays_many = all(a.info is None or a.info.is_async for a in self._agents.values())
                    self._on_ready(peer.name, self._settings.concurrency if plays_many else 1)
            case AgentRefused(key=key, error=error, traceback=traceback):
                agent = self._agents[key]
                if agent.info is None:
                    agent.refused = AgentLoadError(error)
                    agent.refused.add_note(traceback)
                    agent.answered.set()
                else:  # it loads elsewhere: this runner's node differs
                    log.error("%s cannot load the agent that others have loaded: %s", peer.name, error)
                    peer.hang_up()
            case DataRows(rows=rows, last=last, error=error) if self._rows is not None:
                self._rows.data += rows
                if error:
                    self._rows.error = error
                if last or error:
                    self._rows.done.set()
            case _:
                log.debug("%s sent an unexpected %s", peer.name, type(message).__name__)

    def left(self, peer: Peer) -> None:
        """A runner's socket closed."""
        self._forget(peer.name)
        if self._fleet is not None:
            self._fleet.left(peer)
        elif peer is self._inline:
            self._on_gone(peer.name, RunnerEnd.CRASHED, "The inline runner ended.")

    def peer(self, name: str) -> Peer | None:
        """The socket of a ready runner."""
        return self._ready.get(name)

    def status(self, episodes: Callable[[str], int]) -> list[ProcessStatus]:
        """For ``status.json``."""
        return self._fleet.status(self._ready.__contains__, episodes) if self._fleet is not None else []

    @property
    def names(self) -> list[str]:
        """All runners whose socket is open and that are set up."""
        return list(self._ready)

    def push_workers(self) -> None:
        """The table changed: tell everybody."""
        message = WorkersMessage(self._table())
        for peer in self._ready.values():
            peer.post(message)

    def drain(self, grace_s: float) -> None:
        """Have every runner end: nothing new, what plays is cancelled after the grace, then exit."""
        if self._fleet is not None:
            self._fleet.close()
        for peer in self._ready.values():
            peer.post(Drain(grace_s))

    @property
    def connected(self) -> int:
        """Runners whose socket is open and that are set up."""
        return len(self._ready)

    def _forget(self, name: str) -> None:
        if self._ready.pop(name, None) is not None and not self._ready:
            self._some_ready = anyio.Event()

    def _gone(self, member: Member, end: RunnerEnd, reason: str) -> None:
        self._forget(member.name)
        self._loaded.pop(member.name, None)
        if self._rows is not None and not self._rows.done.is_set():
            self._rows.error = f"The runner died while it made the rows of the data set: {reason}"
            self._rows.done.set()
        # One that said goodbye was replaced on purpose (an episode in it would not end): nobody else's fault.
        self._on_gone(member.name, RunnerEnd.REPLACED if member.goodbye is not None else end, reason)
