"""Every example runs as its first line says, against a server that knows the answers."""

from __future__ import annotations

import ast
import asyncio
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agentflow.episode import EpisodeResult
from agentflow.store import read_calls, read_results
from tests.e2e.conftest import ROOT
from tests.scripted import Answer, Ask, chat, chat_chunks, error, scripted, tool_call

EXAMPLES = ROOT / "examples"
NOT_RUN_BY_ITSELF = {"answer.py"}  # the program that child/agent.py runs
LIMIT = 4


def answers() -> dict[str, str]:
    rows = [json.loads(line) for line in (EXAMPLES / "math" / "problems.jsonl").read_text().splitlines()]
    return {row["messages"][-1]["content"]: row["answer"] for row in rows}


class Oracle:
    """Calls the first tool that it is offered once for each of ``turns``, then gives the right answer."""

    def __init__(self, turns: int = 1) -> None:
        self.turns = turns
        self.answers = answers()
        self.calls = 0

    def __call__(self, ask: Ask) -> Answer:
        if ask.path.endswith("/models"):
            return {"object": "list", "data": [{"id": "scripted", "object": "model"}]}
        if "messages" not in ask.body or not ask.path.endswith("/chat/completions"):
            return error(404, f"no {ask.path} here")
        self.calls += 1
        said = json.dumps(ask.body["messages"])
        answer = next(a for q, a in self.answers.items() if json.dumps(q)[1:-1] in said)
        results = sum(m.get("role") == "tool" for m in ask.body["messages"])
        if ask.body.get("tools") and results < self.turns:
            name = ask.body["tools"][0]["function"]["name"]
            arguments = {} if name.startswith("transfer_to") else {"a": 6, "b": 7}
            call = tool_call(name, arguments, id=f"call_{self.calls}")
            return chat(None, tool_calls=[call], id=f"chatcmpl-{self.calls}")
        if ask.stream:
            return chat_chunks(f"The answer is {answer}.", include_usage=True)
        return chat(f"The answer is {answer}.", id=f"chatcmpl-{self.calls}")


def first_line(example: Path) -> list[str]:
    doc = ast.get_docstring(ast.parse(example.read_text()))
    assert doc is not None
    return doc.splitlines()[0].split()


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "120"}


async def play(example: str, tmp_path: Path, oracle: Oracle, *more: str) -> tuple[list[EpisodeResult], Path, list[Ask]]:
    """Run the command in the example's first line, with the oracle as its endpoint."""
    program, *arguments = first_line(EXAMPLES / example)
    assert program == "agentflow"
    async with scripted(oracle) as server:
        command = [*arguments, *more, "--base-url", server.url, f"cluster.fileroot={tmp_path}", "trial_name=t"]
        done = await asyncio.to_thread(
            subprocess.run,
            [sys.executable, "-m", "agentflow", *command],
            cwd=ROOT,
            env=environment(),
            capture_output=True,
            text=True,
            timeout=120,
        )
        asks = [ask for ask in server.asks if "messages" in ask.body]
    assert done.returncode == 0, done.stdout + done.stderr
    run_dir = tmp_path / "agentflow" / "t"
    results = read_results(run_dir)
    assert len({r.item_id for r in results}) == LIMIT
    assert {(r.outcome.value, r.reward, r.error) for r in results} == {("scored", 1.0, "")}
    assert all(r.calls for r in results)
    return results, run_dir, asks


@pytest.mark.asyncio
async def test_plain_openai_loop(tmp_path: Path) -> None:
    results, _, asks = await play("openai_loop.py", tmp_path, Oracle(turns=2))
    assert {len(r.calls) for r in results} == {3}
    assert any(m.get("content") == "42" for ask in asks for m in ask.body["messages"])


@pytest.mark.asyncio
async def test_openai_agents_with_tools(tmp_path: Path) -> None:
    results, run_dir, _ = await play("math/agent.py", tmp_path, Oracle(turns=1), "--limit", str(LIMIT))
    assert {len(r.calls) for r in results} == {2}
    assert read_calls(run_dir, results[0])[0]["call"]["api"] == "/v1/responses"


