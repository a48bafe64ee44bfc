"""SGLang: ``python -m sglang.launch_server``, in an environment or a container of its own."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from agentflow.channel.messages import EngineLoad, StartEngine
from agentflow.errors import UsageError
from agentflow.workers.engines import flags
from agentflow.workers.engines.base import Launch
from agentflow.workers.engines.completing import with_parsers
from agentflow.workers.engines.parsers import OFF
from agentflow.workers.engines.prometheus import samples

# Of the section sglang and of what launch adds: those that do not become a flag of their own name.
RENDERED_ELSEWHERE = frozenset(
    {"command", "extra_args", "model_path", "random_seed", "tool_call_parser", "reasoning_parser",
     "chat_template_kwargs"}
)  # fmt: skip
# AReaL's names are those of an older SGLang.
RENAMED = {
    "mamba_scheduler_strategy": "mamba_radix_cache_strategy",
    "cuda_graph_max_bs": "cuda_graph_max_bs_decode",
    "cuda_graph_bs": "cuda_graph_bs_decode",
}
OURS = {
    "--config": "agentflow gives SGLang its key in a configuration file; write its settings as flags",
    "--port": "agentflow finds a free one",
    "--host": "cluster.interface says where workers listen",
    "--served-model-name": "agents ask for the names of roles",
    "--tp": "the backend string decides (sglang:d1t2)",
    "--tp-size": "the backend string decides (sglang:d1t2)",
    "--tensor-parallel-size": "the backend string decides (sglang:d1t2)",
    "--pp-size": "the backend string decides (sglang:d1p2)",
    "--pipeline-parallel-size": "the backend string decides (sglang:d1p2)",
    "--nnodes": "the backend string and cluster.n_gpus_per_node decide",
    "--disable-radix-cache": "agents repeat their conversation at every turn",
}
DEFAULT_LOG_LEVEL = "info"


class Sglang:
    """See :class:`agentflow.workers.engines.base.Engine`."""

    name = "sglang"
    # Not its own responses and messages: see docs/engines.md.
    apis: tuple[str, ...] = ("chat", "completions")
    health_path = "/health"  # takes a little more than a second, and answers 503 while the server starts
    metrics_path = "/metrics"

    def complete(self, spec: StartEngine) -> tuple[StartEngine, tuple[str, ...]]:
        """Parsers under SGLang's names, guessed where none is named."""
        return with_parsers(spec)

    def check(self, spec: StartEngine) -> None:
        """Raises a UsageError when this cannot be started here."""
        flags.check_command(self.name, spec.options.get("command") or ())
        if not spec.options.get("command") and not flags.importable("sglang"):
            raise UsageError(
                "There is no sglang here: name the Python of its own environment by sglang.command=/path/to/python, or "
                "a container's by sglang.command='apptainer exec --nv image.sif python3'."
            )
        flags.check_model(self.name, spec.model)
        flags.check_template(self.name, spec)
        flags.check_extra(self.name, spec, OURS)
        self.model_name(spec)

    def render(self, spec: StartEngine, port: int) -> Launch:
        """The command line for this spec on this port; of node ``spec.node_rank`` where a replica has several."""
        options = spec.options
        key_file, log_file = _beside_the_log(spec, ".sglang-key.yaml"), _beside_the_log(spec, ".sglang-logging.json")
        argv = [
            *_program(options.get("command") or (sys.executable,)), "--model-path", spec.model,
            *("--served-model-name", spec.served_name, "--host", spec.host, "--port", str(port)),
            *("--tp-size", str(spec.tensor_parallel), "--pp-size", str(spec.pipeline_parallel)),
            *("--random-seed", str(options.get("random_seed", spec.seed))),
            *("--config", key_file),
            "--enable-metrics",
            "--enable-cache-report",  # cached tokens in each reply
        ]  # fmt: skip
        if spec.nodes > 1:
            argv += ["--nnodes", str(spec.nodes), "--node-rank", str(spec.node_rank)]
            argv += ["--dist-init-addr", spec.dist_init_addr]
        for key in ("tool_call_parser", "reasoning_parser"):
            if options.get(key, OFF) != OFF:
                argv += ["--" + key.replace("_", "-"), options[key]]
        if options.get("lora_paths"):
            argv += ["--enable-lora"] * (not options.get("enable_lora"))
        argv += flags.flags({"default_chat_template_kwargs": options.get("chat_template_kwargs")})
        argv += flags.flags({RENAMED.get(k, k): v for k, v in options.items() if k not in RENDERED_ELSEWHERE})
        argv += options.get("extra_args") or ()
        level = str(options.get("log_level", DEFAULT_LOG_LEVEL))
        return Launch(
            tuple(argv),
            {**flags.ENVIRONMENT, "SGLANG_LOGGING_CONFIG_PATH": log_file},
            files={log_file: logging_config(level)},
            secret_files={key_file: f"api-key: {json.dumps(spec.api_key)}\n"},
        )

    def model_name(self, spec: StartEngine) -> str:
        """SGLang takes an adapter as ``<served name>:<adapter>``."""
        name = flags.adapter(self.name, "lora_paths", spec)
        return spec.served_name if name is None else f"{spec.served_name}:{name}"

    def load(self, metrics: str) -> EngineLoad:
        """Read SGLang's metrics."""
        found = samples(metrics)

        def number(name: str) -> int | None:
            value = found.get(f"sglang:{name}")
            return None if value is None else int(value)

        return EngineLoad(
            running=number("num_running_reqs"),
            waiting=number("num_queue_reqs"),
            kv_usage=found.get("sglang:token_usage"),
            prompt_tokens=number("prompt_tokens_total"),
            cached_tokens=number("cached_tokens_total"),
            generated_tokens=number("generation_tokens_total"),
            preemptions=number("num_retracted_requests_total"),
        )


def logging_config(level: str) -> str:
    """SGLang's logging as it is by default, but without the line that shows all its settings, the key among them."""
    quiet = {"level": "WARNING"}
    return json.dumps(
        {
            "version": 1,
            "disable_existing_loggers": False,
            "formatters": {"plain": {"format": "[%(asctime)s] %(message)s", "datefmt": "%Y-%m-%d %H:%M:%S"}},
            "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "plain"}},
            "root": {"level": level.upper(), "handlers": ["stderr"]},
            "loggers": {"sglang.srt.entrypoints.engine": quiet, "httpx": quiet, "httpcore": quiet},
        }
    )


def _program(command: Sequence[str]) -> list[str]:
    """``sglang`` is its own command line; anything else is, or ends with, a Python."""
    return [*command, "serve"] if Path(command[-1]).name == "sglang" else [*command, "-m", "sglang.launch_server"]


def _beside_the_log(spec: StartEngine, suffix: str) -> str:
    """A file of this worker alone, in a folder that its node can see; SGLang wants the ending."""
    return str(Path(spec.log_path or "engine.log").with_suffix(suffix))
