"""The command lines of vLLM and SGLang, as they are rendered from the configuration."""

from __future__ import annotations

import json
import logging.config
import sys
from pathlib import Path

import msgspec
import pytest
import yaml

from agentflow.channel.messages import EngineLoad, StartEngine
from agentflow.config import load_config
from agentflow.controller import launch
from agentflow.errors import ConfigError, UsageError
from agentflow.workers.engines import ENGINES
from agentflow.workers.engines.flags import flags

VLLM, SGLANG = ENGINES["vllm"], ENGINES["sglang"]
SECRET = "s3cr3t"


def spec(*settings: str, backend: str = "vllm:d1", model: str = "org/model") -> StartEngine:
    """As the controller makes it from these settings."""
    config, _ = load_config(None, [f"rollout.backend={backend}", f"model={model}", *settings])
    assert config.allocation is not None
    made = launch.engine_spec(config, config.allocation, model, SECRET)
    return msgspec.structs.replace(made, log_path="/runs/r/logs/worker-0-engine.log")


def words(*settings: str, backend: str = "vllm:d1", model: str = "org/model") -> list[str]:
    made = spec(*settings, backend=backend, model=model)
    return list(ENGINES[made.engine].render(made, 21000).argv)


def value(argv: list[str], flag: str) -> str:
    assert argv.count(flag) == 1, (flag, argv)
    return argv[argv.index(flag) + 1]


def test_vllm_is_started_by_its_own_command_line_on_our_port_under_our_name() -> None:
    argv = words("vllm.command=/opt/vllm/bin/vllm", "seed=7", backend="vllm:d3t4p2")
    assert argv[:3] == ["/opt/vllm/bin/vllm", "serve", "org/model"]
    assert (value(argv, "--host"), value(argv, "--port")) == ("127.0.0.1", "21000")
    assert (value(argv, "--served-model-name"), value(argv, "--seed")) == ("default", "7")
    assert (value(argv, "--tensor-parallel-size"), value(argv, "--pipeline-parallel-size")) == ("4", "2")
    assert "--enable-prefix-caching" in argv
    assert "--enable-prompt-tokens-details" in argv


def test_sglang_is_started_as_a_module_of_the_python_that_is_named() -> None:
    argv = words("sglang.command=/opt/sglang/bin/python", "seed=7", backend="sglang:d3t4p2")
    assert argv[:5] == ["/opt/sglang/bin/python", "-m", "sglang.launch_server", "--model-path", "org/model"]
    assert (value(argv, "--host"), value(argv, "--port")) == ("127.0.0.1", "21000")
    assert (value(argv, "--served-model-name"), value(argv, "--random-seed")) == ("default", "7")
    assert (value(argv, "--tp-size"), value(argv, "--pp-size")) == ("4", "2")
    assert "--enable-metrics" in argv
    assert "--enable-cache-report" in argv
    assert not [a for a in argv if "radix" in a]
    assert "--nnodes" not in argv


def test_the_command_may_be_a_container() -> None:
    argv = words("vllm.command='apptainer exec --nv image.sif vllm'")
    assert argv[:6] == ["apptainer", "exec", "--nv", "image.sif", "vllm", "serve"]
    argv = words("sglang.command='apptainer exec --nv image.sif python3'", backend="sglang:d1")
    assert argv[:7] == ["apptainer", "exec", "--nv", "image.sif", "python3", "-m", "sglang.launch_server"]
    argv = words("sglang.command='apptainer exec image.sif sglang'", backend="sglang:d1")
    assert argv[3:6] == ["sglang", "serve", "--model-path"]
    assert words(backend="sglang:d1")[0] == sys.executable