@pytest.mark.asyncio
async def test_openai_agents_with_handoffs(tmp_path: Path) -> None:
    results, _, asks = await play("handoffs.py", tmp_path, Oracle(turns=2))
    assert {r.metrics["handed_over"] for r in results} == {1.0}
    assert {len(r.calls) for r in results} == {3}
    assert any("You add numbers" in json.dumps(ask.body["messages"][0]) for ask in asks)


@pytest.mark.examples
@pytest.mark.asyncio
async def test_langchain(tmp_path: Path) -> None:
    results, _, asks = await play("langchain_agent.py", tmp_path, Oracle(turns=1))
    assert {len(r.calls) for r in results} == {2}
    assert any(m.get("content") == "42.0" for ask in asks for m in ask.body["messages"])


@pytest.mark.asyncio
async def test_anthropic_sdk(tmp_path: Path) -> None:
    results, _, _ = await play("anthropic_agent.py", tmp_path, Oracle())
    assert {c.api for r in results for c in r.calls} == {"/v1/messages"}


@pytest.mark.asyncio
async def test_a_program_in_a_child_process(tmp_path: Path) -> None:
    results, _, _ = await play("child/agent.py", tmp_path, Oracle())
    assert {len(r.calls) for r in results} == {1}


@pytest.mark.asyncio
async def test_a_reward_a_call(tmp_path: Path) -> None:
    results, _, _ = await play("call_rewards.py", tmp_path, Oracle())
    assert {tuple(r.call_rewards.values()) for r in results} == {(1.0, 1.0)}


@pytest.mark.asyncio
async def test_a_metric_over_the_samples_of_an_item(tmp_path: Path) -> None:
    results, run_dir, _ = await play("majority.py", tmp_path, Oracle())
    assert len(results) == 4 * LIMIT
    own = json.loads((run_dir / "summary.json").read_text())["own"]
    assert (own["of_item"]["majority"]["mean"], own["of_item"]["majority"]["items"]) == (1.0, LIMIT)


@pytest.mark.asyncio
async def test_areals_evaluation_script(tmp_path: Path) -> None:
    program, *arguments = first_line(EXAMPLES / "areal_eval.py")
    assert program == "python"
    async with scripted(Oracle()) as server:
        more = [f"base_url={server.url}", f"cluster.fileroot={tmp_path}", "gconfig.n_samples=2", "gconfig.top_k=5"]
        done = await asyncio.to_thread(
            subprocess.run,
            [sys.executable, *arguments, *more],
            cwd=ROOT,
            env=environment(),
            capture_output=True,
            text=True,
            timeout=120,
        )
        asks = [ask.body for ask in server.asks if "messages" in ask.body]
    assert done.returncode == 0, done.stdout + done.stderr
    said = dict(line.split() for line in done.stdout.splitlines() if len(line.split()) == 2)
    assert (said["reward"], said["episodes/scored"], said["pass@1"]) == ("1", "8", "1")
    assert len(asks) == 8
    assert all(body["chat_template_kwargs"] == {"enable_thinking": False} and body["top_k"] == 5 for body in asks)


def test_every_example_says_in_its_first_line_how_to_run_it() -> None:
    for example in EXAMPLES.rglob("*.py"):
        if example.name in NOT_RUN_BY_ITSELF:
            continue
        line = first_line(example)
        assert line[0] in ("agentflow", "python")
        assert any(word.partition(":")[0] == str(example.relative_to(ROOT)) for word in line), (
            f"{example} is not run by it"
        )


def test_every_example_is_run_by_a_test_of_this_file() -> None:
    here = Path(__file__).read_text()
    for example in EXAMPLES.rglob("*.py"):
        if example.name not in NOT_RUN_BY_ITSELF:
            assert f'"{example.relative_to(EXAMPLES)}"' in here, example


@pytest.mark.examples
def test_the_packages_of_the_examples_are_here() -> None:
    """In the stage for the examples nothing may be missing: a skip there would say nothing."""
    missing: list[Any] = [n for n in ("langchain", "langchain_openai") if importlib.util.find_spec(n) is None]
    assert not missing
