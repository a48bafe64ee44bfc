"""The whole configuration, typed and frozen."""

from __future__ import annotations

from typing import Any, Self

from pydantic import Field, field_validator, model_validator

from agentflow.allocation import Allocation, parse_backend
from agentflow.config.cluster import ClusterConfig, SchedulerConfig
from agentflow.config.data import ActorConfig, ValidDataset
from agentflow.config.engines import LlamaCpp, Sglang, Vllm
from agentflow.config.fields import Section, Texts, Urls, Whole
from agentflow.config.rollout import RolloutConfig
from agentflow.config.sampling import GenerationConfig, Role
from agentflow.config.secrets import without_secrets


class Config(Section):
    """All settings of a run. Keys that AReaL has keep AReaL's names and meaning."""

    experiment_name: str = Field(default="agentflow", description="folder of the run directory, first part")
    trial_name: str | None = Field(default=None, description="second part; made when not set")
    seed: Whole = Field(default=1, description="seed of the run: shuffling, request seeds, engines")
    tokenizer_path: str | None = Field(default=None, description="tokenizer, where it does not lie with the checkpoint")
    model: str | None = Field(default=None, description="checkpoint, or name at base_url; wins over actor.path")
    base_url: Urls = Field(default=(), description="existing endpoints, instead of workers of ours")
    api_key_env: str = Field(default="OPENAI_API_KEY", description="environment variable with the key of base_url")
    workflow: str | None = Field(default=None, description="the agent, where the command names none")
    workflow_kwargs: dict[str, Any] = Field(default_factory=dict, description="arguments of the agent's constructor")
    eval_workflow: str | None = Field(default=None, description="wins over workflow")
    eval_workflow_kwargs: dict[str, Any] = Field(default_factory=dict, description="win over workflow_kwargs")
    reward_fn: str | None = Field(
        default=None, description="argument `reward_fn` of the agent's constructor: `math_reward`, `module:function`"
    )
    cluster: ClusterConfig = Field(default_factory=ClusterConfig, description="the machines")
    scheduler: SchedulerConfig = Field(default_factory=SchedulerConfig, description="what starts processes")
    rollout: RolloutConfig = Field(default_factory=RolloutConfig, description="how episodes are played")
    gconfig: GenerationConfig = Field(default_factory=GenerationConfig, description="sampling")
    eval_gconfig: GenerationConfig | None = Field(default=None, description="sampling; replaces gconfig when present")
    actor: ActorConfig = Field(default_factory=ActorConfig, description="the checkpoint")
    llamacpp: LlamaCpp = Field(default_factory=LlamaCpp, description="settings of llama.cpp")
    sglang: Sglang = Field(default_factory=Sglang, description="settings of SGLang")
    vllm: Vllm = Field(default_factory=Vllm, description="settings of vLLM")
    valid_dataset: ValidDataset = Field(default_factory=ValidDataset, description="the data")
    roles: dict[str, Role] = Field(default_factory=dict, description="further models, by role")
    item_metrics: Texts = Field(default=(), description="functions of the results of one item: `metrics.py:spread`")
    run_metrics: Texts = Field(default=(), description="functions of all results: `metrics.py:hardest`")
    stats_logger: dict[str, Any] = Field(default_factory=dict, description="accepted, without effect")

    @field_validator("experiment_name", "trial_name")
    @classmethod
    def _one_folder(cls, value: str | None) -> str | None:
        if value is not None and (not value.strip() or "/" in value or "\0" in value or value in (".", "..")):
            raise ValueError("must be the name of one folder, without '/'")
        return value

    @model_validator(mode="after")
    def _no_contradiction(self) -> Self:
        if self.base_url and "backend" in self.rollout.model_fields_set:
            raise ValueError(
                f"base_url and rollout.backend ({self.rollout.backend}) are both set: "
                "existing endpoints or workers of ours, not both; remove one of them"
            )
        if self.rollout.runners == "inline" and self.scheduler.type != "local":
            raise ValueError(
                f"rollout.runners is inline, which plays in the controller, but scheduler.type is "
                f"{self.scheduler.type}: set rollout.runners to auto or a number, or scheduler.type to local"
            )
        return self

    @property
    def allocation(self) -> Allocation | None:
        """The workers to start; None where ``base_url`` names existing endpoints."""
        return None if self.base_url else parse_backend(self.rollout.backend)

    @property
    def checkpoint(self) -> str | None:
        """The model to evaluate: ``model``, else ``actor.path``, else what the engine's own section names."""
        named = self.model or self.actor.path
        allocation = self.allocation
        if named or allocation is None:
            return named
        return {"sglang": self.sglang.model_path, "vllm": self.vllm.model}.get(allocation.engine)

    @property
    def agent_path(self) -> str | None:
        """The agent that the configuration names; the command line's wins over it."""
        return self.eval_workflow or self.workflow

    @property
    def agent_kwargs(self) -> dict[str, Any]:
        """Arguments of its constructor; ``reward_fn`` is one of them where it is set."""
        reward = {} if self.reward_fn is None else {"reward_fn": self.reward_fn}
        return {**reward, **self.workflow_kwargs, **self.eval_workflow_kwargs}

    @property
    def generation(self) -> GenerationConfig:
        """``eval_gconfig`` when present, else ``gconfig``."""
        return self.gconfig if self.eval_gconfig is None else self.eval_gconfig

    @property
    def n_samples(self) -> int:
        """Episodes of each item."""
        return self.generation.n_samples or 1

    def sampling(self) -> dict[str, Any]:
        """The sampling values that the user set, under gconfig's names; without n_samples and max_tokens."""
        return self.generation.sampling()

    def public(self) -> dict[str, Any]:
        """The resolved configuration as JSON-able data without secrets, for the manifest.

        ``load_config(None, base=config.public())`` gives the configuration back, but for the secrets.
        """
        data: dict[str, Any] = without_secrets(self.model_dump(mode="json", exclude_none=True))
        if self.base_url:
            del data["rollout"]["backend"]  # the default, of no meaning here
        return data
