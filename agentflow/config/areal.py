"""What an evaluation does with AReaL's keys that are not ours: ignore them, or drop them and say why."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from agentflow.allocation import ENGINES

# Keys whose effect would break or bend an evaluation, by their place without list indices.
DROPPED: Mapping[str, str] = MappingProxyType(
    {
        "scheduling_spec.cmd": "it starts AReaL's RPC server; agentflow starts its own processes",
        "scheduling_spec.ray_placement_strategy": "agentflow places its processes itself",
        "skip_tokenizer_init": "an endpoint needs the tokenizer",
        "disable_radix_cache": "the prefix cache stays on: agents repeat their conversation at every turn",
        "no_enable_prefix_caching": "the prefix cache stays on: agents repeat their conversation at every turn",
        "enable_prefix_caching": "the prefix cache is always on",
        "enable_chunked_prefill": "vLLM's own default stands; no_enable_chunked_prefill turns it off",
        "worker_extension_cls": "it receives weights from AReaL's trainer and is not installed beside the engine",
        "enable_sleep_mode": "it frees memory for a trainer that shares the GPU",
        "enable_memory_saver": "it frees memory for a trainer that shares the GPU",
        "enable_draft_weights_cpu_backup": "no trainer sends weights",
        "enable_return_routed_experts": "it returns training data with every reply",
        "allow_auto_truncate": "it would shorten long conversations without a word",
        "enable_metrics": "metrics are always on",
        "enable_cache_report": "cached tokens are always reported",
        "enable_multithread_load": "it is AReaL's own switch; pass SGLang's in sglang.extra_args",
        "tensor_parallel_size": "the backend string decides",
        "pipeline_parallel_size": "the backend string decides",
        "tp_size": "the backend string decides",
        "pp_size": "the backend string decides",
        "rollout.api_url": "name an existing endpoint by base_url",
        "valid_dataset.sources": "a mixture is for training; name one data set by valid_dataset.path",
        "valid_dataset.dataset_kwargs": "they are arguments of AReaL's loader",
        "valid_dataset.drop_last": "every item is evaluated",
        "valid_dataset.reward_fn": "the agent computes the reward",
    }
)

_INDEX = re.compile(r"\[\d+\]")


def reason_to_drop(key: str) -> str | None:
    """Why this key of AReaL's (``sglang.skip_tokenizer_init``) is dropped; None when it only concerns training."""
    parts = _INDEX.sub("", key).split(".")
    return next((DROPPED[name] for i in range(len(parts)) if (name := ".".join(parts[i:])) in DROPPED), None)


def inference_part(allocation_mode: str) -> str | None:
    """The inference part of AReaL's old ``allocation_mode``, in the grammar of ``rollout.backend``.

    ``sglang.d4p1t1+d4p1t1``, ``vllm:d2+fsdp:d4`` and ``megatron[actor]:(attn:d1|ffn:e4)|sglang[rollout]:d4`` each
    have one. Of several the one called ``rollout`` is taken, else the first. None when there is none.
    """
    found: dict[str, str] = {}
    for part in _parts(allocation_mode.replace(" ", "")):
        match = re.fullmatch(rf"({'|'.join(ENGINES)})(?:\[(\w+)\])?[.:](.*)", part)
        if match:
            found.setdefault(match[2] or "", f"{match[1]}:{match[3]}")
    return found.get("rollout") or next(iter(found.values()), None)


def _parts(text: str) -> Iterator[str]:
    """Split at ``+`` and ``|``, but not inside parentheses."""
    depth, part = 0, ""
    for sign in text:
        depth += (sign == "(") - (sign == ")")
        if sign in "+|" and depth == 0:
            yield part
            part = ""
        else:
            part += sign
    yield part


def wanted(name: str) -> bool:
    """The value of a dropped key that asks for what happens anyway, and so need not be named."""
    return name in ("enable_metrics", "enable_prefix_caching", "enable_cache_report", "enable_chunked_prefill")
