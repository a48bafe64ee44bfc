"""Settings of the inference engines. What is not set is left to the engine; AReaL's defaults are for training."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, Field

from agentflow.config.fields import Arguments, Count, Natural, Number, Section, Share, Texts, Whole


def _no_key(arguments: tuple[str, ...]) -> tuple[str, ...]:
    for argument in arguments:
        if argument.split("=")[0] in ("--api-key", "--api_key", "--admin-api-key"):
            raise ValueError("must not hold an API key: agentflow gives each engine a key of its own, outside argv")
    return arguments


def _flag(text: str = "the engine's own flag") -> Any:
    return Field(default=None, description=text)


ExtraArguments = Annotated[Arguments, AfterValidator(_no_key)]
_COMMAND = "how to start it: a path, or a prefix such as `apptainer exec --nv image.sif`"


class LlamaCpp(Section):
    """The embedded engine."""

    n_parallel: Count = Field(default=8, description="requests at once (slots); further ones wait")
    n_ctx: Count = Field(default=2048, description="context in tokens of each slot")
    n_threads: Count | None = Field(default=None, description="CPU threads; when not set the replicas share the cores")
    chat_template: str | None = Field(
        default=None, description="a Jinja file; `own`: the model's; when not set: the model's if it renders tools"
    )
    cache_mib: Natural = Field(default=512, description="MiB for prompts of conversations that have lost their slot")


class Sglang(Section):
    """Flags of ``sglang.launch_server``, under AReaL's names."""

    command: Arguments = Field(default=(), description=_COMMAND)
    extra_args: ExtraArguments = Field(default=(), description="further flags, passed on as they are")
    chat_template: str | None = Field(default=None, description="chat template file")
    model_path: str | None = _flag("checkpoint, where neither model nor actor.path names one")
    random_seed: Whole | None = _flag("when not set: seed")
    dtype: str | None = _flag()
    context_length: Count | None = _flag("context in tokens")
    mem_fraction_static: Share | None = _flag("share of GPU memory for weights and cache")
    max_running_requests: Count | None = _flag("requests at once")
    chunked_prefill_size: Whole | None = _flag()
    max_prefill_tokens: Count | None = _flag()
    schedule_policy: str | None = _flag()
    schedule_conservativeness: Number | None = _flag()
    attention_backend: str | None = _flag()
    mm_attention_backend: str | None = _flag()
    sampling_backend: str | None = _flag()
    kv_cache_dtype: str | None = _flag()
    cpu_offload_gb: Natural | None = _flag()
    dp_size: Count | None = _flag("data parallel size of attention, inside one replica")
    ep_size: Count | None = _flag("expert parallel size, inside one replica")
    load_format: str | None = _flag()
    torchao_config: str | None = _flag()
    torch_compile_max_bs: Count | None = _flag()
    cuda_graph_max_bs: Count | None = _flag()
    cuda_graph_bs: tuple[Count, ...] | None = _flag()
    num_continuous_decode_steps: Count | None = _flag()
    triton_attention_num_kv_splits: Count | None = _flag()
    triton_attention_reduce_in_fp32: bool | None = _flag()
    mamba_scheduler_strategy: str | None = _flag()
    mamba_ssm_dtype: str | None = _flag()
    max_mamba_cache_size: Count | None = _flag()
    speculative_algorithm: str | None = _flag()
    speculative_num_steps: Count | None = _flag()
    speculative_eagle_topk: Count | None = _flag()
    speculative_num_draft_tokens: Count | None = _flag()
    speculative_draft_model_path: str | None = _flag()
    disable_cuda_graph: bool | None = _flag()
    disable_cuda_graph_padding: bool | None = _flag()
    disable_outlines_disk_cache: bool | None = _flag()
    disable_custom_all_reduce: bool | None = _flag()
    disable_overlap_schedule: bool | None = _flag()
    enable_nccl_nvls: bool | None = _flag()
    enable_mixed_chunk: bool | None = _flag()
    enable_dp_attention: bool | None = _flag()
    enable_ep_moe: bool | None = _flag()
    enable_torch_compile: bool | None = _flag()
    enable_nan_detection: bool | None = _flag()
    enable_p2p_check: bool | None = _flag()
    enable_multimodal: bool | None = _flag()
    enable_deterministic_inference: bool | None = _flag()
    enable_custom_logit_processor: bool | None = _flag()
    enable_lora: bool | None = _flag()
    max_lora_rank: Count | None = _flag()
    max_loaded_loras: Count | None = _flag()
    lora_paths: Texts | None = _flag("adapters, as `name=path`")
    lora_backend: str | None = _flag()
    log_level: str | None = _flag()
    log_level_http: str | None = _flag()
    log_requests: bool | None = _flag()
    log_requests_level: Natural | None = _flag()
    show_time_cost: bool | None = _flag()
    decode_log_interval: Count | None = _flag()


class Vllm(Section):
    """Flags of ``vllm serve``, under AReaL's names."""

    command: Arguments = Field(default=(), description=_COMMAND)
    extra_args: ExtraArguments = Field(default=(), description="further flags, passed on as they are")
    chat_template: str | None = Field(default=None, description="chat template file")
    model: str | None = _flag("checkpoint, where neither model nor actor.path names one")
    seed: Whole | None = _flag("when not set: seed")
    dtype: str | None = _flag()
    max_model_len: Count | None = _flag("context in tokens")
    gpu_memory_utilization: Share | None = _flag("share of GPU memory for weights and cache")
    max_num_seqs: Count | None = _flag("requests at once")
    block_size: Count | None = _flag()
    cpu_offload_gb: Number | None = _flag()
    distributed_executor_backend: str | None = _flag()
    enforce_eager: bool | None = _flag()
    disable_sliding_window: bool | None = _flag()
    no_enable_chunked_prefill: bool | None = _flag()
    enable_expert_parallel: bool | None = _flag()
    gdn_prefill_backend: str | None = _flag()
    uvicorn_log_level: str | None = _flag()
    enable_lora: bool | None = _flag()
    max_lora_rank: Count | None = _flag()
    max_loras: Count | None = _flag()
    lora_modules: Texts | None = _flag("adapters, as `name=path`")
