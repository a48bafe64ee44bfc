"""Every key that AReaL's configuration has, by section: names only.

Taken from the dataclasses of AReaL's ``areal/api/cli_args.py``, release 1.0.4 and the main branch after it, and from
its example files; names of earlier releases (0.3 on) are kept, since people's files still hold them.
A value of None: AReaL's key, whatever lies below it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

Names: TypeAlias = Mapping[str, "Names | None"]


def _names(text: str, **sections: Names) -> dict[str, Names | None]:
    return {**dict.fromkeys(text.split()), **sections}


_RUN = "experiment_name trial_name fileroot "

_NORM = _names("mean_level mean_leave1out std_level std_unbiased eps group_size")
_MICROBATCH = _names("n_mbs granularity max_tokens_per_mb n_mbs_divisor packing_algorithm")
_OPTIMIZER = _names(
    """type lr weight_decay beta1 beta2 eps min_lr_ratio lr_scheduler_type warmup_steps_proportion warmup_steps
    initial_loss_scale min_loss_scale loss_scale_window hysteresis gradient_clipping offload muon_momentum
    muon_use_nesterov muon_num_ns_steps muon_scale_mode muon_backend_lr"""
)
_FSDP = _names(
    """offload_params memory_efficient_load per_layer_optim_step optim_step_prefetch_layers shard_vision_across_sp""",
    wrap_policy=_names("transformer_layer_cls_to_wrap"),
)
_ARCHON = _names(
    """attn_type offload_params enable_compile ac_mode selective_ac_option ac_memory_budget ac_preserve_rng_state
    ac_debug pp_schedule pp_layers_per_stage pp_first_stage_less_layers pp_last_stage_less_layers
    reshard_after_forward_policy use_deterministic_algorithms moe_router_dtype""",
    fp8_config=_names("mode exclude_modules include_experts use_triton"),
)
_DDP = _names(
    """grad_reduce_in_fp32 overlap_grad_reduce overlap_param_gather align_param_gather use_distributed_optimizer
    check_for_nan_in_grad bucket_size average_in_collective fp8_param_gather"""
)
_FP8 = _names(
    """mode recipe param margin amax_history_len amax_compute_algo wgrad dot_product_attention multi_head_attention
    tp_only_amax_red first_last_layers_bf16 num_layers_at_start_in_bf16 num_layers_at_end_in_bf16 direct_convert"""
)
_MEGATRON = _names(
    """wrap_with_ddp use_torch_fsdp2 use_custom_fsdp virtual_pipeline_parallel_size
    overlap_param_gather_with_optimizer_step use_precision_aware_optimizer main_grads_dtype main_params_dtype
    exp_avg_dtype exp_avg_sq_dtype async_save use_checkpoint_opt_param_scheduler use_deterministic_algorithms
    recompute_granularity recompute_method recompute_num_layers distribute_saved_activations recompute_modules
    moe_router_dtype moe_shared_expert_overlap moe_enable_deepep moe_token_dispatcher_type moe_permute_fusion
    moe_router_fusion moe_router_bias_update_rate moe_z_loss_coeff enable_chunked_logits entropy_requires_grad
    lm_head_loss_chunk_size enable_fp32_lm_head cross_entropy_loss_fusion bridge_type use_mbridge_save
    use_bridge_for_update_weights disable_grad_buffers_cpu_backup enable_mtp enable_mtp_training mtp_only
    mtp_loss_scaling_factor freeze_ple_table language_model_only policy_distribution""",
    ddp=_DDP,
    fp8_config=_FP8,
)
_STRATEGY = _names("type target fork")
_SCHEDULING = _names(
    """cpu gpu mem port_count image task_type env_vars cmd srun_additional_args additional_bash_cmds container_type
    mount nodelist reservation exclusive exclude ray_placement_strategy"""
)
_TRAIN_ENGINE = _names(
    """experiment_name trial_name path attn_impl use_kernels init_from_scratch is_critic temperature
    logprobs_chunk_size pad_to_maximum disable_dropout gradient_checkpointing dtype grad_reduce_dtype optimizer_dtype
    weight_update_mode enable_delta_weight_update weight_update_delta_method weight_update_anchor_interval offload
    use_lora lora_rank lora_alpha target_modules peft_type enable_tree_training backend _version admin_api_key
    log_level request_timeout setup_timeout workers_ready_timeout mindspeed dte lr_scheduler_type""",
    mb_spec=_MICROBATCH,
    optimizer=_OPTIMIZER,
    fsdp=_FSDP,
    archon=_ARCHON,
    megatron=_MEGATRON,
    ddp=_DDP,
    scheduling_spec=_SCHEDULING,
    scheduling_strategy=_STRATEGY,
)
_ACTOR = {
    **_TRAIN_ENGINE,
    **_names(
        """ppo_n_minibatches eps_clip eps_clip_higher c_clip m2_threshold reward_scaling reward_bias reward_clip
        overlong_reward_penalty overlong_tokens overlong_penalty_factor mask_no_eos_with_zero discount gae_lambda
        gae_lambda_kwargs gae_timestep_unit token_rewards_as_adv min_usable_group_size kl_ctl kl_estimator
        use_sapo_loss sapo_tau_pos sapo_tau_neg use_cispo_loss recompute_logprob use_decoupled_loss
        importance_sampling_level prox_logp_method log_agent_stats log_agent_stats_keys max_new_tokens adaptive_tree
        objective_plugin behav_imp_weight_cap behave_imp_weight_cap behave_imp_weight_mode group_size group_adv_norm
        group_reward_norm dynamic_sampling beta loss_type""",
        reward_norm=_NORM,
        adv_norm=_NORM,
        rejection_sampling=_names("level action metric agg upper lower"),
    ),
}
_AGENT = _names(
    """agent_cls_path admin_api_key mode tool_call_parser reasoning_parser chat_template_kwargs chat_template_type
    engine_max_tokens turn_discount export_style message_preprocessors prefix_matcher subproc_max_workers
    drop_retry_orphans session_timeout_seconds set_reward_finish_timeout""",
    scheduling_spec=_SCHEDULING,
    prm=_names(
        "enabled error_policy",
        advantage_shaping=_names("mode negative_scale zero_penalty zero_eps"),
        scorers=_names("path weight enabled kwargs"),
    ),
)
_ROLLOUT = _names(
    """experiment_name trial_name fileroot max_concurrent_rollouts queue_size consumer_batch_size
    max_head_offpolicyness enable_rollout_tracing deterministic_sampling serialize_group_samples
    check_trajectory_format tokenizer_path dump_to_file setup_timeout workers_ready_timeout request_timeout
    request_retries pause_grace_period backend use_lora lora_name return_routed_experts _version model
    routing_strategy poll_interval admin_api_key api_url provider_api_key schedule_policy""",
    scheduling_spec=_SCHEDULING,
    scheduling_strategy=_STRATEGY,
    agent=_AGENT,
    openai=_AGENT,
)
_GENERATION = _names(
    """n_samples max_new_tokens min_new_tokens max_tokens greedy top_p top_k temperature stop_token_ids ignore_eos
    skip_special_tokens stop frequency_penalty seed lora_name use_beam_search reward_normalization
    reward_normalization_use_std drop_incomplete_group request_plugin"""
)
_DATASET = _names(
    """name split path type mixture_sampling_policy batch_size shuffle pin_memory num_workers num_dataset_workers
    drop_last max_length dataset_kwargs setup_timeout reward_fn""",
    sources=_names("path type teacher_group split max_length dataset_kwargs"),
    scheduling_spec=_SCHEDULING,
)
_TIMER = _names(_RUN + "freq_epochs freq_steps freq_secs")

AREAL: Names = _names(
    """experiment_name trial_name allocation_mode seed enable_offload total_train_epochs total_train_steps
    total_train_n_seqs tokenizer_path post_exit_hook dynamic_bs async_training weight_update_mode server_only
    workflow workflow_kwargs eval_workflow eval_workflow_kwargs should_accept_fn reward_fn mopd econfig""",
    cluster=_names(
        """cluster_name cluster_type fileroot n_nodes n_gpus_per_node ray_port ray_dashboard_port
        ray_bootstrap_timeout_seconds gpu_type mount gpu_image cpu_image gpu_infer_image node_name_prefix""",
        name_resolve=_names("type nfs_record_root etcd3_addr ray_actor_name"),
    ),
    scheduler=_names(
        """type endpoint deploy_mode functioncall_service_domain reward_functioncall_config reward_model_path
        reward_model_service_url"""
    ),
    rollout=_ROLLOUT,
    gconfig=_GENERATION,
    eval_gconfig=_GENERATION,
    actor=_ACTOR,
    ref=_ACTOR,
    critic=_ACTOR,
    teacher={**_ACTOR, **_names("engine_type rl_loss_weight distill_loss_weight", rollout=_ROLLOUT, train=_ACTOR)},
    sglang=_names(
        """model_path random_seed skip_tokenizer_init disable_cuda_graph disable_radix_cache
        disable_cuda_graph_padding enable_nccl_nvls disable_outlines_disk_cache disable_custom_all_reduce
        disable_overlap_schedule enable_mixed_chunk enable_dp_attention enable_ep_moe enable_torch_compile
        torch_compile_max_bs cuda_graph_max_bs cuda_graph_bs torchao_config enable_nan_detection enable_p2p_check
        triton_attention_reduce_in_fp32 triton_attention_num_kv_splits num_continuous_decode_steps load_format
        enable_memory_saver allow_auto_truncate attention_backend mm_attention_backend enable_deterministic_inference
        enable_multimodal sampling_backend context_length mem_fraction_static max_running_requests
        chunked_prefill_size max_prefill_tokens schedule_policy schedule_conservativeness cpu_offload_gb dtype
        kv_cache_dtype mamba_scheduler_strategy mamba_ssm_dtype max_mamba_cache_size dp_size ep_size enable_lora
        max_lora_rank max_loaded_loras lora_paths lora_backend speculative_algorithm speculative_num_steps
        speculative_eagle_topk speculative_num_draft_tokens speculative_draft_model_path
        enable_draft_weights_cpu_backup log_level log_level_http log_requests log_requests_level enable_cache_report
        show_time_cost enable_metrics decode_log_interval enable_multithread_load enable_return_routed_experts
        enable_custom_logit_processor tp_size pp_size"""
    ),
    vllm=_names(
        """model seed skip_tokenizer_init enforce_eager dtype distributed_executor_backend max_num_seqs block_size
        cpu_offload_gb disable_sliding_window max_model_len no_enable_chunked_prefill no_enable_prefix_caching
        gpu_memory_utilization worker_extension_cls enable_sleep_mode uvicorn_log_level gdn_prefill_backend
        enable_lora max_lora_rank max_loras lora_modules enable_expert_parallel tensor_parallel_size
        pipeline_parallel_size enable_chunked_prefill enable_prefix_caching"""
    ),
    train_dataset=_DATASET,
    valid_dataset=_DATASET,
    saver={**_TIMER, **_names("mode")},
    evaluator={**_TIMER, **_names("eval_before_train")},
    checkpointer=_TIMER,
    recover={**_TIMER, **_names("mode retries no_save_optim no_load_optim")},
    stats_logger=_names(
        _RUN,
        wandb=_names(
            """mode wandb_base_url wandb_api_key entity project name job_type group notes tags config id_suffix"""
        ),
        swanlab=_names("project name config logdir mode api_key"),
        tensorboard=_names("path"),
        trackio=_names("mode project name space_id"),
    ),
    perf_tracer=_names(
        _RUN + "enabled save_interval profile_steps aggregate output_dir",
        session_tracer=_names("enabled flush_threshold"),
    ),
    memory_profiler=_names("profile_steps max_entries"),
    launcher=_names(
        """inference_server_cpus_per_gpu inference_server_mem_per_gpu trainer_cpus_per_gpu trainer_mem_per_gpu
        inference_server_env_vars trainer_env_vars trainer_port_count""",
        slurm=_names(
            """mount trainer_image inference_server_image srun_additional_args container_type additional_bash_cmds
            trainer_additional_bash_cmds inference_additional_bash_cmds trainer_mount inference_server_mount"""
        ),
    ),
)
