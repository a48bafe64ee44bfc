"""key=value on the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agentflow.config import Config, load_config
from agentflow.controller.options import flags_of, overrides_of
from agentflow.errors import ConfigError, UsageError


def at(config: Config, key: str) -> Any:
    value: Any = config
    for name in key.split("."):
        value = value[name] if isinstance(value, dict) else getattr(value, name)
    return value


@pytest.mark.parametrize(
    ("override", "key", "value"),
    [
        ("trial_name=01", "trial_name", "01"),
        ("trial_name=1e5", "trial_name", "1e5"),
        ("trial_name=true", "trial_name", "true"),
        ("trial_name=null", "trial_name", None),
        ("trial_name=", "trial_name", None),
        ("trial_name='null'", "trial_name", "null"),
        ('trial_name="01"', "trial_name", "01"),
        ("model=sglang:d4", "model", "sglang:d4"),
        ("model=a=b", "model", "a=b"),
        ("model= spaced ", "model", "spaced"),
        ("rollout.backend=sglang:d4", "rollout.backend", "sglang:d4"),
        ("+rollout.backend=vllm:d2t4", "rollout.backend", "vllm:d2t4"),
        ("++rollout.backend=vllm:d2t4", "rollout.backend", "vllm:d2t4"),
        ("rollout.reward_key=", "rollout.reward_key", ""),
        ("rollout.request_timeout=1e3", "rollout.request_timeout", 1000.0),
        ("rollout.seed_requests=false", "rollout.seed_requests", False),
        ("rollout.max_concurrent_rollouts=auto", "rollout.max_concurrent_rollouts", "auto"),
        ("rollout.max_concurrent_rollouts=8", "rollout.max_concurrent_rollouts", 8),
        ("rollout.reward_range=[-1, 1]", "rollout.reward_range", (-1.0, 1.0)),
        ("gconfig.stop=['\\n', END]", "gconfig.stop", ("\\n", "END")),
        ('gconfig.stop=["\\n"]', "gconfig.stop", ("\n",)),
        ("gconfig.stop=END", "gconfig.stop", ("END",)),
        ("base_url=[http://a:1/v1,http://b:2/v1]", "base_url", ("http://a:1/v1", "http://b:2/v1")),
        ("scheduler={type: ray, ray: {address: auto}}", "scheduler.ray.address", "auto"),
        ("scheduler.type=null", "scheduler.type", "local"),
        ("scheduler.slurm.time=1:30:00", "scheduler.slurm.time", "1:30:00"),
        ("valid_dataset.template=Question: {question}", "valid_dataset.template", "Question: {question}"),
        ("valid_dataset.template='# {question}'", "valid_dataset.template", "# {question}"),
        ("workflow_kwargs.level=3", "workflow_kwargs", {"level": 3}),
        ("workflow_kwargs.code=007", "workflow_kwargs", {"code": "007"}),
        ("workflow_kwargs.at=1:30", "workflow_kwargs", {"at": "1:30"}),
        ("workflow_kwargs.mark=#a #b", "workflow_kwargs", {"mark": "#a #b"}),
        ("valid_dataset.template=# {q} #", "valid_dataset.template", "# {q} #"),
        ("workflow_kwargs.rate=1e-3", "workflow_kwargs", {"rate": 0.001}),
        ("workflow_kwargs.names=[a, 'b c']", "workflow_kwargs", {"names": ["a", "b c"]}),
        ("workflow_kwargs={a: {b: 1}}", "workflow_kwargs", {"a": {"b": 1}}),
        ("workflow_kwargs.a.b=x", "workflow_kwargs", {"a": {"b": "x"}}),
        ("vllm.extra_args=--swap-space 4 --kv 'a b'", "vllm.extra_args", ("--swap-space", "4", "--kv", "a b")),
        ("tokenizer_path=${model}", "tokenizer_path", None),
    ],
)
def test_a_value_is_read_as_what_the_key_takes(override: str, key: str, value: object) -> None:
    config, _ = load_config(None, ["model=null", override] if "${" in override else [override])
    assert at(config, key) == value


def test_overrides_win_over_the_file_and_later_ones_over_earlier(tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text("seed: 1\nactor: {path: a}\nsglang: {model_path: '${actor.path}'}\nvalid_dataset: null\n")
    config, _ = load_config(file, ["seed=2", "seed=3", "actor.path=b", "valid_dataset.limit=4"])
    assert (config.seed, config.actor.path, config.sglang.model_path) == (3, "b", "b")
    assert config.valid_dataset.limit == 4


def test_an_override_that_points_elsewhere_is_not_taken_for_the_text_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text("seed: 5\ntrial_name: 007\n")
    assert load_config(file, ["trial_name=${seed}"])[0].trial_name == "5"


def test_items_of_a_list_are_reached_by_number(tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text("rollout: {scheduling_spec: [{gpu: 1, env_vars: {A: x}}]}\n")
    config, _ = load_config(file, ["rollout.scheduling_spec[0].mem=64", "rollout.scheduling_spec.0.env_vars.LEVEL=010"])
    (spec,) = config.rollout.scheduling_spec
    assert (spec.gpu, spec.mem, spec.env_vars) == (1, 64, {"A": "x", "LEVEL": "010"})
    config, _ = load_config(None, ["rollout.scheduling_spec[0].mem=64", "gconfig.stop[0]=END", "gconfig.stop[1]=STOP"])
    assert config.rollout.scheduling_spec[0].mem == 64
    assert config.gconfig.stop == ("END", "STOP")


def test_roles_can_be_given_on_the_command_line() -> None:
    config, _ = load_config(None, ["roles.judge.model=007", "roles.judge.base_url=http://127.0.0.1:1/v1"])
    assert config.roles["judge"].model == "007"
    assert config.roles["judge"].base_url == ("http://127.0.0.1:1/v1",)


def test_a_role_without_endpoints_is_played_by_the_default_role_with_sampling_of_its_own() -> None:
    config, _ = load_config(None, ["roles.user.gconfig.temperature=0", "gconfig.temperature=0.9"])
    assert config.roles["user"].is_shared
    assert config.roles["user"].gconfig.sampling() == {"temperature": 0.0}
    assert config.sampling() == {"temperature": 0.9}


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("roles.user.model=other", "no base_url"),
        ("roles.user.base_url=http://127.0.0.1:1/v1", "needs a model"),
    ],
)
def test_a_role_has_both_endpoints_and_a_model_or_neither(override: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as error:
        load_config(None, [override])
    assert "roles.user" in str(error.value)


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("seed", "write key=value"),
        ("", "write key=value"),
        ("=5", "no key before '='"),
        ("a b=5", "is no key"),
        ("-x=5", "is no key"),
        ("a..b=5", "is no key"),
        ("~seed", "write key=value"),
        ("~seed=", "set it back to its default"),
        ("rolout.backend=x", "'rollout'"),
        ("mine=1", "Unknown key 'mine' on the command line"),
        ("data=test.jsonl", "give --data FILE."),
        ("tools=mytools.py", "give --tools FILE.py."),
        ("n_samples=4", "did you mean 'gconfig.n_samples'?"),
        ("rollout.max_concurrent=4", "'rollout.max_concurrent_rollouts'"),
        ("gconfig.temperature.x=4", "gconfig.temperature"),
        ("roles.judge.modle=x", "roles.judge.modle"),
        ("rollout.scheduling_spec[0].gpus=4", "'rollout.scheduling_spec.gpu'"),
        ("rollout.scheduling_spec[3].gpu=4", "cannot be set"),
        ("gconfig.stop=[a", "is not YAML"),
        ("workflow_kwargs={a: 1", "is not YAML"),
        ("workflow_kwargs.x=a: b: c", "put it in quotes"),
        ("gconfig.stop_token_ids=[a]", "must be a whole number"),
    ],
)
def test_an_override_that_cannot_be_taken_is_one_sentence(override: str, words: str) -> None:
    with pytest.raises(ConfigError) as error:
        load_config(None, [override])
    assert words in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"limit": 0}, "--limit (valid_dataset.limit) must be 1 or more, not 0."),
        ({"n_samples": 0}, "--n-samples (gconfig.n_samples) must be 1 or more, not 0."),
        ({"base_url": ["127.0.0.1:9"]}, "--base-url (base_url) must be addresses that begin with http"),
        ({"backend": "vlm:d1"}, "--backend (rollout.backend): "),
    ],
)
def test_a_value_that_came_by_an_option_is_refused_by_the_options_name(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UsageError) as error:
        load_config(None, overrides_of(options), options=flags_of(options))
    assert str(error.value).startswith(sentence)


def test_a_key_that_was_typed_after_an_option_is_refused_by_its_own_name() -> None:
    options = {"limit": 3}
    with pytest.raises(ConfigError, match=r"^valid_dataset\.limit on the command line must be"):
        load_config(None, [*overrides_of(options), "valid_dataset.limit=0"], options=flags_of(options))


def test_a_key_of_ones_own_may_be_set_where_the_file_has_it(tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text("econfig: {domain: airline}\nmine: {limit: 1}\nvalid_dataset: {limit: '${mine.limit}'}\n")
    config, _ = load_config(file, ["mine.limit=9", "econfig.domain=retail", "saver.freq_steps=5"])
    assert config.valid_dataset.limit == 9


def test_gconfig_on_the_command_line_holds_where_the_file_has_an_eval_gconfig(tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text("gconfig: {n_samples: 4, temperature: 1}\neval_gconfig: {n_samples: 2, temperature: 0}\n")
    config, notes = load_config(file)
    assert (config.n_samples, config.sampling()) == (2, {"temperature": 0.0})
    assert notes == []
    config, notes = load_config(file, ["gconfig.n_samples=16"])
    assert (config.n_samples, config.sampling()) == (16, {"temperature": 0.0})
    assert any("gconfig.n_samples" in note for note in notes)
    config, notes = load_config(file, ["gconfig.n_samples=16", "eval_gconfig.n_samples=3"])
    assert config.n_samples == 3
