"""Which model and which data: ``actor`` and ``valid_dataset``."""

from __future__ import annotations

from pydantic import Field

from agentflow.config.fields import Count, Section, Texts
from agentflow.config.rollout import SchedulingSpecs


class ActorConfig(Section):
    """The checkpoint. All else in AReaL's ``actor`` concerns training."""

    path: str | None = Field(
        default=None, description="checkpoint: Hugging Face name or folder; GGUF file for llamacpp"
    )
    dtype: str | None = Field(default=None, description="dtype, where the engine's own section names none")
    scheduling_spec: SchedulingSpecs = Field(default=(), description="AReaL's files point rollout.scheduling_spec here")
    use_lora: bool | None = Field(default=None, description="an adapter is evaluated; name it in sglang or vllm")
    lora_rank: Count | None = Field(default=None, description="rank of the adapter")


class ValidDataset(Section):
    """The data set that is evaluated."""

    path: str | None = Field(default=None, description="a file, `module:function`, or a Hugging Face data set")
    name: str | None = Field(default=None, description="the data set, where `path` is not set (`gsm8k`)")
    split: str = Field(default="test", description="split of a Hugging Face data set")
    type: str | None = Field(default=None, description="accepted, without effect")
    batch_size: Count | None = Field(default=None, description="accepted, without effect; concurrency is rollout's")
    max_length: Count | None = Field(default=None, description="accepted, without effect; no item is filtered out")
    shuffle: bool = Field(default=False, description="shuffle by seed, before limit")
    limit: Count | None = Field(default=None, description="the first so many items")
    prompt_column: str | None = Field(default=None, description="column of the question")
    answer_column: str | None = Field(default=None, description="column of the answer")
    template: str | None = Field(default=None, description="user message; `{column}` stands for a column's value")
    group_by: Texts = Field(default=(), description="columns by which the report breaks the score down")
