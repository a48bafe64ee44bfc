"""A real SGLang on the CPU with a tiny random model, started by the local scheduler. Run by .ci/sglang."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
import yaml

from agentflow.episode import Kind
from agentflow.store import read_results
from tests.e2e.conftest import CommandLine, agentflow, ours, until
from tests.engines_cpu.engine_run import (
    all_gone,
    engine_processes,
    key_is_nobodys,
    run_of,
    served_url,
    status,
    wait_for_engine,
)
from tests.engines_cpu.environments import environment, python_of

__all__ = ["agentflow"]

pytestmark = [pytest.mark.sglang, pytest.mark.timeout(900)]

HERE = Path(__file__).parent
PROBES = ("responses", "messages", "completions", "stream", "cached", "overflow")


@pytest.fixture(scope="session")
def checkpoint() -> Path:
    folder = environment("sglang") / "tiny-llama"
    if not (folder / "tokenizer_config.json").is_file():  # what is written last
        quiet = {**os.environ, "PYTHONPATH": ""}
        subprocess.run([python_of("sglang"), HERE / "tiny_checkpoint.py", folder], check=True, env=quiet, timeout=300)
    return folder


def settings(checkpoint: Path) -> list[str]:
    cpu = "--device cpu --max-total-tokens 4096 --grammar-backend none"
    return [
        *("--backend", "sglang:d1", "--model", str(checkpoint), "cluster.n_gpus_per_node=0", "trial_name=t"),
        *(f"sglang.command={python_of('sglang')}", "sglang.attention_backend=torch_native", f"sglang.extra_args={cpu}"),
        *("sglang.sampling_backend=pytorch", "sglang.mem_fraction_static=0.2", "sglang.disable_cuda_graph=true"),
        *("sglang.disable_overlap_schedule=true", "sglang.context_length=2048", "rollout.runners=1"),
        *("rollout.agent.tool_call_parser=none", "gconfig.temperature=0"),
    ]


def test_a_tiny_model_serves_every_api_reports_its_cache_and_keeps_its_key(
    agentflow: CommandLine, checkpoint: Path
) -> None:
    agentflow.variables["SGLANG_USE_CPU_ENGINE"] = "1"
    rows = agentflow.cwd / "rows.jsonl"
    rows.write_text("".join(json.dumps({"id": name, "try": name}) + "\n" for name in PROBES))
    process = agentflow.background("run", str(HERE / "probe_agent.py"), "--data", str(rows), *settings(checkpoint))
    run = run_of(agentflow, "t")
    until(lambda: bool(key_files(run)) or process.poll() is not None, "the start of SGLang")
    [key_file] = key_files(run)
    assert key_file.stat().st_mode & 0o777 == 0o600
    key = yaml.safe_load(key_file.read_text())["api-key"]
    wait_for_engine(run, process)
    engine = engine_processes(agentflow)
    url = served_url(run)
    assert (status(url + "/v1/models"), status(url + "/v1/models", key)) == (401, 200)
    out, _ = process.communicate(timeout=400)
    assert process.returncode == 0, out
    results = {r.id.partition("/")[0]: r for r in read_results(run)}
    wrong = {name: r.error for name, r in results.items() if r.reward != 1.0 and name != "overflow"}
    assert not wrong, (wrong, out)
    assert results["overflow"].kind is Kind.CONTEXT_OVERFLOW, results["overflow"]
    key_is_nobodys(run, key)
    assert all_gone(engine)
    assert not ours(str(agentflow.cwd))


def key_files(run: Path) -> list[Path]:
    """Written, not only made."""
    return [p for p in (run / "logs").glob("*.sglang-key.yaml") if p.stat().st_size]
