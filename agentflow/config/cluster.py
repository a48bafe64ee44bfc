"""Where processes run: ``cluster`` and ``scheduler``."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, field_validator

from agentflow.config.fields import Arguments, Count, Natural, Seconds, Section, Texts


class ClusterConfig(Section):
    """The machines, and where the run directory lies."""

    n_nodes: Count = Field(default=1, description="nodes to use")
    n_gpus_per_node: Natural | None = Field(
        default=None, description="GPUs of a node; when not set this machine's are counted; 0: CPU engines"
    )
    fileroot: str = Field(default="./runs", description="run directories go to fileroot/experiment_name/trial_name")
    controller_host: str | None = Field(
        default=None, description="address on which runners and workers reach the controller; loopback when not set"
    )
    interface: str | None = Field(
        default=None, description="network interface of the workers; when not set, where they reach the controller"
    )

    @field_validator("controller_host")
    @classmethod
    def _is_an_address(cls, value: str | None) -> str | None:
        if value in ("0.0.0.0", "::", "[::]", ""):
            raise ValueError("must be one address of this machine, to which the others connect")
        return value


class SlurmConfig(Section):
    """Passed on to sbatch and srun."""

    partition: str | None = Field(default=None, description="--partition of the workers")
    runner_partition: str | None = Field(
        default=None, description="--partition of the runners; when not set they ride along in the workers' jobs"
    )
    account: str | None = Field(default=None, description="--account")
    qos: str | None = Field(default=None, description="--qos")
    time: str | None = Field(default=None, description="--time, as Slurm writes it (`4:00:00`)")
    nodelist: str | None = Field(default=None, description="--nodelist")
    exclude: str | None = Field(default=None, description="--exclude")
    reservation: str | None = Field(default=None, description="--reservation")
    constraint: str | None = Field(default=None, description="--constraint")
    exclusive: bool = Field(default=False, description="--exclusive")
    container_args: Arguments = Field(default=(), description="container flags of srun (`--container-image=...`)")
    modules: Texts = Field(default=(), description="modules to load")
    pre_commands: Texts = Field(default=(), description="shell lines that run first in each job")
    sbatch_args: Arguments = Field(default=(), description="further arguments of sbatch")
    srun_args: Arguments = Field(default=(), description="further arguments of srun")
    signal_before: Seconds = Field(default=120.0, description="seconds before the wall time at which the run drains")


class RayConfig(Section):
    """How to reach Ray."""

    address: str | None = Field(default=None, description="a running cluster; when not set one is started here")
    runtime_env: dict[str, Any] = Field(default_factory=dict, description="Ray's runtime_env, for the user's code")


class SchedulerConfig(Section):
    """What starts processes."""

    type: Literal["local", "ray", "slurm"] = Field(default="local", description="null means local, too")
    slurm: SlurmConfig = Field(default_factory=SlurmConfig, description="for type slurm")
    ray: RayConfig = Field(default_factory=RayConfig, description="for type ray")
