"""How the embedded engine is checked, rendered, and its metrics read."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from agentflow.channel.messages import EngineLoad, StartEngine
from agentflow.errors import ConfigError, MissingExtraError, UsageError
from agentflow.workers.engines import ENGINES
from agentflow.workers.engines.prometheus import samples
from agentflow.workers.llamacpp import server

ENGINE = ENGINES["llamacpp"]


def spec(model: Path | str = "m.gguf", tensor_parallel: int = 1, **options: Any) -> StartEngine:
    return StartEngine("llamacpp", str(model), "smol", "s3cr3t", "log", options, tensor_parallel=tensor_parallel)


@pytest.fixture
def gguf(tmp_path: Path) -> Path:
    (tmp_path / "m.gguf").write_bytes(b"GGUF....")
    return tmp_path / "m.gguf"


def test_the_command_carries_the_options_and_no_secret() -> None:
    launch = ENGINE.render(spec(n_parallel=2, n_ctx=512, n_threads=1, chat_template="own"), 21000)
    parsed = server.arguments(list(launch.argv[3:]))
    assert launch.argv[:3] == (sys.executable, "-m", "agentflow.workers.llamacpp.server")
    assert (parsed.port, parsed.n_parallel, parsed.n_ctx, parsed.n_threads) == (21000, 2, 512, 1)
    assert (parsed.chat_template, parsed.served_name, parsed.host) == ("own", "smol", "127.0.0.1")
    assert "s3cr3t" not in " ".join(launch.argv)
    assert launch.secret_env == {server.KEY_VARIABLE: "s3cr3t"}


def test_an_unknown_option_is_refused_with_the_nearest_known_one() -> None:
    with pytest.raises(ConfigError, match=r"llamacpp\.n_context is not an option: did you mean n_ctx\?"):
        ENGINE.render(spec(n_context=1), 1)


@pytest.mark.parametrize("options", [{"n_ctx": "big"}, {"n_parallel": 0}, {"n_ctx": 1.5}])
def test_an_option_of_the_wrong_kind_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="llamacpp"):
        ENGINE.render(spec(**options), 1)


def test_a_good_spec_passes(gguf: Path) -> None:
    ENGINE.check(spec(gguf))


def test_what_cannot_work_is_refused_before_it_is_started(gguf: Path, tmp_path: Path) -> None:
    (tmp_path / "other").write_bytes(b"PK")
    with pytest.raises(UsageError, match="not a file"):
        ENGINE.check(spec(tmp_path / "none"))
    with pytest.raises(UsageError, match="not a GGUF file"):
        ENGINE.check(spec(tmp_path / "other"))
    with pytest.raises(ConfigError, match="one process"):
        ENGINE.check(spec(gguf, tensor_parallel=2))
    with pytest.raises(ConfigError, match="chat_template"):
        ENGINE.check(spec(gguf, chat_template=str(tmp_path / "none.jinja")))


def test_without_xllamacpp_the_extra_is_named(gguf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match="extra 'llamacpp'"):
        ENGINE.check(spec(gguf))


METRICS = """\
# HELP llamacpp:prompt_tokens_total Number of prompt tokens processed, excluding cached tokens
# TYPE llamacpp:prompt_tokens_total counter
llamacpp:prompt_tokens_total 583
llamacpp:prompt_tokens_cached_total 261
llamacpp:tokens_predicted_total 34
llamacpp:requests_processing 4
llamacpp:requests_deferred 8
something else entirely
"""


def test_metrics_are_read_with_cached_tokens_among_the_prompts() -> None:
    assert ENGINE.load(METRICS) == EngineLoad(
        running=4, waiting=8, prompt_tokens=844, cached_tokens=261, generated_tokens=34
    )
    assert ENGINE.load("") == EngineLoad()


def test_prometheus_samples_are_added_up_over_their_labels() -> None:
    text = 'a{x="1",y="}"} 2\na{x="2"} 3 1700000000\nb 1e3\n\n# c 4\nd nope\n'
    assert samples(text) == {"a": 5.0, "b": 1000.0}
