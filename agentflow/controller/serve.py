"""Workers and a gateway without a run: one door that stays open, for trying an agent by hand."""

from __future__ import annotations

import logging
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from agentflow.channel.client import Address
from agentflow.channel.messages import ToController
from agentflow.config import Config
from agentflow.controller import launch
from agentflow.controller.background import background
from agentflow.controller.control import LOOPBACK, Peer, listen
from agentflow.controller.workers import Workers, existing_endpoints
from agentflow.episode import Episode
from agentflow.runner.door import EpisodeDoor
from agentflow.runner.forward import Forwarder
from agentflow.runner.gateway import Gateway
from agentflow.schedulers import make_scheduler

log = logging.getLogger(__name__)


class _Supervisors:
    """A receiver that knows supervisors only."""

    def __init__(self, workers: Workers) -> None:
        self._workers = workers

    def joined(self, peer: Peer) -> bool:
        return peer.hello.role == "supervisor" and self._workers.joined(peer)

    async def received(self, peer: Peer, message: ToController) -> None:
        self._workers.received(peer, message)

    def left(self, peer: Peer) -> None:
        self._workers.left(peer)


@asynccontextmanager
async def serving(config: Config) -> AsyncIterator[EpisodeDoor]:
    """Start the configured workers and a gateway; yields an open door once the first worker is healthy.

    Raises:
        AgentflowError: no worker can be had.
    """
    forwarder = Forwarder(launch.runner_settings(config), notify=lambda message: None)
    workers = Workers(await existing_endpoints(config), lambda: forwarder.set_workers(workers.table()))
    forwarder.set_workers(workers.table())
    token = secrets.token_urlsafe(32)
    with TemporaryDirectory(prefix="agentflow-serve-") as log_dir:
        async with (
            listen(
                _Supervisors(workers), token, config.cluster.controller_host or LOOPBACK, heartbeat_s=30.0
            ) as listening,
            make_scheduler(config) as scheduler,
            Gateway.serve(forwarder),
        ):
            secret_env = Address(listening.url, token, "").environment()
            del secret_env["AGENTFLOW_NAME"]
            await workers.start_ours(config, scheduler, Path(log_dir), secret_env)
            async with background() as tasks:
                tasks.start_soon(workers.run)
                await workers.first_healthy(config.rollout.setup_timeout, log.info)
                door = forwarder.open_episode(Episode("serve", 0), next(iter(workers.healthy()), ""))
                yield door
                forwarder.close_episode(door)
