"""Settings that reach an engine's command line: each flag of a section once, with a value of its kind."""

from __future__ import annotations

import typing
from typing import Any

from agentflow.config.engines import Sglang, Vllm
from agentflow.config.fields import Section

# Values that an engine takes only from a list of its own.
CHOICES: dict[str, Any] = {
    "dtype": "bfloat16", "kv_cache_dtype": "auto", "load_format": "auto", "attention_backend": "triton",
    "mm_attention_backend": "sdpa", "sampling_backend": "pytorch", "schedule_policy": "lpm", "log_level": "info",
    "log_level_http": "warning", "log_requests_level": 2, "distributed_executor_backend": "mp",
    "uvicorn_log_level": "warning", "block_size": 16, "lora_paths": ["a=/a"], "lora_modules": ["a=/a"],
    "lora_backend": "triton", "speculative_algorithm": "EAGLE", "mamba_scheduler_strategy": "no_buffer",
    "mamba_ssm_dtype": "bfloat16", "cuda_graph_bs": [1, 2], "chat_template": "chatml", "gdn_prefill_backend": "triton",
    "chunked_prefill_size": 512, "cpu_offload_gb": 1, "random_seed": 3, "seed": 3,
}  # fmt: skip
NOT_FLAGS = {"command", "extra_args", "model", "model_path"}
SECTIONS: dict[str, type[Section]] = {"vllm": Vllm, "sglang": Sglang}


def each_setting(engine: str) -> dict[str, list[Any]]:
    """By name the values of each setting of the section to try: both of a bool, one of everything else."""
    tried: dict[str, list[Any]] = {}
    for name, field in SECTIONS[engine].model_fields.items():
        if name in NOT_FLAGS:
            continue
        if name in CHOICES:
            tried[name] = [CHOICES[name]]
        elif bool in typing.get_args(field.annotation):
            tried[name] = [True, False]
        else:
            tried[name] = [1 if "int" in str(field.annotation) else 0.5 if "float" in str(field.annotation) else "x"]
    return tried
