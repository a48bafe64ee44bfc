"""Schedulers start a command n times with resources, tell its state, stop it. A new one is a file and an entry here."""

from __future__ import annotations

from agentflow.config import Config
from agentflow.errors import ConfigError
from agentflow.schedulers.base import Scheduler


def make_scheduler(config: Config) -> Scheduler:
    """The scheduler that ``scheduler.type`` names; raises ConfigError where this version has none of that type."""
    if config.scheduler.type == "local":
        from agentflow.schedulers.local import LocalScheduler

        return LocalScheduler(config.cluster.n_gpus_per_node)
    if config.scheduler.type == "ray":
        from agentflow.schedulers.ray_cluster import RayScheduler

        return RayScheduler(config)
    raise ConfigError(f"scheduler.type={config.scheduler.type} is not there yet: use local.")
