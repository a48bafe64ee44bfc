"""How models are asked to sample: ``gconfig``, ``eval_gconfig``, and model roles."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, model_validator

from agentflow.config.fields import Count, Natural, Number, Section, Share, Texts, Urls, Whole, no_bool

# Names that do not travel in a request: how many episodes, AReaL's bound on prompt plus output, which adapter.
NOT_SENT = frozenset({"n_samples", "max_tokens", "lora_name"})


class GenerationConfig(Section):
    """Sampling values. Only those that are set reach a request, and only where the agent left them out."""

    n_samples: Count | None = Field(default=None, description="episodes of each item; 1 when not set")
    max_new_tokens: Count | None = Field(default=None, description="most tokens of one reply")
    min_new_tokens: Natural | None = Field(default=None, description="fewest tokens of one reply")
    max_tokens: Count | None = Field(
        default=None, description="AReaL's bound on prompt plus output; accepted, never fills a request"
    )
    greedy: bool | None = Field(default=None, description="take the likeliest token: temperature 0")
    temperature: Annotated[float, BeforeValidator(no_bool), Field(ge=0)] | None = Field(
        default=None, description="sampling temperature"
    )
    top_p: Share | None = Field(default=None, description="nucleus sampling")
    top_k: Annotated[int, BeforeValidator(no_bool), Field(ge=-1)] | None = Field(
        default=None, description="keep the k likeliest tokens"
    )
    min_p: Annotated[float, BeforeValidator(no_bool), Field(ge=0, le=1)] | None = Field(
        default=None, description="keep tokens at least this likely, relative to the likeliest"
    )
    stop: Texts | None = Field(default=None, description="texts that end a reply")
    stop_token_ids: tuple[Natural, ...] | None = Field(default=None, description="tokens that end a reply")
    ignore_eos: bool | None = Field(default=None, description="go on past the end token")
    skip_special_tokens: bool | None = Field(default=None, description="leave special tokens out of the text")
    frequency_penalty: Number | None = Field(default=None, description="-2 to 2")
    presence_penalty: Number | None = Field(default=None, description="-2 to 2")
    repetition_penalty: Annotated[float, BeforeValidator(no_bool), Field(gt=0)] | None = Field(
        default=None, description="1 is off"
    )
    seed: Whole | None = Field(default=None, description="the same seed for every request; better leave it to seed")
    lora_name: str | None = Field(default=None, description="the adapter to ask for by name")
    use_beam_search: bool | None = Field(default=None, description="beam search, where the engine has it")

    def sampling(self) -> dict[str, Any]:
        """The values that are set and travel in a request, under these names."""
        return {k: v for k, v in self.model_dump(mode="json", exclude_none=True).items() if k not in NOT_SENT}


class Role(Section):
    """A further model: a simulated user, a judge. With endpoints of its own, or played by the default role's workers.

    Its calls and its sampling are its own either way.
    """

    model: str | None = Field(default=None, description="model name at its endpoints; needed where there are any")
    base_url: Urls = Field(default=(), description="its endpoints; none: the default role's workers play it")
    api_key_env: str = Field(default="OPENAI_API_KEY", description="environment variable that holds its key")
    names: Texts = Field(default=(), description="further names by which agents ask for it")
    gconfig: GenerationConfig = Field(default_factory=GenerationConfig, description="sampling values of this role")

    @model_validator(mode="after")
    def _model_and_endpoints(self) -> Self:
        if self.base_url and self.model is None:
            raise ValueError("has a base_url, so it needs a model as well: its name there")
        if self.model is not None and not self.base_url:
            raise ValueError(
                f"names a model ({self.model}) and no base_url: give the endpoints that serve it, or leave the model "
                "out, and the workers of the default role play it"
            )
        idle = sorted(name for name in NOT_SENT if getattr(self.gconfig, name) is not None)
        if idle:
            raise ValueError(f"has gconfig.{idle[0]}, which does nothing for a role: leave it out")
        return self

    @property
    def is_shared(self) -> bool:
        """Whether the default role's workers play it."""
        return not self.base_url
