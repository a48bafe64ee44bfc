"""Rules across keys, secrets, the manifest's copy, the documentation, and the import."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import ValidationError

from agentflow.config import Config, load_config
from agentflow.config.reference import renewed
from agentflow.config.secrets import MARK, is_secret_name, masked, masked_command
from agentflow.errors import ConfigError

PAGE = Path(__file__).parents[2] / "docs" / "configuration.md"
KEY = "sk-abcdefghijklmnop1234567890"


def test_endpoints_and_workers_in_one_place_contradict_each_other(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="not both"):
        load_config(None, ["base_url=http://127.0.0.1:1/v1", "rollout.backend=sglang:d4"])
    file = tmp_path / "run.yaml"
    file.write_text("base_url: http://127.0.0.1:1/v1\nrollout: {backend: 'sglang:d4'}\n")
    with pytest.raises(ConfigError, match=r"^base_url and rollout.backend \(sglang:d4\) are both set.*not both"):
        load_config(file)


def test_the_command_line_chooses_between_endpoints_and_workers(tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text("rollout: {backend: 'sglang:d4', runners: 2}\n")
    config, notes = load_config(file, ["base_url=http://127.0.0.1:1/v1"])
    assert config.allocation is None
    assert config.rollout.runners == 2
    assert any("no workers are started" in n for n in notes)
    stored = config.public()
    assert load_config(None, base=stored)[0].allocation is None
    config, notes = load_config(None, ["rollout.backend=vllm:d2"], base=stored)
    assert config.base_url == ()
    assert str(config.allocation) == "vllm:d2t1p1"


def test_inline_runners_and_a_cluster_contradict_each_other() -> None:
    for scheduler in ("ray", "slurm"):
        with pytest.raises(ConfigError, match=f"inline.*{scheduler}.*set rollout.runners"):
            load_config(None, ["rollout.runners=inline", f"scheduler.type={scheduler}"])
    assert load_config(None, ["rollout.runners=inline"])[0].rollout.runners == "inline"


@pytest.mark.parametrize("everywhere", ["0.0.0.0", "::"])
def test_the_controllers_host_is_one_that_others_can_connect_to(everywhere: str) -> None:
    with pytest.raises(
        ConfigError, match=f"controller_host.* must be one address of this machine.*, not '{everywhere}'"
    ):
        load_config(None, [f"cluster.controller_host='{everywhere}'"])


def test_a_replica_larger_than_a_node_is_not_refused_here() -> None:
    config, _ = load_config(None, ["rollout.backend=sglang:d1t16", "cluster.n_gpus_per_node=8"])
    assert config.allocation is not None
    assert config.allocation.gpus_per_replica == 16


def test_a_configuration_is_frozen_and_closed() -> None:
    config = Config()
    with pytest.raises(ValidationError):
        config.seed = 2  # type: ignore[misc]
    with pytest.raises(ValidationError):
        Config(seeds=2)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    "name", ["api_key", "HF_TOKEN", "WANDB_API_KEY", "password", "AWS_SECRET_ACCESS_KEY", "x-api-key"]
)
def test_secret_names(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name",
    ["max_new_tokens", "stop_token_ids", "tokenizer_path", "reward_key", "answer_key", "api_key_env", "TOKENIZERS"],
)
def test_names_that_are_no_secrets(name: str) -> None:
    assert not is_secret_name(name)


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        (f"use {KEY} here", f"use {MARK} here"),
        ("http://me:pw@host:1/v1", f"http://{MARK}@host:1/v1"),
        ("Bearer abc.def", f"Bearer {MARK}"),
        ("hf-internal-testing/tiny-random-LlamaForCausalLM", "hf-internal-testing/tiny-random-LlamaForCausalLM"),
        ("task-0001-of-the-long-list-of-tasks", "task-0001-of-the-long-list-of-tasks"),
        ("the password is: {x}", "the password is: {x}"),
    ],
)
def test_secrets_in_text_are_masked(text: str, hidden: str) -> None:
    assert masked(text) == hidden


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("export HF_TOKEN=abc", f"export HF_TOKEN={MARK}"),
        ('export HF_TOKEN="$MINE"', 'export HF_TOKEN="$MINE"'),
        ("--api-key abc --port 1", f"--api-key {MARK} --port 1"),
        ("--export=ALL,MY_PASSWORD='a b'", f"--export=ALL,MY_PASSWORD={MARK}"),
        ("module load cuda", "module load cuda"),
        ("--max-tokens 5", "--max-tokens 5"),
    ],
)
def test_secrets_in_commands_are_masked(text: str, hidden: str) -> None:
    assert masked_command(text) == hidden


SECRETS = {
    "base_url": ["http://me:hunter2@127.0.0.1:1/v1", "http://127.0.0.1:2/v1"],
    "workflow_kwargs": {"search_api_key": "hunter2", "depth": 3, "nested": {"password": "hunter2", "note": KEY}},
    "rollout": {
        "scheduling_spec": [
            {
                "env_vars": {"HF_TOKEN": "hunter2", "NCCL_DEBUG": "WARN"},
                "additional_bash_cmds": ["export WANDB_API_KEY=hunter2", "cd /srv/agent"],
            }
        ]
    },
    "scheduler": {"slurm": {"pre_commands": ["export MY_SECRET=hunter2"], "partition": "gpu"}},
    "stats_logger": {"wandb": {"wandb_api_key": "hunter2", "mode": "disabled"}},
}


def test_what_the_manifest_gets_holds_no_secret() -> None:
    config = Config.model_validate(SECRETS)
    text = json.dumps(config.public())
    assert "hunter2" not in text
    assert KEY not in text
    assert config.workflow_kwargs["search_api_key"] == "hunter2"
    for kept in ("WARN", "cd /srv/agent", "gpu", "127.0.0.1:2", "disabled"):
        assert kept in text


def test_a_configuration_comes_back_from_the_manifest_without_its_secrets_and_says_so() -> None:
    config = Config.model_validate(SECRETS)
    again, notes = load_config(
        None, ["workflow_kwargs.search_api_key=again"], base=json.loads(json.dumps(config.public()))
    )
    (note,) = notes
    for place in ("workflow_kwargs.search_api_key", "rollout.scheduling_spec[0].env_vars.HF_TOKEN", "base_url[0]"):
        assert place in note
    assert again.base_url == ("http://127.0.0.1:2/v1",)
    assert again.workflow_kwargs == {"search_api_key": "again", "depth": 3, "nested": {}}
    assert again.rollout.scheduling_spec[0].env_vars == {"NCCL_DEBUG": "WARN"}
    assert MARK not in json.dumps(again.public()).replace(f'"search_api_key": "{MARK}"', "")


def test_a_configuration_without_secrets_comes_back_whole() -> None:
    overrides = [
        "model=/m", "trial_name=01", "rollout.backend=sglang:d2t2", "rollout.reward_range=[-1, 1]",
        "gconfig.n_samples=4",
               "gconfig.temperature=0", "gconfig.stop=[a, b]", "eval_gconfig={n_samples: 2}", "vllm.extra_args=--a b",
        "roles={judge: {model: j, base_url: 'http://127.0.0.1:1/v1', gconfig: {temperature: 0}}}",
        "valid_dataset.template=a {c}", "workflow_kwargs.code=007", "scheduler.slurm.time=1:00:00",
    ]  # fmt: skip
    config, _ = load_config(None, overrides)
    again, notes = load_config(None, base=json.loads(json.dumps(config.public())))
    assert again == config
    assert again.sampling() == config.sampling() == {"temperature": 0.0, "stop": ["a", "b"]}
    assert again.n_samples == config.n_samples == 2
    assert notes == []


@pytest.mark.parametrize(
    "override",
    [
        f"model_x={KEY}", f"seed={KEY}", f"={KEY}", KEY, f"workflow_kwargs.api_key=[{KEY}", f"gconfig.{'x'}={KEY}",
        f"rollout.scheduling_spec={{env_vars: {{HF_TOKEN: [{KEY}]}}}}", f"base_url={{a: {KEY}}}",
        f"rollout.backend=sglang:{KEY}", f"gconfig.stop=[a: {KEY}",
    ],
)  # fmt: skip
def test_no_message_repeats_a_secret(override: str) -> None:
    with pytest.raises(ConfigError) as error:
        load_config(None, [override])
    assert KEY not in str(error.value)
    assert "abcdefghijkl" not in str(error.value)


def test_the_documentation_lists_every_key_as_the_code_has_it() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert renewed(page) == page, "run python -m agentflow.config.reference docs/configuration.md"


def examples() -> list[str]:
    return re.findall(r"```yaml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.parametrize("text", examples())
def test_every_example_of_the_documentation_loads(tmp_path: Path, text: str) -> None:
    file = tmp_path / "example.yaml"
    file.write_text(text)
    _, notes = load_config(file)
    assert notes == []


def test_the_examples_of_key_value_in_the_documentation_are_taken() -> None:
    section = PAGE.read_text(encoding="utf-8").partition("## key=value")[2].partition("## Keys")[0]
    given = [o for o in re.findall(r"`([\w.\[\]]+=[^`]*)`", section) if o[:4] != "key="]
    assert len(given) >= 6
    for override in given:
        load_config(None, [override.replace("'\"", '"').replace("\"'", '"')])


def test_importing_the_configuration_imports_nothing_heavy() -> None:
    """``agentflow --help`` must answer at once."""
    code = "import sys, agentflow.config, agentflow.allocation, agentflow.errors; print(*sys.modules)"
    modules = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "agentflow.config" in modules
    assert not {"pydantic", "omegaconf", "yaml", "antlr4", "openai", "numpy", "torch"} & set(modules)
    code = "import sys; from agentflow.config import Config, load_config; print(*sys.modules)"
    modules = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "pydantic" in modules
    assert not {"omegaconf", "antlr4", "openai", "numpy"} & set(modules)


@pytest.mark.parametrize("key", ["n_samples=3", "lora_name=mine", "max_tokens=99"])
def test_sampling_that_does_nothing_for_a_role_is_refused(key: str) -> None:
    name = key.partition("=")[0]
    with pytest.raises(ConfigError, match=rf"roles\.user has gconfig\.{name}, which does nothing for a role"):
        load_config(None, [f"roles.user.gconfig.{key}"])
    load_config(None, ["roles.user.gconfig.temperature=0", f"gconfig.{key}"])
