"""An engine that cannot start: one sentence with its own reason, no traceback, nothing left."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agentflow.errors import EXIT_ERROR
from tests.e2e.conftest import AGENTS, CommandLine, ours

FAILING = """\
#!/bin/sh
echo "(EngineCore pid=7) ERROR 11-29 17:31:56 [core.py:1510] ValueError: Free memory is less than desired." >&2
echo "RuntimeError: Engine core initialization failed. See root cause above." >&2
exit 1
"""


@pytest.fixture
def settings(tmp_path: Path) -> list[str]:
    checkpoint = tmp_path / "checkpoint"
    checkpoint.mkdir()
    (checkpoint / "config.json").write_text(json.dumps({"model_type": "qwen2"}))
    vllm = tmp_path / "vllm"
    vllm.write_text(FAILING)
    vllm.chmod(0o755)
    return ["--backend", "vllm:d1", "--model", str(checkpoint), f"vllm.command={vllm}", "cluster.n_gpus_per_node=0"]


def test_an_engine_that_cannot_start_ends_the_run_with_its_own_reason(
    agentflow: CommandLine, settings: list[str], tmp_path: Path
) -> None:
    (tmp_path / "rows.jsonl").write_text('{"id": "a"}\n')
    done = agentflow("run", f"{AGENTS}:Quick", "--data", "rows.jsonl", *settings)
    assert done.code == EXIT_ERROR, done.out
    assert "ValueError: Free memory is less than desired." in done.err
    assert "Traceback" not in done.out + done.err
    assert not ours(str(tmp_path))


def test_too_few_gpus_are_an_error_before_anything_starts(
    agentflow: CommandLine, settings: list[str], tmp_path: Path
) -> None:
    (tmp_path / "rows.jsonl").write_text('{"id": "a"}\n')
    agentflow.variables["CUDA_VISIBLE_DEVICES"] = "0,1,2"
    settings[1], settings[-1] = "vllm:d2t2", "seed=1"
    done = agentflow("run", f"{AGENTS}:Quick", "--data", "rows.jsonl", "trial_name=t", *settings)
    assert done.code != 0
    assert "worker needs 4 GPUs (2 copies of 2)" in done.err
    assert "Traceback" not in done.out + done.err
    assert not list(tmp_path.rglob("worker-*.log"))
