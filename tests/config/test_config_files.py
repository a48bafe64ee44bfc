"""YAML files: what is taken, and the sentence for each that is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentflow.config import Config, load_config
from agentflow.errors import EXIT_USAGE, AllocationError, ConfigError


def write(folder: Path, text: str | bytes, name: str = "run.yaml") -> Path:
    file = folder / name
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return file


def refusal(path: Path | None, *overrides: str, base: dict | None = None) -> str:
    with pytest.raises(ConfigError) as error:
        load_config(path, overrides, base=base)
    message = str(error.value)
    assert "\n" not in message
    assert "Traceback" not in message
    assert error.value.exit_code == EXIT_USAGE
    return message


def test_defaults_need_no_file() -> None:
    config, notes = load_config(None)
    assert config == Config()
    assert notes == []
    assert config.rollout.backend == "llamacpp:d1"
    assert (config.n_samples, config.sampling(), config.checkpoint) == (1, {}, None)


@pytest.mark.parametrize(
    ("content", "line", "words"),
    [
        ("", None, "the file is empty"),
        ("# nothing\n", None, "the file is empty"),
        ("- a\n- b\n", 1, "not a list"),
        ("\njust words\n", 2, "not a single value"),
        ("seed: 1\ncluster:\n\tn_nodes: 2\n", 3, "a tab is used"),
        ("seed: 1\nmodel: a\nseed: 2\n", 3, "'seed' is set a second time; see line 1"),
        ("rollout:\n  runners: 1\n  runners: 2\n", 3, "'rollout.runners' is set a second time; see line 2"),
        ("seed: [1, 2\n", 2, "not YAML"),
        ("seed: 1\n---\nseed: 2\n", 2, "not YAML"),
        ("? [a, b]\n: 1\n", 1, "a key must be a single word"),
        ("seed: 1\nmodel: !!python/name:os.system x\n", None, "run.yaml"),
        (b"seed: 1\nmodel: caf\xe9\n", 2, "not UTF-8"),
        ("seed: 1\n".encode("utf-16"), 1, "not UTF-8"),
        ("gconfig: &g\n  stop: *g\n", None, "holds itself"),
    ],
)
def test_a_file_that_cannot_be_read_is_one_sentence_with_file_and_line(
    tmp_path: Path, content: str | bytes, line: int | None, words: str
) -> None:
    file = write(tmp_path, content)
    message = refusal(file)
    assert str(file) in message
    assert words in message
    if line is not None:
        assert f"line {line}" in message


def test_a_missing_file_and_a_folder_are_said(tmp_path: Path) -> None:
    assert "there is no such configuration file" in refusal(tmp_path / "no.yaml")
    assert "is a folder" in refusal(tmp_path)


def test_a_byte_order_mark_is_no_trouble(tmp_path: Path) -> None:
    assert load_config(write(tmp_path, b"\xef\xbb\xbfseed: 7\n"))[0].seed == 7


@pytest.mark.parametrize(
    ("content", "line", "unknown", "suggestion"),
    [
        ("rolout:\n  runners: 2\n", 1, "rolout", "'rollout'"),
        ("seed: 1\nrollout:\n  max_concurent_rollouts: 2\n", 3, "rollout.max_concurent_rollouts", "max_concurrent_"),
        ("gconfig:\n  temprature: 1\n", 2, "gconfig.temprature", "'gconfig.temperature'"),
        ("gconfig:\n  temperature: 1\n  episode_timeout: 5\n", 3, "gconfig.episode_timeout", "rollout.episode_timeout"),
        ("actor:\n  pth: x\n", 2, "actor.pth", "'actor.path'"),
        ("actor:\n  optimizer:\n    lrr: 1\n", 3, "actor.optimizer.lrr", "'actor.optimizer.lr'"),
        ("actor:\n  scheduling_spec:\n    - gpus: 1\n", 3, "actor.scheduling_spec[0].gpus", "scheduling_spec[0].gpu'"),
        ("ref:\n  pathh: x\n", 2, "ref.pathh", "'ref.path'"),
        ("saver:\n  freq_epoch: 1\n", 2, "saver.freq_epoch", "'saver.freq_epochs'"),
        ("sglang:\n  contxt_length: 1\n", 2, "sglang.contxt_length", "'sglang.context_length'"),
        ("vllm:\n  zzz: 1\n", 2, "vllm.zzz", "docs/configuration.md"),
        ("stats_logger:\n  wandb:\n    mod: x\n", 3, "stats_logger.wandb.mod", "'stats_logger.wandb.mode'"),
        ("roles:\n  judge:\n    modle: x\n", 3, "roles.judge.modle", "'roles.judge.model'"),
        ("scheduler:\n  slurm:\n    partion: x\n", 3, "scheduler.slurm.partion", "'scheduler.slurm.partition'"),
        ("seed: 1\nrollout.backend: sglang:d4\n", 2, "rollout.backend", "write 'backend' below 'rollout:'"),
        ("evaluater:\n  freq_steps: 1\n", 1, "evaluater", "'evaluator'"),
    ],
)
def test_an_unknown_key_is_refused_with_its_line_and_the_nearest_name(
    tmp_path: Path, content: str, line: int, unknown: str, suggestion: str
) -> None:
    message = refusal(write(tmp_path, content))
    assert f"Unknown key '{unknown}'" in message
    assert f"line {line}:" in message
    assert suggestion in message


@pytest.mark.parametrize(
    ("key", "value", "rule"),
    [
        ("seed", "one", "must be a whole number, not 'one'"),
        ("seed", "true", "must be a number, not true or false"),
        ("seed", "1.5", "must be a whole number"),
        ("gconfig.n_samples", "0", "must be 1 or more, not 0"),
        ("gconfig.temperature", "-1", "must be 0"),
        ("gconfig.temperature", "hot", "must be a number"),
        ("gconfig.temperature", ".inf", "must be"),
        ("gconfig.top_p", "0", "must be more than 0"),
        ("gconfig.top_p", "1.5", "must be 1"),
        ("gconfig.greedy", "maybe", "must be true or false"),
        ("rollout.request_timeout", "0", "must be more than 0"),
        ("rollout.episode_timeout", "-5", "must be more than 0"),
        ("rollout.cancel_grace", ".nan", "must be"),
        ("rollout.setup_timeout", ".inf", "must be finite"),
        ("rollout.request_retries", "-1", "must be 0 or more"),
        ("rollout.max_concurrent_rollouts", "0", "must be a number of 1 or more, or auto, not 0"),
        ("rollout.max_concurrent_rollouts", "many", "must be a number of 1 or more, or auto"),
        ("rollout.max_concurrent_rollouts", "2.5", "must be a number of 1 or more"),
        ("rollout.max_concurrent_rollouts", ".inf", "must be a number of 1 or more"),
        ("rollout.runners", "none", "or auto or inline"),
        ("rollout.reward_range", "[1, 0]", "lowest, then highest"),
        ("rollout.reward_range", "[1, 1]", "lowest, then highest"),
        ("rollout.reward_range", "[0]", "is missing"),
        ("rollout.reward_range", "1", "must be a list"),
        ("rollout.http_client", "requests", "must be 'httpx2' or 'httpx'"),
        ("rollout.agent", "inline", "must be a section of keys"),
        ("rollout", "5", "must be a section of keys"),
        ("scheduler.type", "kubernetes", "must be 'local', 'ray' or 'slurm'"),
        ("cluster.n_nodes", "0", "must be 1 or more"),
        ("cluster.n_gpus_per_node", "-1", "must be 0 or more"),
        ("experiment_name", "a/b", "one folder"),
        ("trial_name", "'..'", "one folder"),
        ("valid_dataset.limit", "0", "must be 1 or more"),
        ("roles", "{judge: {model: x}}", "no base_url"),
        ("vllm.extra_args", "--api-key abc", "must not hold an API key"),
        ("vllm.command", "apptainer 'a", "as a shell takes them"),
        ("base_url", "localhost:8000", "must be addresses that begin with http"),
        ("roles", "{judge: {model: x, base_url: []}}", "no base_url"),
        ("rollout.scheduling_spec", "[{env_vars: {A: null}}]", "must be text, not null"),
    ],
)
def test_a_value_of_the_wrong_kind_is_refused_by_its_key(tmp_path: Path, key: str, value: str, rule: str) -> None:
    on_command_line = refusal(None, f"{key}={value}")
    assert key in on_command_line
    assert "on the command line" in on_command_line
    assert rule in on_command_line

    indent = [f"{'  ' * i}{name}:" for i, name in enumerate(key.split("."))]
    file = write(tmp_path, "\n".join(indent) + f" {value}\n")
    in_file = refusal(file)
    assert rule in in_file
    assert f"{file} line {len(indent)}" in in_file


def test_a_broken_backend_is_refused_with_its_place(tmp_path: Path) -> None:
    file = write(tmp_path, "rollout:\n  backend: sglang:d4d4\n")
    with pytest.raises(AllocationError, match=r"rollout.backend in .*run.yaml line 2: .*at character 10"):
        load_config(file)


def test_several_wrong_values_are_named_together() -> None:
    message = refusal(None, "seed=x", "gconfig.n_samples=0")
    assert message.startswith("seed ")
    assert "Also wrong: gconfig.n_samples." in message


def test_interpolation_reaches_other_keys_ignored_sections_and_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_ROOT", "/scratch/me")
    text = """
        train_dataset: {batch_size: 32}
        mine: {limit: 5}
        cluster: {fileroot: "${oc.env:MY_ROOT}/runs"}
        trial_name: ${oc.env:NO_SUCH_VARIABLE,first}
        rollout:
          max_concurrent_rollouts: ${train_dataset.batch_size}
        valid_dataset: {limit: "${mine.limit}", name: "${trial_name}-data"}
    """
    config, _ = load_config(write(tmp_path, text))
    assert config.rollout.max_concurrent_rollouts == 32
    assert config.cluster.fileroot == "/scratch/me/runs"
    assert (config.valid_dataset.limit, config.valid_dataset.name) == (5, "first-data")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("model: ${nowhere}\n", "points to a key that is not there"),
        ("model: ${actor.path}\nactor:\n  dtype: x\n", "points to a key that is not there"),
        ("model: ${oc.env:NO_SUCH_VARIABLE}\n", "NO_SUCH_VARIABLE"),
        ("model: ${magic:1}\n", "resolver"),
        ("model: a${\n", "a literal ${ is written"),
        ("model: ???\n", "asks for a value: add model=value"),
        ("model: ${model}\n", "cannot be"),
        ("rollout: ${nowhere}\n", "points to a key that is not there"),
        ("gconfig:\n  stop: [a, '${nowhere}']\n", "points to a key that is not there"),
    ],
)
def test_what_cannot_be_resolved_is_one_sentence(tmp_path: Path, content: str, words: str) -> None:
    message = refusal(write(tmp_path, content))
    assert words in message
    assert content.split(":")[0] in message
    assert "run.yaml line" in message


def test_an_unset_variable_in_an_ignored_or_dropped_key_is_no_trouble(tmp_path: Path) -> None:
    text = """
        saver: {fileroot: "${oc.env:NO_SUCH_VARIABLE}"}
        econfig: {url: "${oc.env:NO_SUCH_VARIABLE}"}
        rollout:
          agent: {admin_api_key: "${oc.env:NO_SUCH_VARIABLE}"}
          scheduling_spec: [{cmd: "${oc.env:NO_SUCH_VARIABLE} -m x"}]
    """
    _, notes = load_config(write(tmp_path, text))
    assert any("cmd" in note for note in notes)


def test_text_stays_text_as_it_is_written(tmp_path: Path) -> None:
    text = """
        trial_name: 007
        experiment_name: 1e5
        scheduler: {slurm: {time: 12:30:00, account: 0123, qos: on}}
        rollout: {scheduling_spec: {env_vars: {LEVEL: 010, RATE: 1.50}}}
        gconfig: {stop: [007, no]}
    """
    config, _ = load_config(write(tmp_path, text))
    slurm = config.scheduler.slurm
    assert (config.trial_name, config.experiment_name) == ("007", "1e5")
    assert (slurm.time, slurm.account, slurm.qos) == ("12:30:00", "0123", "on")
    assert config.rollout.scheduling_spec[0].env_vars == {"LEVEL": "010", "RATE": "1.50"}
    assert config.gconfig.stop == ("007", "no")


def test_null_means_not_set(tmp_path: Path) -> None:
    text = "seed: null\nsglang: null\neval_gconfig: null\nscheduler: {type: null}\ngconfig: {stop: null}\nrollout: ~\n"
    config, _ = load_config(write(tmp_path, text))
    assert config == Config()


def test_one_value_stands_for_a_list_of_one(tmp_path: Path) -> None:
    text = "base_url: http://127.0.0.1:1/v1\ngconfig: {stop: END}\nvllm: {command: apptainer exec 'a b.sif' vllm}\n"
    config, _ = load_config(write(tmp_path, text))
    assert config.base_url == ("http://127.0.0.1:1/v1",)
    assert config.gconfig.stop == ("END",)
    assert config.vllm.command == ("apptainer", "exec", "a b.sif", "vllm")


def test_hydras_defaults_list_is_followed(tmp_path: Path) -> None:
    (tmp_path / "math").mkdir()
    write(
        tmp_path / "math", "seed: 5\ngconfig: {n_samples: 4, temperature: 1.0}\nsaver: {freq_steps: 1}\n", "base.yaml"
    )
    (tmp_path / "dte").mkdir()
    file = write(tmp_path / "dte", "defaults:\n  - ../math/base@_global_\n  - _self_\ngconfig: {n_samples: 8}\n")
    config, _ = load_config(file)
    assert config.seed == 5
    assert config.sampling() == {"temperature": 1.0}
    assert config.n_samples == 8


@pytest.mark.parametrize(
    ("defaults", "words"),
    [
        ("[missing]", "missing.yaml, which does not exist"),
        ("[{db: mysql}]", "only file names"),
        ("[other@db]", "'@_global_'"),
        ("nothing", "must be a list"),
        ("[run]", "leads back to itself"),
    ],
)
def test_a_defaults_list_that_cannot_be_followed_is_said(tmp_path: Path, defaults: str, words: str) -> None:
    assert words in refusal(write(tmp_path, f"defaults: {defaults}\nseed: 1\n"))