def test_settings_become_flags_of_their_name_and_further_flags_come_last() -> None:
    argv = words(
        "vllm.max_model_len=4096", "vllm.gpu_memory_utilization=0.8", "vllm.enforce_eager=true", "vllm.dtype=float16",
        "vllm.no_enable_chunked_prefill=true", "vllm.extra_args='--foo 1 --bar'", "vllm.seed=3",
    )  # fmt: skip
    assert (value(argv, "--max-model-len"), value(argv, "--gpu-memory-utilization")) == ("4096", "0.8")
    assert (value(argv, "--dtype"), value(argv, "--seed")) == ("float16", "3")
    assert "--enforce-eager" in argv
    assert "--no-enable-chunked-prefill" in argv
    assert argv[-3:] == ["--foo", "1", "--bar"]
    argv = words(
        "sglang.context_length=4096", "sglang.mem_fraction_static=0.8", "sglang.disable_cuda_graph=true",
        "sglang.enable_mixed_chunk=false", "sglang.extra_args=[--foo,'1']", "sglang.random_seed=3", backend="sglang:d1",
    )  # fmt: skip
    assert (value(argv, "--context-length"), value(argv, "--mem-fraction-static")) == ("4096", "0.8")
    assert value(argv, "--random-seed") == "3"
    assert "--disable-cuda-graph" in argv
    assert "--enable-mixed-chunk" not in argv
    assert argv[-2:] == ["--foo", "1"]


def test_values_of_every_kind_become_flags() -> None:
    options = {"a_b": True, "c": 1, "d": [1, 2], "e": {"x": 1}, "f": None, "g": (), "h": ""}
    assert flags(options) == ["--a-b", "--c", "1", "--d", "1", "2", "--e", '{"x": 1}']
    off = {"enforce_eager": False, "no_enable_chunked_prefill": False}
    assert flags(off) == []
    assert flags(off, negatable=True) == ["--no-enforce-eager", "--enable-chunked-prefill"]


def test_the_actors_dtype_is_used_where_the_engines_section_names_none() -> None:
    assert value(words("actor.dtype=bfloat16"), "--dtype") == "bfloat16"
    assert value(words("actor.dtype=bfloat16", "vllm.dtype=half"), "--dtype") == "half"
    assert value(words("actor.dtype=bfloat16", backend="sglang:d1"), "--dtype") == "bfloat16"


def test_a_tokenizer_is_named_only_where_it_is_not_the_models() -> None:
    assert value(words("tokenizer_path=/t"), "--tokenizer") == "/t"
    assert value(words("tokenizer_path=/t", backend="sglang:d1"), "--tokenizer-path") == "/t"
    assert "--tokenizer" not in words("tokenizer_path=org/model")


def test_parsers_and_chat_template_arguments_are_passed_on() -> None:
    agent = ["rollout.agent.tool_call_parser=hermes", "rollout.agent.reasoning_parser=qwen3"]
    agent += ["rollout.agent.chat_template_kwargs.enable_thinking=false"]
    for backend, template in (("vllm:d1", "vllm.chat_template=t"), ("sglang:d1", "sglang.chat_template=t")):
        argv = words(*agent, template, backend=backend)
        assert (value(argv, "--tool-call-parser"), value(argv, "--reasoning-parser")) == ("hermes", "qwen3")
        assert json.loads(value(argv, "--default-chat-template-kwargs")) == {"enable_thinking": False}
        assert value(argv, "--chat-template") == "t"
        assert ("--enable-auto-tool-choice" in argv) is (backend == "vllm:d1")
        off = words("rollout.agent.tool_call_parser=none", "rollout.agent.reasoning_parser=none", backend=backend)
        assert not [a for a in off if "parser" in a or "auto-tool" in a]


def test_the_key_of_vllm_travels_in_its_environment_alone() -> None:
    made = VLLM.render(spec(), 21000)
    assert made.secret_env == {"VLLM_API_KEY": SECRET}
    assert SECRET not in " ".join([*made.argv, *made.env.values()])


