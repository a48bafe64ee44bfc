"""Schedulers start a command n times with resources, tell its state, stop it. A new one is a file and an entry here."""

from __future__ import annotations

from agentflow.config import Config
from agentflow.schedulers.base import Scheduler


def make_scheduler(config: Config) -> Scheduler:
    """The scheduler that ``scheduler.type`` names; raises MissingExtraError where its package is not installed."""
    if config.scheduler.type == "local":
        from agentflow.schedulers.local import LocalScheduler

        return LocalScheduler(config.cluster.n_gpus_per_node)
    if config.scheduler.type == "slurm":
        import os
        import secrets

        from agentflow.schedulers.slurm import SlurmScheduler
        from agentflow.schedulers.slurm_allocation import AllocationScheduler
        from agentflow.schedulers.slurm_plan import slurm_plan

        plan = slurm_plan(config, secrets.token_hex(4))
        job_id = os.environ.get("SLURM_JOB_ID")
        return SlurmScheduler(plan) if job_id is None else AllocationScheduler(plan, job_id)
    from agentflow.schedulers.ray_cluster import RayScheduler

    return RayScheduler(config)
