"""From the configuration to what every job of a run asks Slurm for. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass

from agentflow.config import Config
from agentflow.config.cluster import SlurmConfig
from agentflow.config.rollout import SchedulingSpec
from agentflow.schedulers.base import Job


@dataclass(frozen=True)
class Options:
    """What the configuration says of one kind of job.

    Args:
        sbatch: arguments of sbatch, each ``--name=value`` or ``--name``.
        srun: arguments of srun for every copy.
        setup: shell lines that run first.
        exclusive: whole nodes.
    """

    sbatch: tuple[str, ...] = ()
    srun: tuple[str, ...] = ()
    setup: tuple[str, ...] = ()
    exclusive: bool = False


@dataclass(frozen=True)
class SlurmPlan:
    """All that the schedulers for Slurm need of the configuration.

    Args:
        name: of all jobs of this run, and of no other job.
        ride: runners have no jobs of their own but run as steps in the workers' jobs.
        gpus_per_node: None: not known, so a job holds one copy.
        n_nodes: as asked for; None where nobody did.
        signal_before_s: how long before a wall time its job is told to end.
        warnings: sentences for the user.
    """

    name: str
    workers: Options = Options()
    runners: Options = Options()
    ride: bool = False
    gpus_per_node: int | None = None
    n_nodes: int | None = None
    signal_before_s: float = 120.0
    warnings: tuple[str, ...] = ()

    def options(self, job: Job) -> Options:
        """For this job."""
        return self.runners if job.rides_along else self.workers


def slurm_plan(config: Config, token: str) -> SlurmPlan:
    """The plan for a configuration; ``token`` makes the name of its jobs the run's own."""
    slurm, cluster = config.scheduler.slurm, config.cluster
    specs = config.rollout.scheduling_spec
    spec = specs[0] if specs else SchedulingSpec()
    return SlurmPlan(
        name=f"{re.sub(r'[^A-Za-z0-9_.-]', '-', config.experiment_name)[:40]}-{token}",
        workers=worker_options(slurm, spec),
        runners=runner_options(slurm),
        ride=config.allocation is not None and slurm.runner_partition is None,
        gpus_per_node=cluster.n_gpus_per_node,
        n_nodes=cluster.n_nodes if "n_nodes" in cluster.model_fields_set else None,
        signal_before_s=slurm.signal_before,
        warnings=tuple(_warnings(config)),
    )


def worker_options(slurm: SlurmConfig, spec: SchedulingSpec) -> Options:
    """For the workers' jobs; what ``scheduling_spec`` says wins over ``scheduler.slurm``."""
    chosen = {
        "nodelist": spec.nodelist or slurm.nodelist,
        "exclude": spec.exclude or slurm.exclude,
        "reservation": spec.reservation or slurm.reservation,
        "constraint": slurm.constraint,
    }
    return Options(
        sbatch=(*_named(partition=slurm.partition, **chosen), *_common(slurm)),
        srun=(*slurm.srun_args, *slurm.container_args, *shlex.split(spec.srun_additional_args or "")),
        setup=(*_setup(slurm), *spec.additional_bash_cmds),
        exclusive=slurm.exclusive if spec.exclusive is None else spec.exclusive,
    )


def runner_options(slurm: SlurmConfig) -> Options:
    """For jobs of runners: their own partition where they have one; nodes are not chosen for them."""
    return Options(
        sbatch=(*_named(partition=slurm.runner_partition or slurm.partition), *_common(slurm)),
        srun=(*slurm.srun_args, *slurm.container_args),
        setup=_setup(slurm),
    )


def _warnings(config: Config) -> Iterator[str]:
    if config.cluster.controller_host is None:
        yield (
            "cluster.controller_host is not set, so workers and runners look for the controller at 127.0.0.1: set it "
            "to an address of this machine that the nodes can reach, unless all run here."
        )
    if config.scheduler.slurm.exclusive and config.cluster.n_gpus_per_node is None:
        yield "cluster.n_gpus_per_node is not set, so each worker has an exclusive node of its own."


def _named(**arguments: str | None) -> Iterator[str]:
    return (f"--{name.replace('_', '-')}={value}" for name, value in arguments.items() if value is not None)


def _common(slurm: SlurmConfig) -> tuple[str, ...]:
    return (*_named(account=slurm.account, qos=slurm.qos, time=slurm.time), *slurm.sbatch_args)


def _setup(slurm: SlurmConfig) -> tuple[str, ...]:
    return (*(f"module load {shlex.quote(m)}" for m in slurm.modules), *slurm.pre_commands)