def test_the_key_of_sglang_travels_in_a_file_beside_the_log_alone() -> None:
    made = SGLANG.render(spec(backend="sglang:d1"), 21000)
    path = value(list(made.argv), "--config")
    assert path == "/runs/r/logs/worker-0-engine.sglang-key.yaml"
    assert yaml.safe_load(made.secret_files[path]) == {"api-key": SECRET}
    assert SECRET not in " ".join([*made.argv, *made.env.values()])


def test_sglang_is_told_not_to_log_its_key(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    made = SGLANG.render(spec(backend="sglang:d1"), 21000)
    settings = json.loads(made.files[made.env["SGLANG_LOGGING_CONFIG_PATH"]])
    before = logging.getLogger().handlers[:]
    try:
        logging.config.dictConfig(settings)
        logging.getLogger("sglang.srt.entrypoints.engine").info("server_args={'api_key': ...}")
        logging.getLogger("sglang.srt.managers.scheduler").info("works")
    finally:
        logging.getLogger().handlers[:] = before
        logging.getLogger().setLevel(logging.WARNING)
    said = capfd.readouterr().err
    assert "works" in said
    assert "api_key" not in said


def test_an_engine_imports_nothing_of_ours_and_reports_to_nobody() -> None:
    for backend in ("vllm:d1", "sglang:d1"):
        made = spec(backend=backend)
        env = ENGINES[made.engine].render(made, 1).env
        assert env["PYTHONPATH"] == ""
        assert env["PYTHONSAFEPATH"] == "1"
        assert env["DO_NOT_TRACK"] == "1"
    assert VLLM.render(spec(), 1).env["VLLM_NO_USAGE_STATS"] == "1"


def test_an_adapter_is_loaded_and_asked_for_by_its_name() -> None:
    made = spec("vllm.lora_modules=[a=/a]")
    argv = VLLM.render(made, 1).argv
    assert argv[argv.index("--lora-modules") + 1] == "a=/a"
    assert "--enable-lora" in argv
    assert VLLM.model_name(made) == "a"
    assert VLLM.model_name(spec()) == "default"
    named = spec('vllm.lora_modules=[\'{"name": "n", "path": "/a"}\',b=/b]', "rollout.lora_name=n")
    assert VLLM.model_name(named) == "n"
    assert (
        SGLANG.model_name(spec("sglang.lora_paths=[a=/a,b=/b]", "gconfig.lora_name=b", backend="sglang:d1"))
        == "default:b"
    )


def test_an_adapter_that_is_not_clear_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"vllm\.lora_modules has a, b: choose the one"):
        VLLM.check(spec("vllm.lora_modules=[a=/a,b=/b]", f"vllm.command={sys.executable}"))
    with pytest.raises(ConfigError, match=r"lora_name is c, but vllm\.lora_modules has a\."):
        VLLM.model_name(spec("vllm.lora_modules=[a=/a]", "rollout.lora_name=c"))
    with pytest.raises(ConfigError, match=r"lora_name is c, but sglang\.lora_paths has none"):
        SGLANG.model_name(spec("rollout.lora_name=c", backend="sglang:d1"))


def test_a_sglang_replica_larger_than_a_node_has_a_command_for_each_node() -> None:
    made = spec("cluster.n_gpus_per_node=8", backend="sglang:d1t8p3")
    assert made.nodes == 3
    for rank in range(3):
        of_node = msgspec.structs.replace(made, node_rank=rank, dist_init_addr="node-a:21001")
        argv = list(SGLANG.render(of_node, 21000).argv)
        assert (value(argv, "--nnodes"), value(argv, "--node-rank")) == ("3", str(rank))
        assert value(argv, "--dist-init-addr") == "node-a:21001"
        assert (value(argv, "--tp-size"), value(argv, "--pp-size")) == ("8", "3")
    with pytest.raises(ConfigError, match="24 GPUs needs 3 nodes"):
        launch.check_nodes(made)


