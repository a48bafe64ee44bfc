"""The workers of a run: supervisors started through the scheduler, and endpoints that exist already.

Holds the worker table that runners forward by, and tells whoever listens when it changes.
"""

from __future__ import annotations

import logging
import os
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import anyio
import msgspec

from agentflow.channel.messages import (
    EngineLoad,
    Heartbeat,
    StartEngine,
    StopEngine,
    ToController,
    WorkerDown,
    WorkerInfo,
    WorkerUp,
)
from agentflow.config import Config
from agentflow.controller import launch
from agentflow.controller.control import Peer
from agentflow.controller.endpoints import Outage, Watch, hopeless, outage_text, why_away
from agentflow.controller.fleet import Fleet, Member
from agentflow.controller.retry import RunnerEnd
from agentflow.episode import DEFAULT_ROLE
from agentflow.errors import UsageError, WorkerError
from agentflow.schedulers.base import Scheduler
from agentflow.store.status import ProcessStatus
from agentflow.workers.engines import ENGINES
from agentflow.workers.external import answer_to_nothing, probe

log = logging.getLogger(__name__)

PROBE_TIMEOUT_S = 30.0
REACH_TIMEOUT_S = 10.0  # of an endpoint that answered before; a call gives up after a few times this
NO_NAME = "OPENAI_API_KEY"  # what api_key_env is when nobody set it: there may be no key then


async def existing_endpoints(config: Config) -> list[WorkerInfo]:
    """Probe the endpoints that the configuration names, for the default role and for the others.

    Raises:
        UsageError: one cannot be reached, refuses the key, or does not serve the model; or they serve several.
    """
    named = [(DEFAULT_ROLE, url, config.model, config.api_key_env) for url in config.base_url]
    for name, role in config.roles.items():
        named += [(name, url, role.model, role.api_key_env) for url in role.base_url]
    found = []
    for number, (role_name, url, model, key_env) in enumerate(named):
        if key_env != NO_NAME and key_env not in os.environ:
            raise UsageError(f"The key of {url} was to be in the environment variable {key_env}, which is not set.")
        info = await probe(url, os.environ.get(key_env, ""), model, PROBE_TIMEOUT_S, role=role_name)
        found.append(msgspec.structs.replace(info, name=f"endpoint-{number}"))
    for one, other in pairwise(found):
        if one.role == other.role and one.model != other.model:
            raise UsageError(
                f"{one.url} serves {one.model} and {other.url} serves {other.model}: one run is of one model; name it "
                "with --model, or leave an endpoint out."
            )
    return found


@dataclass
class _Worker:
    info: WorkerInfo
    node: str = ""
    pid: int | None = None
    load: EngineLoad = field(default_factory=EngineLoad)
    outage: Outage | None = None


