"""llama.cpp as the embedded engine: a GGUF file, served by a process of ours."""

from __future__ import annotations

import importlib.util
import sys
from difflib import get_close_matches
from pathlib import Path

import msgspec

from agentflow.channel.messages import EngineLoad, StartEngine
from agentflow.errors import ConfigError, MissingExtraError, UsageError
from agentflow.workers.engines.base import Launch
from agentflow.workers.engines.prometheus import samples
from agentflow.workers.llamacpp.gguf import is_gguf
from agentflow.workers.llamacpp.server import KEY_VARIABLE


class LlamaCppOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The section ``llamacpp`` of the configuration.

    Args:
        n_parallel: requests that are worked on at once; further ones wait.
        n_ctx: context in tokens of each of them.
        n_threads: CPU threads; None: as many as there are cores.
        chat_template: path of a Jinja file; ``own``: the model's, as it is; None: the model's own if it renders tools.
        cache_mib: memory for prompts of conversations that have lost their slot.
    """

    n_parallel: int = 8
    n_ctx: int = 2048
    n_threads: int | None = None
    chat_template: str | None = None
    cache_mib: int = 512


class LlamaCpp:
    """See :class:`agentflow.workers.engines.base.Engine`."""

    name = "llamacpp"
    # Not its own responses and messages: it says ``completed`` also of a reply that hit its token limit.
    apis: tuple[str, ...] = ("chat", "completions", "embeddings")
    health_path = "/health"
    metrics_path = "/metrics"

    def complete(self, spec: StartEngine) -> tuple[StartEngine, tuple[str, ...]]:
        """Nothing is left open: the server reads the model's own chat template."""
        return spec, ()

    def check(self, spec: StartEngine) -> None:
        """Raises a UsageError when this cannot be started here."""
        options = read_options(spec)
        if importlib.util.find_spec("xllamacpp") is None:
            raise MissingExtraError("The embedded engine llamacpp", "llamacpp")
        if spec.tensor_parallel * spec.pipeline_parallel != 1:
            raise ConfigError("llamacpp runs a replica in one process: use llamacpp:d<replicas>, without t or p.")
        model = Path(spec.model)
        if not model.is_file():
            raise UsageError(f"The model {spec.model} is not a file: llamacpp needs the path of a GGUF file.")
        if not is_gguf(model):
            raise UsageError(f"The model {spec.model} is not a GGUF file, which llamacpp needs.")
        template = options.chat_template
        if template not in (None, "own") and not Path(template or "").is_file():
            raise ConfigError(f"llamacpp.chat_template {template} is not a file (nor 'own', the model's own).")

    def render(self, spec: StartEngine, port: int) -> Launch:
        """The command line for this spec on this port."""
        options = read_options(spec)
        argv = [
            *(sys.executable, "-m", "agentflow.workers.llamacpp.server"),
            *("--model", spec.model, "--served-name", spec.served_name),
            *("--host", spec.host, "--port", str(port)),
            *("--n-parallel", str(options.n_parallel), "--n-ctx", str(options.n_ctx)),
            *("--cache-mib", str(options.cache_mib)),
        ]
        if options.n_threads is not None:
            argv += ["--n-threads", str(options.n_threads)]
        if options.chat_template is not None:
            argv += ["--chat-template", options.chat_template]
        return Launch(tuple(argv), secret_env={KEY_VARIABLE: spec.api_key})

    def model_name(self, spec: StartEngine) -> str:
        """The served name."""
        return spec.served_name

    def load(self, metrics: str) -> EngineLoad:
        """Read llama.cpp's metrics; it has none for the KV cache. Its counter of prompt tokens leaves cached ones out,
        ours does not."""
        found = samples(metrics)

        def number(name: str) -> int | None:
            value = found.get(f"llamacpp:{name}")
            return None if value is None else int(value)

        processed, cached = number("prompt_tokens_total"), number("prompt_tokens_cached_total")
        return EngineLoad(
            running=number("requests_processing"),
            waiting=number("requests_deferred"),
            prompt_tokens=None if processed is None else processed + (cached or 0),
            cached_tokens=cached,
            generated_tokens=number("tokens_predicted_total"),
        )


def read_options(spec: StartEngine) -> LlamaCppOptions:
    """Raises ConfigError naming the option that does not fit."""
    known = LlamaCppOptions.__struct_fields__
    for name in spec.options:
        if name not in known:
            near = get_close_matches(name, known, 1)
            hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(known)}."
            raise ConfigError(f"llamacpp.{name} is not an option: {hint}")
    try:
        options = msgspec.convert(spec.options, LlamaCppOptions)
    except msgspec.ValidationError as e:
        raise ConfigError(f"llamacpp: {e}.") from e
    for name in ("n_parallel", "n_ctx"):
        if getattr(options, name) < 1:
            raise ConfigError(f"llamacpp.{name} is {getattr(options, name)}, but must be at least 1.")
    return options
