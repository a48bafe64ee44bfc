"""AReaL's own training files, as they are."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agentflow.allocation import Allocation
from agentflow.config import load_config
from agentflow.config.areal import DROPPED, inference_part
from agentflow.config.areal_names import AREAL
from agentflow.config.model import Config
from agentflow.config.names import fields, nearest, top_level
from agentflow.errors import ConfigError


@pytest.fixture
def areal() -> Path:
    data = os.environ.get("AGENTFLOW_TEST_DATA")
    if not data:
        pytest.skip("AGENTFLOW_TEST_DATA names no folder with AReaL's files")
    return Path(data) / "areal"


def loaded(tmp_path: Path, text: str, *overrides: str) -> tuple[Config, list[str]]:
    file = tmp_path / "areal.yaml"
    file.write_text(text)
    return load_config(file, overrides)


def test_areals_gsm8k_file_is_taken_as_it_is(areal: Path) -> None:
    config, notes = load_config(
        areal / "gsm8k_grpo.yaml", ["scheduler.type=ray", "rollout.backend=sglang:d12p1t1", "cluster.n_nodes=3"]
    )
    assert config.allocation == Allocation("sglang", 12)
    assert (config.scheduler.type, config.cluster.n_nodes, config.cluster.n_gpus_per_node) == ("ray", 3, 8)
    assert (config.experiment_name, config.trial_name, config.seed) == ("gsm8k-grpo", "trial0", 1)
    assert config.checkpoint == config.tokenizer_path == "Qwen/Qwen2.5-1.5B-Instruct"
    assert config.cluster.fileroot == "/tmp/areal/experiments"
    assert config.n_samples == 4
    assert config.sampling() == {"max_new_tokens": 1024, "min_new_tokens": 0, "greedy": False, "temperature": 1.0}
    assert config.rollout.max_concurrent_rollouts == 256
    (spec,) = config.rollout.scheduling_spec
    assert (spec.gpu, spec.mem, spec.port_count) == (1, 32, 2)
    assert (config.valid_dataset.path, config.valid_dataset.split, config.valid_dataset.batch_size) == (
        "openai/gsm8k",
        "test",
        256,
    )
    assert (config.sglang.context_length, config.sglang.mem_fraction_static) == (32768, 0.8)
    assert config.vllm.max_model_len == 32768

    (ignored,) = [n for n in notes if n.startswith("Ignored")]
    for name in ("saver", "recover", "evaluator", "perf_tracer", "ref", "train_dataset", "total_train_epochs"):
        assert name in ignored
    assert "optimizer" in ignored
    assert "keys of your own" not in ignored
    dropped = [n for n in notes if n.startswith("Dropped")]
    assert any("sglang.skip_tokenizer_init" in n and "tokenizer" in n for n in dropped)
    assert not any("vllm.skip_tokenizer_init" in n for n in dropped)  # it is false there
    assert any("rollout.scheduling_spec[0].cmd" in n and "RPC server" in n for n in dropped)
    assert all("\n" not in n for n in notes)


def test_areals_agent_file_is_taken_as_it_is(areal: Path) -> None:
    config, notes = load_config(areal / "agent_workflow.yaml")
    assert config.scheduler.type == "local"
    assert config.agent_path == "areal.workflow.openai.math_agent.MathAgent"
    assert (config.rollout.agent.tool_call_parser, config.rollout.agent.reasoning_parser) == ("qwen25", "qwen3")
    assert config.rollout.runners == "auto"  # AReaL's agent.mode: inline is something else
    env = config.rollout.scheduling_spec[0].env_vars
    assert env["NCCL_SOCKET_IFNAME"] == "bond0"
    assert env["NCCL_NET_PLUGIN"] == ""
    assert env["PYTORCH_NPU_ALLOC_CONF"] == "expandable_segments:True"
    assert len([n for n in notes if n.startswith("Ignored")]) == 1


def test_every_areal_file_comes_back_from_the_manifest(areal: Path) -> None:
    files = sorted(areal.glob("*.yaml"))
    assert files
    for file in files:
        config, _ = load_config(file)
        again, notes = load_config(None, base=config.public())
        assert again.public() == config.public()
        assert again.sampling() == config.sampling()
        assert notes == []


def test_a_key_close_to_a_known_one_is_refused_in_areals_file_too(areal: Path, tmp_path: Path) -> None:
    text = (areal / "gsm8k_grpo.yaml").read_text()
    with pytest.raises(ConfigError, match="did you mean 'rollout'"):
        loaded(tmp_path, text.replace("\nrollout:", "\nrolout:"))
    with pytest.raises(ConfigError, match=r"did you mean 'actor\.eps_clip'"):
        loaded(tmp_path, text.replace("eps_clip:", "eps_clp:"))


OWN = """
econfig {domain: airline, user_llm: x}
openenv {provider: uv}
agent_run_args {max_steps: 30}
model_path Qwen/Qwen3-1.7B
environment {max_steps: 5}
max_tokens_per_trajectory 8192
prompt_version v3
observation_mode rgb
curriculum 1
n_trajs 4
max_turns 8
turn_discount 0.9
export_style concat
dataset_size 512
eval_dataset_size 64
initial_user_prompt ""
reward_recipe_version v3
completion_reward 50.0
validation_contract sampled
search_client_type async
judge_config {model: x}
env {name: x}
tau2 {domain: airline}
user_llm {model: x}
"""


def test_keys_of_ones_own_are_ignored_and_named(tmp_path: Path) -> None:
    lines = [line.split(" ", 1) for line in OWN.strip().splitlines()]
    config, notes = loaded(tmp_path, "".join(f"{name}: {value}\n" for name, value in lines))
    assert config == Config()
    (note,) = notes
    own = note.partition("keys of your own: ")[2].rstrip(".").split(", ")
    assert set(own) == {name for name, _ in lines} - {"econfig"}  # that one is in AReaL's examples
    assert "econfig" in note


@pytest.mark.parametrize(
    "name", ["rolout", "gconfgi", "actors", "schedular", "valid_datasets", "eval_gcofig", "sglan", "experiment_nam"]
)
def test_a_top_level_name_close_to_a_known_one_is_an_error(tmp_path: Path, name: str) -> None:
    with pytest.raises(
        ConfigError, match=f"Unknown key '{name}' in .* line 1: did you mean '{nearest(name, top_level())}'"
    ):
        loaded(tmp_path, f"{name}: {{}}\n")


@pytest.mark.parametrize(
    ("setting", "named"),
    [
        ("sglang: {skip_tokenizer_init: true}", True),
        ("sglang: {skip_tokenizer_init: false}", False),
        ("sglang: {disable_radix_cache: true}", True),
        ("sglang: {disable_radix_cache: null}", False),
        ("sglang: {enable_memory_saver: true}", True),
        ("sglang: {enable_metrics: true}", False),
        ("sglang: {enable_metrics: false}", True),
        ("sglang: {allow_auto_truncate: true}", True),
        ("sglang: {tp_size: 4}", True),
        ("vllm: {no_enable_prefix_caching: true}", True),
        ("vllm: {worker_extension_cls: areal.x.Y}", True),
        ("vllm: {worker_extension_cls: ''}", False),
        ("vllm: {enable_sleep_mode: true}", True),
        ("vllm: {tensor_parallel_size: 4}", True),
        ("rollout: {scheduling_spec: {cmd: python3 -m areal.infra.rpc.rpc_server}}", True),
        ("rollout: {scheduling_spec: [{gpu: 1}, {cmd: x}]}", True),
        ("valid_dataset: {dataset_kwargs: {a: 1}}", True),
    ],
)
def test_what_would_break_an_evaluation_is_dropped_and_named_with_the_reason(
    tmp_path: Path, setting: str, named: bool
) -> None:
    config, notes = loaded(tmp_path, setting)
    assert [n.startswith("Dropped") for n in notes] == ([True] if named else [])
    assert "'cmd'" not in str(config.public())
    assert not any(key.rpartition(".")[2] in str(config.public()) for key in DROPPED if not key.endswith("cmd"))


@pytest.mark.parametrize(
    ("mode", "part"),
    [
        ("sglang:d4p1t1+d4p1t1", "sglang:d4p1t1"),
        ("sglang.d4p1t1+d4p1t1", "sglang:d4p1t1"),
        ("vllm:d4+d4", "vllm:d4"),
        ("sglang.d4p1t1+eval", "sglang:d4p1t1"),
        ("sglang:d4 + megatron:(attn:d4c2|ffn:d2e4)", "sglang:d4"),
        ("megatron[actor]:(attn:d1p4t8c2|ffn:d1p4t1e16)|sglang[rollout]:d16t4", "sglang:d16t4"),
        ("vllm[teacher]:d1+sglang[rollout]:d2+fsdp[actor]:d4", "sglang:d2"),
        ("sglang[a]:d1+sglang[b]:d2", "sglang:d1"),
        ("fsdp:d4", None),
        ("d4p1t1", None),
        ("", None),
    ],
)
def test_the_old_allocation_mode_has_an_inference_part(mode: str, part: str | None) -> None:
    assert inference_part(mode) == part


def test_the_old_allocation_mode_is_used_where_rollout_backend_is_missing(tmp_path: Path) -> None:
    config, notes = loaded(tmp_path, "allocation_mode: sglang.d4p1t1+d4p1t1\nasync_training: true\n")
    assert config.rollout.backend == "sglang:d4p1t1"
    assert any("allocation_mode" in n for n in notes)
    config, notes = loaded(tmp_path, "allocation_mode: sglang:d4+d4\nrollout: {backend: 'vllm:d2'}\n")
    assert config.rollout.backend == "vllm:d2"
    assert not any("allocation_mode" in n for n in notes)
    config, notes = loaded(tmp_path, "allocation_mode: fsdp:d4\n")
    assert config.rollout.backend == "llamacpp:d1"
    assert any("no part for inference" in n for n in notes)
    config, notes = loaded(tmp_path, "allocation_mode: sglang:d4+d4\n", "base_url=http://127.0.0.1:1/v1", "model=x")
    assert config.allocation is None


def test_the_old_openai_section_is_read_as_agent(tmp_path: Path) -> None:
    config, notes = loaded(tmp_path, "rollout: {openai: {tool_call_parser: qwen25, subproc_max_workers: 4}}\n")
    assert config.rollout.agent.tool_call_parser == "qwen25"
    assert "rollout.openai.subproc_max_workers" in notes[0]


def test_several_data_sets_at_once_are_dropped(tmp_path: Path) -> None:
    config, notes = loaded(tmp_path, "valid_dataset: {path: [a, b]}\n", "valid_dataset.limit=2")
    assert config.valid_dataset.path is None
    assert notes[0].startswith("Dropped valid_dataset.path")
    assert loaded(tmp_path, "valid_dataset: {path: [a]}\n")[0].valid_dataset.path == "a"
    assert loaded(tmp_path, "valid_dataset: {path: [a, b]}\n", "valid_dataset.path=c")[0].valid_dataset.path == "c"


def test_max_tokens_never_fills_a_request(tmp_path: Path) -> None:
    config, _ = loaded(tmp_path, "gconfig: {max_tokens: 2048, n_samples: 3, lora_name: a, top_k: 100000000}\n")
    assert config.sampling() == {"top_k": 100000000}
    assert config.gconfig.max_tokens == 2048


def test_eval_gconfig_replaces_gconfig_and_eval_workflow_wins(tmp_path: Path) -> None:
    text = """
        gconfig: {n_samples: 4, temperature: 1.0, top_p: 0.9}
        eval_gconfig: {temperature: 0.6}
        workflow: a.B
        eval_workflow: a.C
        workflow_kwargs: {x: 1, y: 1}
        eval_workflow_kwargs: {y: 2}
    """
    config, _ = loaded(tmp_path, text)
    assert config.sampling() == {"temperature": 0.6}
    assert config.n_samples == 1
    assert config.agent_path == "a.C"
    assert config.agent_kwargs == {"x": 1, "y": 2}


def test_a_file_with_a_checkpoint_in_the_engines_section_alone_names_that_one(tmp_path: Path) -> None:
    text = "model_path: Qwen/Qwen3-1.7B\nrollout: {backend: 'sglang:d2'}\nsglang: {model_path: '${model_path}'}\n"
    config, _ = loaded(tmp_path, text)
    assert config.checkpoint == "Qwen/Qwen3-1.7B"
    config, notes = loaded(tmp_path, text, "actor.path=/ckpt")
    assert config.checkpoint == "/ckpt"
    assert any("actor.path is evaluated" in n for n in notes)
    config, notes = loaded(tmp_path, text, "model=/mine")
    assert config.checkpoint == "/mine"
    assert not any("actor.path" in n for n in notes)


def test_lora_without_an_adapter_is_said(tmp_path: Path) -> None:
    text = """
        actor: {path: Qwen/Qwen3-0.6B, use_lora: "${rollout.use_lora}", lora_rank: 16, target_modules: [a, b]}
        rollout: {backend: "vllm:d4p1t1", use_lora: true}
        vllm: {enable_lora: "${rollout.use_lora}", max_lora_rank: "${actor.lora_rank}"}
    """
    config, notes = loaded(tmp_path, text)
    assert (config.vllm.enable_lora, config.vllm.max_lora_rank) == (True, 16)
    assert any("the base model is evaluated" in n for n in notes)
    config, notes = loaded(tmp_path, text, "vllm.lora_modules=a=/adapters/a")
    assert config.vllm.lora_modules == ("a=/adapters/a",)
    assert not any("base model" in n for n in notes)


DRIFTED = """
rollout.agent.prm.scorers rollout.agent.message_preprocessors
rollout.agent.chat_template_kwargs.reasoning_effort rollout._version rollout.schedule_policy
rollout.deterministic_sampling rollout.return_routed_experts gconfig.request_plugin.target
gconfig.reward_normalization gconfig.drop_incomplete_group actor.objective_plugin.target
actor.megatron.policy_distribution.target actor.mindspeed.swap_optimizer actor.dte.enabled
actor.behav_imp_weight_cap actor.behave_imp_weight_mode actor.group_adv_norm actor.use_cispo_loss
actor.optimizer.warmup_steps actor.optimizer.muon_momentum actor.megatron.fp8_config.mode
actor.adaptive_tree.cp_sizes actor.archon.fp8_config.use_triton
actor.fsdp.wrap_policy.transformer_layer_cls_to_wrap actor.min_usable_group_size teacher.train.path
teacher.rollout.agent.mode mopd.loss.rl_coefficient critic.eps_clip ref.scheduling_strategy.target
sglang.mamba_ssm_dtype sglang.enable_custom_logit_processor sglang.speculative_algorithm
vllm.enable_expert_parallel cluster.name_resolve.etcd3_addr cluster.ray_port cluster.gpu_type
scheduler.endpoint launcher.inference_server_cpus_per_gpu launcher.slurm.trainer_image
perf_tracer.session_tracer.enabled memory_profiler.max_entries recover.no_save_optim
stats_logger.trackio.space_id train_dataset.dataset_kwargs.any valid_dataset.num_dataset_workers
total_train_n_seqs post_exit_hook should_accept_fn dynamic_bs async_training
"""


@pytest.mark.parametrize("key", DRIFTED.split())
def test_keys_of_older_and_newer_areal_are_known(tmp_path: Path, key: str) -> None:
    names = key.split(".")
    text = "".join(f"{'  ' * i}{name}:{chr(10)}" for i, name in enumerate(names[:-1]))
    loaded(tmp_path, f"{text}{'  ' * (len(names) - 1)}{names[-1]}: null\n")
    load_config(None, [f"{key}=null"])


def test_values_that_only_training_takes_may_be_anything(tmp_path: Path) -> None:
    text = """
        actor: {reward_clip: .inf, gae_lambda: areal.x.y, mindspeed: {anything: 1}}
        critic: null
        teacher: {rollout: {backend: "vllm:d1p1t2", scheduling_spec: [{cmd: x}]}, rl_loss_weight: 1.0}
        mopd: {teachers: {any: {path: x}}}
        launcher: {slurm: {mount: /a}, trainer_env_vars: {A: 1}}
        train_dataset: {path: [a, b], sources: [{path: a, type: rl}]}
    """
    config, notes = loaded(tmp_path, text)
    assert config == Config()
    assert len(notes) == 1


def test_every_key_of_ours_that_areal_has_is_in_its_section() -> None:
    """A name that is spelled otherwise than AReaL's would be taken for a key of ours alone."""
    ours_alone = {
        "cluster": {"controller_host", "interface"},
        "scheduler": {"slurm", "ray"},
        "gconfig": {"min_p", "presence_penalty", "repetition_penalty"},
        "actor": set(),
        "sglang": {"command", "extra_args", "chat_template"},
        "vllm": {"command", "extra_args", "chat_template"},
        "valid_dataset": {"limit", "prompt_column", "answer_column", "template", "group_by"},
    }
    for section, names in ours_alone.items():
        one = fields(Config)[section].section
        assert one is not None
        assert set(one.model_fields) - set(AREAL[section] or {}) == names, section
