"""Short names, the reward that suits the data, and arguments that are no plain data: through the real command line."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentflow import Config, evaluate_sync, load_config
from agentflow.agents.loader import check_agent, import_agent
from agentflow.agents.spec import agent_spec
from agentflow.channel.messages import AgentSpec
from agentflow.errors import AgentLoadError, UsageError
from agentflow.store import read_manifest, read_results
from agentflow.workflows import RLVRWorkflow
from agentflow.workflows.ready_made import NAMES, is_ready_made, with_reward
from tests.e2e.conftest import CommandLine, scripted_process

ROW = {"messages": [{"role": "user", "content": "?"}], "answer": "1"}


@pytest.fixture
def agentflow(tmp_path: Path) -> CommandLine:
    return CommandLine(tmp_path)


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with scripted_process() as url:
        yield url


def written(path: Path, *rows: dict[str, Any]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


GSM8K = {"question": "How many?", "answer": "It is\n#### 1,234", "kind": "a"}
MATH = {"problem": "What?", "answer": "\\frac12", "level": 3}


def some_tool(a: int) -> int:
    return a


def run_dir(agentflow: CommandLine) -> Path:
    return agentflow.cwd / "runs" / "agentflow" / "t"


@pytest.mark.parametrize("name", NAMES)
def test_every_short_name_leads_to_an_agent(name: str) -> None:
    kwargs: dict[str, Any] = {"reward_fn": "exact_match"}
    if name == "tools":
        kwargs["tools"] = some_tool
    assert check_agent(import_agent(agent_spec(name, kwargs))).info.is_async
    assert is_ready_made(name)


@pytest.mark.parametrize(("recipe", "reward"), [("gsm8k", "gsm8k_reward"), ("math", "math_reward")])
def test_the_recipe_suggests_the_reward(recipe: str, reward: str) -> None:
    assert with_reward(agent_spec("rlvr"), recipe, ROW).kwargs == {"reward_fn": reward}


def test_a_reward_that_the_user_gave_stays() -> None:
    assert with_reward(agent_spec("rlvr", {"reward_fn": "contains"}), "gsm8k", ROW).kwargs["reward_fn"] == "contains"
    given = agent_spec("rlvr", {"reward_fn": lambda completion: 1.0})
    assert with_reward(given, "gsm8k", ROW) == given


def test_where_no_reward_is_suggested_one_has_to_be_given() -> None:
    with pytest.raises(UsageError, match="Give --reward: math_reward"):
        with_reward(agent_spec("rlvr"), "messages", ROW)


def test_rows_without_messages_are_refused_with_the_options_that_make_them() -> None:
    with pytest.raises(UsageError, match=r"they have text, label.*--prompt-column"):
        with_reward(agent_spec("rlvr", {"reward_fn": "contains"}), "none", {"text": "?", "label": "1"})


def test_run_rlvr_on_data_of_a_known_kind_needs_nothing_else(agentflow: CommandLine, endpoint: str) -> None:
    data = written(agentflow.cwd / "rows.jsonl", MATH, {**MATH, "id": "b", "answer": "\\text{hello}"})
    done = agentflow("run", "rlvr", "--data", data, "--base-url", endpoint, "trial_name=t")
    assert done.code == 0, done.err
    assert "recipe math" in done.out
    results = {r.item_id: r for r in read_results(run_dir(agentflow))}
    assert {r.outcome.value for r in results.values()} == {"scored"}
    assert sorted(r.reward or 0.0 for r in results.values()) == [0.0, 1.0]
    assert results["b"].reward == 1.0
    assert read_manifest(run_dir(agentflow)).rules.reward_fn == "math_reward"


def test_a_resume_grades_as_the_run_did_and_refuses_another_reward(agentflow: CommandLine, endpoint: str) -> None:
    data = written(agentflow.cwd / "rows.jsonl", GSM8K, {**GSM8K, "id": "b"})
    assert agentflow("run", "rlvr", "--data", data, "--base-url", endpoint, "--limit", "1", "trial_name=t").code == 0
    grown = agentflow("resume", str(run_dir(agentflow)), "--limit", "2")
    assert grown.code == 0, grown.err
    assert len(read_results(run_dir(agentflow))) == 2
    other = agentflow("resume", str(run_dir(agentflow)), "reward_fn=contains")
    assert other.code == 2
    assert "reward_fn: gsm8k_reward -> contains" in other.err
    assert agentflow("resume", str(run_dir(agentflow)), "reward_fn=contains", "--force").code == 0
    again = agentflow("resume", str(run_dir(agentflow)), "reward_fn=exact_match")
    assert "reward_fn: contains -> exact_match" in again.err


def test_a_reward_of_the_users_own_by_file_or_in_the_configuration(agentflow: CommandLine, endpoint: str) -> None:
    (agentflow.cwd / "mine.py").write_text(
        "def half(prompt, completions, prompt_ids, completion_ids, answer, **row):\n"
        "    assert prompt == 'Say hello.' and completions == 'hello' and answer == '1'\n"
        "    return 0.5\n"
    )
    data = written(agentflow.cwd / "rows.csv.jsonl", {"text": "Say hello.", "label": "1", "kind": "a"})
    columns = ["--prompt-column", "text", "--answer-column", "label", "--base-url", endpoint]
    done = agentflow("run", "rlvr", "--data", data, *columns, "--reward", "mine.py:half", "trial_name=t")
    assert done.code == 0, done.err
    (result,) = read_results(run_dir(agentflow))
    assert (result.reward, result.error) == (0.5, "")
    assert any(path.endswith("mine.py") for path in read_manifest(run_dir(agentflow)).agent.modules)
    (agentflow.cwd / "eval.yaml").write_text("reward_fn: mine:half\nworkflow: rlvr\ntrial_name: u\n")
    done = agentflow("run", "--config", "eval.yaml", "--data", data, *columns)
    assert done.code == 0, done.err
    assert read_results(agentflow.cwd / "runs" / "agentflow" / "u")[0].reward == 0.5


def test_a_reward_that_raises_is_a_failed_episode_of_the_kind_grader(agentflow: CommandLine, endpoint: str) -> None:
    (agentflow.cwd / "mine.py").write_text("def broken(completion):\n    return 1 / 0\n")
    data = written(agentflow.cwd / "rows.jsonl", ROW)
    done = agentflow(
        "run", "rlvr", "--data", data, "--reward", "mine.py:broken", "--base-url", endpoint, "trial_name=t"
    )
    assert done.code == 0, done.err
    (result,) = read_results(run_dir(agentflow))
    assert (result.outcome.value, result.kind) == ("failed", "grader")
    assert "ZeroDivisionError" in result.error


def test_tools_of_a_file_and_a_breakdown_by_a_column(agentflow: CommandLine, endpoint: str) -> None:
    (agentflow.cwd / "mytools.py").write_text("def add(a: int, b: int) -> int:\n    return a + b\n")
    rows = [{**ROW, "answer": answer, "kind": kind} for answer, kind in (("hello", "easy"), ("bye", "hard"))]
    data = written(agentflow.cwd / "rows.jsonl", *rows)
    done = agentflow(
        "run", "tools", "--tools", "mytools.py", "--data", data, "--reward", "exact_match", "--group-by", "kind",
        "--base-url", endpoint, "trial_name=t",
    )  # fmt: skip
    assert done.code == 0, done.err
    results = read_results(run_dir(agentflow))
    assert {(r.groups["kind"], r.reward, len(r.calls)) for r in results} == {("easy", 1.0, 3), ("hard", 0.0, 3)}
    summary = json.loads((run_dir(agentflow) / "summary.json").read_text())
    assert {k: v["mean"] for k, v in summary["groups"]["kind"].items()} == {"easy": 1.0, "hard": 0.0}
    assert "kind" in done.out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["rlvr", "--group-by", "knd", "--reward", "contains"], ["knd", "'kind'"]),
        (["rlvr", "--reward", "contians"], ["contians", "contains"]),
        (["rlvr", "--reward", "contains", "--tools", "x.py"], ["tools", "reward_fn"]),
        (["tools", "--reward", "contains", "--tools", "nowhere.py"], ["nowhere.py"]),
    ],
)
def test_a_mistake_is_one_sentence(
    agentflow: CommandLine, endpoint: str, arguments: list[str], words: list[str]
) -> None:
    data = written(agentflow.cwd / "rows.jsonl", {**ROW, "kind": "a"})
    done = agentflow("run", *arguments, "--data", data, "--base-url", endpoint)
    assert done.code == 2, done.out + done.err
    assert "Traceback" not in done.err
    assert len(done.err.strip().splitlines()) == 1
    assert "cannot be constructed" not in done.err
    for word in words:
        assert word in done.err
    assert not list(agentflow.cwd.glob("runs/*/*"))


@pytest.fixture
def config(tmp_path: Path, endpoint: str) -> Config:
    overrides = [f"base_url={endpoint}", f"cluster.fileroot={tmp_path}", "rollout.runners=1", "trial_name=t"]
    return load_config(None, overrides)[0]


def test_from_python_a_function_of_the_callers_own_can_be_the_reward(config: Config) -> None:
    factor = 0.25

    def reward(completion: str, answer: str) -> float:
        return factor * (completion == "hello")

    gconfig = load_config(None, ["gconfig.top_p=0.5"])[0].gconfig
    done = evaluate_sync(RLVRWorkflow, [ROW], config=config, agent_kwargs={"reward_fn": reward, "gconfig": gconfig})
    assert done.stats["reward"] == 0.25


def test_from_python_by_name_with_the_reward_as_an_option(config: Config) -> None:
    done = evaluate_sync("rlvr", [{**ROW, "answer": "hello"}], config=config, reward="exact_match")
    assert done.stats["reward"] == 1.0


def test_from_python_an_instance(config: Config) -> None:
    done = evaluate_sync(RLVRWorkflow("exact_match"), [{**ROW, "answer": "hello"}], config=config)
    assert done.stats["reward"] == 1.0


def test_an_argument_that_cannot_be_pickled_is_refused() -> None:
    with pytest.raises(AgentLoadError, match="cannot be sent to a runner"):
        agent_spec("rlvr", {"reward_fn": os.scandir(".")})


@pytest.mark.parametrize("name", ["agent.py", "agent.py:Multi"])
def test_areals_rollout_workflow_is_refused_with_what_to_write_instead(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "agent.py").write_text(
        "class Base:\n    pass\n"
        "class Multi(Base):\n    async def arun_episode(self, engine, data):\n        return {}\n"
    )
    with pytest.raises(AgentLoadError) as refused:
        check_agent(import_agent(AgentSpec(path=name)))
    for part in ("Multi is a RolloutWorkflow", "async def run(self, data, **extra_kwargs)", "base_url", "http_client"):
        assert part in str(refused.value)
