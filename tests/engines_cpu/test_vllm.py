"""A real vLLM on the CPU, started by the local scheduler: the example agent, tools, every API, twice.

One engine at a time, since one takes all cores. Run by .ci/vllm.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from agentflow.episode import Kind, Outcome
from agentflow.store import read_calls, read_results
from agentflow.workers.smollm2 import embedded_model
from tests.e2e.conftest import ROOT, CommandLine, agentflow, lines, ours, until
from tests.engines_cpu.engine_run import (
    START_S,
    all_gone,
    command_of,
    engine_processes,
    key_is_nobodys,
    play,
    run_of,
    served_url,
    status,
    wait_for_engine,
)
from tests.engines_cpu.environments import environment, python_of

__all__ = ["agentflow"]

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(1200)]

HERE = Path(__file__).parent
EXAMPLE = ROOT / "examples" / "math" / "agent.py"
TOOLS_TEMPLATE = ROOT / "agentflow" / "workers" / "llamacpp" / "chatml_tools.jinja"
PROBES = ("chat_tools", "responses_tools", "messages", "completions", "stream", "cached", "overflow")


@pytest.fixture(scope="session")
def checkpoint() -> Path:
    """SmolLM2-135M as a Hugging Face checkpoint, made once of the embedded model and kept beside vLLM."""
    folder = environment("vllm") / "SmolLM2-135M-Instruct"
    if not (folder / "chat_template.jinja").is_file():  # what is written last
        script = HERE / "smollm2_checkpoint.py"
        quiet = {**os.environ, "PYTHONPATH": "", "TQDM_DISABLE": "1"}
        subprocess.run([python_of("vllm"), script, embedded_model(), folder], check=True, env=quiet, timeout=300)
    return folder


def settings(checkpoint: Path, trial: str) -> list[str]:
    return [
        *("--backend", "vllm:d1", "--model", str(checkpoint), f"vllm.command={environment('vllm')}/bin/vllm"),
        *("cluster.n_gpus_per_node=0", "vllm.enforce_eager=true", "vllm.gpu_memory_utilization=0.25"),
        *("vllm.max_model_len=2048", "vllm.max_num_seqs=16", f"vllm.chat_template={TOOLS_TEMPLATE}"),
        *("gconfig.temperature=0", "rollout.runners=1", f"trial_name={trial}"),
    ]


def test_the_example_runs_twice_through_the_responses_api_and_the_prefix_cache_is_warm(
    agentflow: CommandLine, checkpoint: Path
) -> None:
    played = []
    for trial in ("a", "b"):
        run, out = play(
            agentflow, trial, [str(EXAMPLE), "--limit", "8", "--n-samples", "2", "--max-concurrent", "4",
                               "gconfig.max_new_tokens=48", *settings(checkpoint, trial)],
        )  # fmt: skip
        results = read_results(run)
        assert len(results) == 16
        assert {r.outcome for r in results} <= {Outcome.SCORED, Outcome.FAILED}, out
        assert {c.api for r in results for c in r.calls} == {"/v1/responses"}
        assert "tool_call_parser is hermes, guessed" in out
        cached = sum(c.cached_tokens for r in results for c in r.calls)
        prompts = sum(c.prompt_tokens for r in results for c in r.calls)
        # The instructions and the tools open every prompt, and each problem is asked twice.
        assert cached > prompts / 3, (cached, prompts)
        assert "cached)" in out
        summary = json.loads((run / "summary.json").read_text())
        assert summary["workers"][0]["cached_share"] == pytest.approx(cached / prompts)
        played.append(sorted(r.id for r in results))
    assert played[0] == played[1]


def test_tools_and_every_api_work_and_the_key_is_nobodys(agentflow: CommandLine, checkpoint: Path) -> None:
    rows = agentflow.cwd / "rows.jsonl"
    rows.write_text("".join(json.dumps({"id": name, "try": name}) + "\n" for name in PROBES))
    process = agentflow.background(
        "run", str(HERE / "probe_agent.py"), "--data", str(rows), "--max-concurrent", "2", *settings(checkpoint, "t")
    )
    run = run_of(agentflow, "t")
    wait_for_engine(run, process)
    engine = engine_processes(agentflow)
    key = next(e["VLLM_API_KEY"] for p in engine if (e := p.environ()).get("VLLM_API_KEY"))
    url = served_url(run)
    assert (status(url + "/v1/models"), status(url + "/v1/models", key)) == (401, 200)
    out, _ = process.communicate(timeout=START_S)
    assert process.returncode == 0, out
    results = {r.id.partition("/")[0]: r for r in read_results(run)}
    wrong = {name: r.error for name, r in results.items() if r.reward != 1.0 and name != "overflow"}
    assert not wrong, (wrong, out)
    assert results["overflow"].kind is Kind.CONTEXT_OVERFLOW, results["overflow"]
    assert read_calls(run, results["responses_tools"])[0]["call"]["api"] == "/v1/responses"
    key_is_nobodys(run, key)
    assert all_gone(engine)


def test_an_engine_that_dies_in_the_middle_is_restarted_and_no_episode_is_lost_or_failed_for_it(
    agentflow: CommandLine, checkpoint: Path
) -> None:
    process = agentflow.background(
        "run", str(EXAMPLE), "--limit", "12", "--max-concurrent", "4", "gconfig.max_new_tokens=64",
        *settings(checkpoint, "t"),
    )  # fmt: skip
    run = run_of(agentflow, "t")
    until(lambda: len(lines(run / "episodes.jsonl")) >= 2 or process.poll() is not None, "two results", START_S)
    engine = engine_processes(agentflow)
    core = next(p for p in engine if "EngineCore" in command_of(p))
    os.kill(core.pid, signal.SIGKILL)
    out, _ = process.communicate(timeout=2 * START_S)
    assert process.returncode == 0, out
    results = read_results(run)
    assert len(results) == 12
    assert not [r for r in results if r.outcome is Outcome.LOST]
    assert not [r for r in results if r.kind is Kind.SERVER_ERROR], [r.error for r in results]
    assert not ours(str(agentflow.cwd))
    assert all_gone(engine)