class Workers:
    """The worker table, and the fleet behind it where the workers are ours.

    Args:
        existing: endpoints that somebody else runs; always in the table.
        on_change: called after every change of the table.
    """

    def __init__(self, existing: Sequence[WorkerInfo], on_change: Callable[[], None]) -> None:
        self._workers = {w.name: _Worker(w) for w in existing}
        self._on_change = on_change
        self._fleet: Fleet | None = None
        self._spec: StartEngine | None = None
        self._log_dir = Path()
        self._told: set[str] = set()
        self._watches: dict[str, Watch] = {}
        self._first_up = anyio.Event()
        if self.healthy():
            self._first_up.set()

    async def start_ours(
        self, config: Config, scheduler: Scheduler, log_dir: Path, secret_env: Mapping[str, str]
    ) -> tuple[str, ...]:
        """Have the workers that the configuration asks for, once :meth:`run` is entered; none with existing endpoints.

        Returns:
            A sentence for the user for each setting that was read off the model.

        Raises:
            UsageError: the model or the engine is not to be had here.
        """
        wanted = config.allocation
        if wanted is None:
            return ()
        model = await anyio.to_thread.run_sync(launch.model_of, config, wanted)
        engine = ENGINES[wanted.engine]
        asked = launch.engine_spec(config, wanted, model, api_key=secrets.token_urlsafe(32))
        spec, notes = await anyio.to_thread.run_sync(engine.complete, asked)
        if config.scheduler.type == "local":  # elsewhere the engine need not be on this machine; its supervisor checks
            engine.check(spec)
        launch.check_nodes(spec)
        self._spec = spec
        self._log_dir = log_dir
        self._fleet = Fleet(
            "worker",
            scheduler,
            launch.worker_job(wanted, config, log_dir, secret_env),
            wanted.replicas,
            away_grace_s=spec.orphan_grace_s / 2,  # replaced well before the orphan ends itself
            on_gone=self._gone,
            give_up=lambda detail: WorkerError(f"No {wanted.engine} worker stays up: {detail}"),
        )
        return notes

    async def run(self) -> None:
        """Keep the fleet alive until cancelled."""
        if self._fleet is not None:
            await self._fleet.run()

    async def look_after(self, name: str, patience_s: float, tell: Callable[[str], None]) -> None:
        """Know whether an endpoint of others can be reached, until cancelled.

        Args:
            patience_s: how long no endpoint of a role may be reached.
            tell: gets a sentence when this one is out of reach, and when it is back.

        Raises:
            WorkerError: the patience is at its end.
        """
        worker = self._workers[name]

        def changed(outage: Outage | None) -> None:
            before, worker.outage = worker.outage, outage
            self._set_healthy(name, outage is None)
            if outage is not None:
                tell(outage_text(worker.info, outage, elsewhere=self._role_is_up(worker.info.role)))
            elif before is not None:
                tell(f"{name} at {worker.info.url} is back after {time.monotonic() - before.began:.0f} s.")

        def away() -> None:
            outages = [w.outage for w in self._workers.values() if w.info.role == worker.info.role]
            if hopeless(outages, time.monotonic(), patience_s):
                raise WorkerError(
                    f"{name} at {worker.info.url} could not be reached for rollout.setup_timeout = {patience_s:.0f} s "
                    "and there is no other: resume the run once it is up, or with another base_url."
                )

        async def ask() -> str | None:
            return why_away(await answer_to_nothing(worker.info, REACH_TIMEOUT_S), usual)

        self._watches[name] = watch = Watch(ask, changed, away)
        usual = await answer_to_nothing(worker.info, REACH_TIMEOUT_S)
        await watch.run()

    async def first_healthy(self, timeout_s: float, tell: Callable[[str], None]) -> None:
        """Wait for the first healthy worker; raises WorkerError ``timeout_s`` after the first one was started.

        ``tell`` gets a sentence a minute while all of them wait in a queue.
        """
        if self._fleet is not None:
            await self._fleet.until_running(tell)
        with anyio.move_on_after(timeout_s):
            await self._first_up.wait()
            return
        raise WorkerError(
            f"No worker became healthy in rollout.setup_timeout = {timeout_s:.0f} s; see the logs in {self._log_dir}."
        )

    @property
    def model(self) -> str:
        """What the default role is served: the name that an endpoint gives it, or the file name of our workers'."""
        if self._spec is not None:
            return Path(self._spec.model).name
        return next((w.info.model for w in self._workers.values() if w.info.role == DEFAULT_ROLE), "")

    @property
    def model_path(self) -> Path | None:
        """Where the model of our workers lies, if it is a path; None with existing endpoints."""
        return None if self._spec is None else Path(self._spec.model)

    def table(self) -> tuple[WorkerInfo, ...]:
        """All workers that were ever up, healthy or not."""
        return tuple(w.info for w in self._workers.values())

    def healthy(self) -> tuple[str, ...]:
        """Names of the healthy workers of the default role: what placement chooses from."""
        return tuple(n for n, w in self._workers.items() if w.info.healthy and w.info.role == DEFAULT_ROLE)

    def placeable(self) -> tuple[str, ...]:
        """The healthy workers of the default role that may be given episodes.

        None while a role that has workers of its own has no healthy one: an episode that asks for it would be lost.
        """
        roles = {w.info.role for w in self._workers.values()}
        return self.healthy() if all(map(self._role_is_up, roles)) else ()

    def _role_is_up(self, role: str) -> bool:
        return any(w.info.healthy for w in self._workers.values() if w.info.role == role)

    def is_healthy(self, name: str) -> bool:
        """Whether this worker, of whatever role, is in the table and healthy."""
        return name in self._workers and self._workers[name].info.healthy

    def loads(self) -> dict[str, EngineLoad]:
        """Latest heartbeat of every healthy worker that sends one."""
        return {n: w.load for n, w in self._workers.items() if w.info.healthy and w.node}

    def status(self, episodes: Callable[[str], int]) -> list[ProcessStatus]:
        """For ``status.json``: our workers with their load, and the endpoints of others."""
        healthy = {n for n, w in self._workers.items() if w.info.healthy}
        ours = self._fleet.status(healthy.__contains__, episodes) if self._fleet is not None else []
        found = [msgspec.structs.replace(p, note=p.note or self._load_text(p.name)) for p in ours]
        known = {p.name for p in found}
        for name, w in self._workers.items():
            if name not in known:
                state = "up" if w.info.healthy else "down"
                note = f"since {w.outage.at}: {w.outage.reason}" if w.outage is not None else ""
                found.append(ProcessStatus(name, "endpoint", state, w.info.url, None, episodes(name), note))
        return found

    def _load_text(self, name: str) -> str:
        load = self._workers[name].load if name in self._workers else EngineLoad()
        parts = [("running", load.running), ("waiting", load.waiting)]
        texts = [f"{value} {what}" for what, value in parts if value is not None]
        if load.kv_usage is not None:
            texts.append(f"KV {load.kv_usage:.0%}")
        if load.cached_tokens is not None and load.prompt_tokens:
            texts.append(f"{load.cached_tokens / load.prompt_tokens:.0%} of prompt tokens cached")
        return ", ".join(texts)

    # --- facts pushed in by the control server ---

    def joined(self, peer: Peer) -> bool:
        """A supervisor said Hello: tell it what to start, once; one that comes back has its engine already."""
        if self._fleet is None or self._spec is None or self._fleet.joined(peer) is None:
            return False
        if peer.name not in self._told:
            self._told.add(peer.name)
            log_path = str((self._log_dir / f"{peer.name}-engine.log").absolute())  # its node has another directory
            peer.post(msgspec.structs.replace(self._spec, log_path=log_path))
        return True

    def received(self, peer: Peer, message: ToController) -> None:
        """A supervisor's message."""
        match message:
            case WorkerUp(worker=info, pid=pid, node=node):
                self._workers[peer.name] = _Worker(info, node, pid)
                self._first_up.set()
                if self._fleet is not None:
                    self._fleet.fruitful()
                self._on_change()
            case WorkerDown(error=error, log_tail=log_tail, restarting=restarting):
                log.warning("%s: %s%s", peer.name, error, " Restarting it." if restarting else "")
                if self._fleet is not None and peer.name in self._fleet.members:
                    self._fleet.members[peer.name].last_error = f"{error}\n{log_tail}".rstrip()
                self._set_healthy(peer.name, False)
            case Heartbeat(load=load) if peer.name in self._workers:
                self._workers[peer.name].load = load
            case _:
                log.debug("%s sent an unexpected %s", peer.name, type(message).__name__)

    def suspect(self, name: str) -> None:
        """A call could not reach this worker. A supervisor looks after its engine itself."""
        if name in self._watches:
            self._watches[name].suspect()

    def left(self, peer: Peer) -> None:
        """A supervisor's socket closed: nobody vouches for its engine until it comes back."""
        if self._fleet is not None and self._fleet.left(peer) is not None:
            self._set_healthy(peer.name, False)

    def stop(self, grace_s: float) -> None:
        """Ask every supervisor to stop its engine."""
        if self._fleet is not None:
            self._fleet.close()
            for member in self._fleet.alive:
                if member.peer is not None:
                    member.peer.post(StopEngine(grace_s))

    def _gone(self, member: Member, _end: RunnerEnd, _reason: str) -> None:
        self._workers.pop(member.name, None)
        self._on_change()

    def _set_healthy(self, name: str, healthy: bool) -> None:
        worker = self._workers.get(name)
        if worker is not None and worker.info.healthy is not healthy:
            worker.info = msgspec.structs.replace(worker.info, healthy=healthy)
            self._on_change()
