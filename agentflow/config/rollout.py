"""How episodes are played: ``rollout`` and what it holds."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from agentflow.allocation import parse_backend
from agentflow.config.fields import Count, CountOrAuto, Natural, Number, RunnerCount, Seconds, Section, Texts, as_list


class SchedulingSpec(Section):
    """Resources of one process; a scheduler honours what it can and warns about the rest."""

    cpu: Natural | None = Field(default=None, description="CPU cores, for each GPU where there are GPUs")
    gpu: Natural | None = Field(default=None, description="accepted, without effect; the backend string decides")
    mem: Natural | None = Field(default=None, description="memory in GB, for each GPU where there are GPUs")
    port_count: Natural | None = Field(default=None, description="ports to keep free")
    env_vars: dict[str, str] = Field(default_factory=dict, description="environment of the process")
    image: str | None = Field(default=None, description="container image")
    container_type: Literal["apptainer", "none"] | None = Field(default=None, description="how the image is run")
    mount: str | None = Field(default=None, description="mounts of the container")
    nodelist: str | None = Field(default=None, description="Slurm's --nodelist")
    exclude: str | None = Field(default=None, description="Slurm's --exclude")
    reservation: str | None = Field(default=None, description="Slurm's --reservation")
    exclusive: bool | None = Field(default=None, description="Slurm's --exclusive")
    srun_additional_args: str | None = Field(default=None, description="further arguments of srun")
    additional_bash_cmds: Texts = Field(default=(), description="shell lines that run before the process")
    task_type: Literal["worker", "engine"] | None = Field(default=None, description="accepted, without effect")


SchedulingSpecs = Annotated[tuple[SchedulingSpec, ...], as_list]


class AgentConfig(Section):
    """AReaL's ``rollout.agent``: how replies are parsed. The rest of it concerns training data."""

    mode: Literal["inline", "subproc", "online"] | None = Field(
        default=None, description="accepted, without effect; rollout.runners says where agents play"
    )
    tool_call_parser: str | None = Field(default=None, description="the engine's tool-call parser; else guessed")
    reasoning_parser: str | None = Field(default=None, description="the engine's reasoning parser; else guessed")
    chat_template_type: Literal["hf", "concat"] | None = Field(default=None, description="accepted, without effect")
    chat_template_kwargs: dict[str, Any] = Field(
        default_factory=dict, description="chat template arguments of every request that brings none"
    )
    engine_max_tokens: Count | None = Field(default=None, description="accepted, without effect")
    export_style: Literal["individual", "concat"] | None = Field(default=None, description="accepted, without effect")
    turn_discount: Number | None = Field(default=None, description="accepted, without effect")


class RolloutConfig(Section):
    """How episodes are played and which workers answer them."""

    backend: str = Field(default="llamacpp:d1", description="engine and replicas: `sglang:d4t2p1` is 4 of 2 x 1 GPUs")
    max_concurrent_rollouts: CountOrAuto = Field(default="auto", description="episodes at once, all runners together")
    request_timeout: Seconds = Field(default=3600.0, description="seconds that one call may take")
    request_retries: Natural = Field(default=3, description="further tries of a call whose worker fails")
    setup_timeout: Seconds = Field(
        default=1200.0, description="seconds until a started worker must be healthy, a lost endpoint back"
    )
    scheduling_spec: SchedulingSpecs = Field(default=(), description="resources of each worker")
    agent: AgentConfig = Field(default_factory=AgentConfig, description="how replies are parsed")
    use_lora: bool | None = Field(default=None, description="an adapter is evaluated; name it in sglang or vllm")
    lora_name: str | None = Field(default=None, description="the adapter to ask for by name")
    runners: RunnerCount = Field(default="auto", description="processes that play; inline: in the controller")
    episode_timeout: Seconds = Field(default=3600.0, description="seconds that one episode may take")
    cancel_grace: Seconds = Field(default=10.0, description="seconds that a cancelled episode may take to end")
    lost_retries: Natural = Field(default=3, description="further attempts at an episode that the infrastructure lost")
    seed_requests: bool = Field(default=True, description="give each request a seed of its own, made from seed")
    http_client: Literal["httpx2", "httpx"] = Field(default="httpx2", description="library of the agents' http_client")
    failed_reward: Number = Field(default=0.0, description="what a failed episode counts in the headline")
    reward_range: tuple[Number, Number] = Field(
        default=(0.0, 1.0), description="lowest, highest reward: bounds when lost"
    )
    reward_key: str = Field(default="", description="the headline among several metrics that run() returns")
    pass_env: Texts = Field(default=(), description="names of secrets in the environment that agents may see")
    worker_calls: Count = Field(default=64, description="calls in flight to one worker, from one runner")

    @field_validator("backend")
    @classmethod
    def _grammar(cls, value: str) -> str:
        parse_backend(value)
        return value

    @field_validator("reward_range")
    @classmethod
    def _ordered(cls, value: tuple[float, float]) -> tuple[float, float]:
        if value[0] >= value[1]:
            raise ValueError(f"must be lowest, then highest, not {list(value)}")
        return value
