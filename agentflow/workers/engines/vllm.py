"""vLLM: ``vllm serve``, in an environment or a container of its own."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from agentflow.channel.messages import EngineLoad, StartEngine
from agentflow.errors import ConfigError, UsageError
from agentflow.workers.engines import flags
from agentflow.workers.engines.base import Launch
from agentflow.workers.engines.completing import with_parsers
from agentflow.workers.engines.parsers import OFF
from agentflow.workers.engines.prometheus import samples

KEY_VARIABLE = "VLLM_API_KEY"
# Of the section vllm and of what launch adds: those that do not become a flag of their own name.
RENDERED_ELSEWHERE = frozenset(
    {"command", "extra_args", "model", "seed", "tool_call_parser", "reasoning_parser", "chat_template_kwargs",
     "tokenizer_path"}
)  # fmt: skip
OURS = {
    "--port": "agentflow finds a free one",
    "--host": "cluster.interface says where workers listen",
    "--served-model-name": "agents ask for the names of roles",
    "--uds": "runners reach workers by address",
    "--tensor-parallel-size": "the backend string decides (vllm:d1t2)",
    "--pipeline-parallel-size": "the backend string decides (vllm:d1p2)",
    "--disable-log-stats": "the workers' load is read from its metrics",
    "--no-enable-prefix-caching": "agents repeat their conversation at every turn",
}


class Vllm:
    """See :class:`agentflow.workers.engines.base.Engine`."""

    name = "vllm"
    # Not its own responses and messages: see docs/engines.md.
    apis: tuple[str, ...] = ("chat", "completions")
    health_path = "/health"
    metrics_path = "/metrics"

    def complete(self, spec: StartEngine) -> tuple[StartEngine, tuple[str, ...]]:
        """Parsers under vLLM's names, guessed where none is named."""
        return with_parsers(spec)

    def check(self, spec: StartEngine) -> None:
        """Raises a UsageError when this cannot be started here."""
        if spec.nodes > 1:
            raise ConfigError(
                f"vllm with {spec.tensor_parallel * spec.pipeline_parallel} GPUs a replica needs {spec.nodes} nodes, "
                f"but a vllm replica of ours stays on one: choose t and p so that a replica fits a node "
                f"(cluster.n_gpus_per_node), use sglang, or start vLLM over several nodes and name it by --base-url."
            )
        flags.check_command(self.name, spec.options.get("command") or ())
        if not spec.options.get("command") and _beside_us() is None:
            raise UsageError(
                "There is no vllm here: name the one of its own environment by vllm.command=/path/to/vllm, or a "
                "container's by vllm.command='apptainer exec --nv image.sif vllm'."
            )
        flags.check_model(self.name, spec.model)
        flags.check_template(self.name, spec)
        flags.check_extra(self.name, spec, OURS)
        self.model_name(spec)

    def render(self, spec: StartEngine, port: int) -> Launch:
        """The command line for this spec on this port."""
        options = spec.options
        command = options.get("command") or (_beside_us() or "vllm",)
        argv = [
            *command, "serve", spec.model,
            *("--served-model-name", spec.served_name, "--host", spec.host, "--port", str(port)),
            *("--tensor-parallel-size", str(spec.tensor_parallel)),
            *("--pipeline-parallel-size", str(spec.pipeline_parallel)),
            *("--seed", str(options.get("seed", spec.seed))),
            "--enable-prefix-caching",  # on by default today; an evaluation must not hang on that
            "--enable-prompt-tokens-details",  # cached tokens in each reply
        ]  # fmt: skip
        if options.get("tokenizer_path"):
            argv += ["--tokenizer", options["tokenizer_path"]]
        if (parser := options.get("tool_call_parser", OFF)) != OFF:
            argv += ["--enable-auto-tool-choice", "--tool-call-parser", parser]
        if (parser := options.get("reasoning_parser", OFF)) != OFF:
            argv += ["--reasoning-parser", parser]
        if options.get("lora_modules"):
            argv += ["--enable-lora"] * (not options.get("enable_lora"))
        argv += flags.flags({"default_chat_template_kwargs": options.get("chat_template_kwargs")})
        argv += flags.flags({k: v for k, v in options.items() if k not in RENDERED_ELSEWHERE}, negatable=True)
        argv += options.get("extra_args") or ()
        env = {**flags.ENVIRONMENT, "VLLM_NO_USAGE_STATS": "1"}
        return Launch(tuple(argv), env, secret_env={KEY_VARIABLE: spec.api_key})

    def model_name(self, spec: StartEngine) -> str:
        """vLLM serves an adapter as a model of its own."""
        return flags.adapter(self.name, "lora_modules", spec) or spec.served_name

    def load(self, metrics: str) -> EngineLoad:
        """Read vLLM's metrics; its prefix-cache hits count tokens."""
        found = samples(metrics)

        def number(name: str) -> int | None:
            value = found.get(f"vllm:{name}")
            return None if value is None else int(value)

        return EngineLoad(
            running=number("num_requests_running"),
            waiting=number("num_requests_waiting"),
            kv_usage=found.get("vllm:kv_cache_usage_perc"),
            prompt_tokens=number("prompt_tokens_total"),
            cached_tokens=number("prefix_cache_hits_total"),
            generated_tokens=number("generation_tokens_total"),
            preemptions=number("num_preemptions_total"),
        )


def _beside_us() -> str | None:
    """The vllm of this very environment, else of the search path."""
    beside = Path(sys.executable).with_name("vllm")
    return str(beside) if beside.is_file() else shutil.which("vllm")