@pytest.mark.parametrize(
    ("settings", "nodes"),
    [
        ("cluster.n_gpus_per_node=8", 2),
        ("cluster.n_gpus_per_node=16", 1),
        ("cluster.n_gpus_per_node=0", 1),
        ("seed=1", 1),
    ],
)
def test_nodes_of_a_replica_are_counted_where_their_gpus_are_known(settings: str, nodes: int) -> None:
    assert spec(settings, backend="sglang:d4t16").nodes == nodes


def test_a_vllm_replica_larger_than_a_node_is_refused_with_what_is_possible() -> None:
    made = spec("cluster.n_gpus_per_node=8", f"vllm.command={sys.executable}", backend="vllm:d1t16")
    with pytest.raises(ConfigError, match=r"16 GPUs a replica needs 2 nodes.*stays on one.*--base-url"):
        VLLM.check(made)


def checkpoint(folder: Path) -> str:
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    return str(folder)


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_what_cannot_be_started_here_is_refused_in_one_sentence(engine: str, tmp_path: Path) -> None:
    good = checkpoint(tmp_path / "good")
    here = f"{engine}.command={sys.executable}"

    def check(*settings: str, model: str = good) -> None:
        ENGINES[engine].check(spec(*settings, backend=f"{engine}:d1", model=model))

    check(here)
    check(here, model="org/model")
    with pytest.raises(UsageError, match=rf"There is no {engine} here: .*{engine}\.command=.*apptainer"):
        check()
    with pytest.raises(UsageError, match=rf"{engine}\.command '/none/vllm' is not a program"):
        check(f"{engine}.command=/none/vllm")
    with pytest.raises(UsageError, match="is not a folder"):
        check(here, model=str(tmp_path / "none"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match=r"has no config\.json"):
        check(here, model=str(tmp_path / "empty"))
    with pytest.raises(UsageError, match="is a GGUF file"):
        check(here, model="m.gguf")
    with pytest.raises(ConfigError, match=rf"{engine}\.chat_template \S+ is not a file"):
        check(here, f"{engine}.chat_template={tmp_path / 'none.jinja'}")
    with pytest.raises(ConfigError, match=rf"{engine}\.extra_args must not hold --port"):
        check(here, f"{engine}.extra_args='--port=1'")


def test_vllm_metrics_are_read() -> None:
    text = """\
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="default"} 3.0
vllm:num_requests_waiting{engine="0",model_name="default"} 2.0
vllm:kv_cache_usage_perc{engine="0",model_name="default"} 0.25
vllm:prefix_cache_queries_total{engine="0",model_name="default"} 900.0
vllm:prefix_cache_hits_total{engine="0",model_name="default"} 640.0
vllm:prompt_tokens_total{engine="0",model_name="default"} 1000.0
vllm:generation_tokens_total{engine="0",model_name="default"} 77.0
vllm:num_preemptions_total{engine="0",model_name="default"} 1.0
"""
    assert VLLM.load(text) == EngineLoad(3, 2, 0.25, 1000, 640, 77, 1)
    assert VLLM.load("") == EngineLoad()


def test_sglang_metrics_are_read() -> None:
    text = """\
sglang:num_running_reqs{model_name="default",tp_rank="0"} 3.0
sglang:num_queue_reqs{model_name="default",tp_rank="0"} 2.0
sglang:token_usage{model_name="default",tp_rank="0"} 0.25
sglang:prompt_tokens_total{model_name="default"} 1000.0
sglang:cached_tokens_total{cache_source="device",model_name="default"} 600.0
sglang:cached_tokens_total{cache_source="host",model_name="default"} 40.0
sglang:generation_tokens_total{model_name="default"} 77.0
sglang:num_retracted_requests_total{model_name="default"} 1.0
"""
    assert SGLANG.load(text) == EngineLoad(3, 2, 0.25, 1000, 640, 77, 1)
    assert SGLANG.load("") == EngineLoad()
