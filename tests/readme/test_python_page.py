"""docs/python.md: every script runs, and its tables have what there is."""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from agentflow import BlockingController, Controller, Evaluation, evaluate
from agentflow.controller.options import KEYS
from tests.e2e.conftest import DEADLINE_S, ROOT, scripted_process

PAGE = (ROOT / "docs" / "python.md").read_text()
SCRIPTS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
ROWS = [{"messages": [{"role": "user", "content": f"What is {n} + 1?"}], "answer": str(n + 1)} for n in range(2)]
PRINTS = (  # in the order of the page
    r"\d\.\d{3} over 2 items\n",
    r"^1 3 True\n$",
    r"^2 \[\]\n$",
    r"(?s)^(\w+ \[\d\.\d, \d\.\d\]\n){3}.*episodes/scored +6\b.*runs/mine/first\n$",
    r"^\[(\d\.\d)\] \1\n$",
)


@pytest.mark.parametrize("number", range(len(SCRIPTS)))
def test_every_script_of_the_page_runs(number: int, tmp_path: Path) -> None:
    (agent,) = re.findall(r"```python\n([^`]*?class MyAgent.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    (tmp_path / "agent.py").write_text(agent)
    (tmp_path / "test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    with scripted_process() as url:
        (tmp_path / "script.py").write_text(SCRIPTS[number].replace("http://127.0.0.1:8000", url))
        done = subprocess.run(
            [sys.executable, "script.py"],
            cwd=tmp_path,
            env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
        )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(PRINTS[number], done.stdout), done.stdout


def test_its_options_are_those_that_there_are() -> None:
    assert dict(re.findall(r"^\| `(\w+)` \| `([\w.]+)` \|$", PAGE, re.MULTILINE)) == KEYS


def test_its_fields_and_arguments_are_those_that_there_are() -> None:
    named = set(re.findall(r"`(\w+)`", PAGE))
    assert {field.name for field in dataclasses.fields(Evaluation)} <= named
    shown = dict(re.findall(r"`(?:await )?(\w+)\((.*?)\)`", PAGE))
    for name, function in (
        ("evaluate", evaluate),
        ("submit", Controller.submit),
        ("wait", Controller.wait),
        ("Controller", Controller),
        ("export_stats", Controller.export_stats),
    ):
        wanted = [p for p in inspect.signature(function).parameters if p != "self"]
        assert re.findall(r"(\w+)(?:=\w+)?(?:, |$)", shown[name]) == wanted
    for verb in ("submit", "wait", "export_stats", "initialize", "destroy"):
        assert hasattr(BlockingController, verb)
