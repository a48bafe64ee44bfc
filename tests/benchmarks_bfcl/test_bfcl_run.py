"""``agentflow run bfcl`` from the outside: a real controller, real runners, a scripted model, and a real one."""

from __future__ import annotations

import json
import re
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from benchmarks.bfcl.data import rows
from tests.benchmark_page import play_documented, refused_without
from tests.e2e.conftest import CommandLine, agentflow, endpoint, lines, scripted_process

__all__ = ["agentflow", "endpoint"]  # fixtures

SMALLEST = "multi_turn_base_100"  # two turns and 20 functions: about 2,500 tokens of prompt
SMALL = ("gconfig.max_new_tokens=16", "llamacpp.n_ctx=4096", "llamacpp.n_parallel=1")
ENGINE_DEADLINE_S = 420  # two busy cores read 10 tokens/s


def golden_server(*arguments: str) -> AbstractContextManager[str]:
    """URL of the server that plays the golden calls."""
    return scripted_process("benchmarks.bfcl.scripted", *arguments)


def summary(cwd: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((cwd / "runs" / "agentflow" / "t" / "summary.json").read_text())
    return found


@pytest.mark.bfcl
def test_the_golden_calls_through_the_whole_of_agentflow_score_200_of_200_at_32_at_once(agentflow: CommandLine) -> None:
    with golden_server("multi_turn_base") as url:
        done = agentflow(
            "run", "bfcl", "--data", "bfcl:multi_turn_base", "--base-url", url, "--max-concurrent", "32", "trial_name=t"
        )
    assert done.code == 0, done.out + done.err
    found = summary(agentflow.cwd)
    assert (found["reward"]["mean"], found["reward"]["items"], found["counts"]["scored"]) == (1.0, 200, 200)
    assert found["groups"]["category"]["multi_turn_base"]["items"] == 200
    shown = agentflow("show", "runs/agentflow/t", "--episode", "multi_turn_base_0/0").out
    for part in ("Move 'final_report.pdf'", 'cd({"folder":"document"})', "moved to 'temp/final_report.pdf'"):
        assert part in shown, "every turn, call and result"


@pytest.mark.bfcl
@pytest.mark.parametrize("drop", ["first", "last", "all"])
def test_the_same_with_a_call_left_out_scores_nothing(agentflow: CommandLine, drop: str) -> None:
    with golden_server("multi_turn_base", "--drop", drop) as url:
        done = agentflow("run", "bfcl", "--base-url", url, "--limit", "24", "--max-concurrent", "16", "trial_name=t")
    assert done.code == 0, done.out + done.err
    found = summary(agentflow.cwd)
    assert (found["reward"]["mean"], found["counts"]["scored"]) == (0.0, 24)


@pytest.mark.bfcl
@pytest.mark.parametrize("category", ["multi_turn_miss_func", "multi_turn_miss_param", "multi_turn_long_context"])
def test_the_other_categories_play_their_golden_calls_as_well(agentflow: CommandLine, category: str) -> None:
    with golden_server(category) as url:
        done = agentflow(
            "run", "bfcl", "--data", f"bfcl:{category}", "--base-url", url, "--limit", "24", "--shuffle",
            "--max-concurrent", "16", "trial_name=t",
        )  # fmt: skip
    assert done.code == 0, done.out + done.err
    assert summary(agentflow.cwd)["groups"]["category"][category]["mean"] == 1.0


@pytest.mark.bfcl
def test_with_several_samples_all_k_must_pass_and_the_run_goes_on_from_another_directory(
    agentflow: CommandLine, tmp_path: Path
) -> None:
    with golden_server("multi_turn_base") as url:
        first = agentflow("run", "bfcl", "--base-url", url, "--limit", "3", "trial_name=t")
        assert first.code == 0, first.out + first.err
        run_dir = tmp_path / "runs" / "agentflow" / "t"
        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir()
        more = CommandLine(elsewhere)("resume", str(run_dir), "--n-samples", "2")
    assert more.code == 0, more.out + more.err
    assert re.search(r"pass\^2 +1.000", more.out)
    hat = {one["k"]: one["value"] for one in summary(agentflow.cwd)["pass_hat"]}
    assert hat == {1: 1.0, 2: 1.0}
    assert len(lines(run_dir / "episodes.jsonl")) == 6


@pytest.mark.bfcl
@pytest.mark.engine
@pytest.mark.timeout(ENGINE_DEADLINE_S + 60)
def test_on_the_embedded_model_it_runs_from_end_to_end(agentflow: CommandLine) -> None:
    row = next(row for row in rows("multi_turn_base") if row["id"] == SMALLEST)
    (agentflow.cwd / "one.jsonl").write_text(json.dumps(row) + "\n")
    process = agentflow.background("run", "bfcl", "--data", "one.jsonl", "trial_name=t", *SMALL)
    out, _ = process.communicate(timeout=ENGINE_DEADLINE_S)
    assert process.returncode == 0, out
    (episode,) = lines(agentflow.cwd / "runs" / "agentflow" / "t" / "episodes.jsonl")
    assert episode["outcome"] == "scored", "the model may do nothing right, but that is a score"
    assert len(episode["calls"]) >= row["turns"]  # type: ignore[arg-type]
    assert all(call["status"] == 200 for call in episode["calls"])  # type: ignore[attr-defined]


def test_without_the_package_one_sentence_says_how_to_install_it(agentflow: CommandLine, endpoint: str) -> None:
    refused_without(agentflow, "bfcl", "bfcl-eval", endpoint)


@pytest.mark.bfcl
def test_the_commands_of_the_page_work(agentflow: CommandLine) -> None:
    with golden_server("multi_turn_base") as url:
        play_documented(agentflow, "bfcl", ENDPOINT=url)
