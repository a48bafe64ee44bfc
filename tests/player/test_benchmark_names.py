"""Short names of benchmarks: ``bfcl`` for an agent, ``bfcl:rows`` for its data."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from agentflow.agents import benchmarks
from agentflow.agents.importing import ImportRefusedError, find
from agentflow.agents.loader import check_agent, import_agent
from agentflow.channel.messages import AgentSpec
from agentflow.cli import run
from agentflow.workflows.ready_made import NAMES

AGENT = """
class Hanoi:
    dataset = "hanoi:easy"
    group_by = ("discs",)
    headline = "pass^k"
    roles = ("user",)

    async def run(self, data):
        return 1.0
"""
DATA = """
def easy():
    return [{"discs": 2}]
"""


@pytest.fixture
def hanoi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of benchmarks with one in it."""
    root = tmp_path / "measured"
    folder = root / "hanoi"
    folder.mkdir(parents=True)
    (root / "__init__.py").touch()
    (folder / "__init__.py").touch()
    (folder / "agent.py").write_text(AGENT)
    (folder / "data.py").write_text(DATA)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(benchmarks, "FOLDER", root)
    return folder


def test_the_name_of_a_benchmark_is_its_agent(hanoi: Path) -> None:
    info = check_agent(import_agent(AgentSpec(path="hanoi"))).info
    assert info.name == "measured.hanoi.agent:Hanoi"
    assert (info.dataset, info.group_by, info.headline) == ("hanoi:easy", ("discs",), "pass^k")
    assert info.roles == ("user",)
    assert "measured/hanoi/agent.py" in info.modules, "its source decides the score of a run, wherever that is started"


def test_one_name_alone_is_a_list_of_one(hanoi: Path) -> None:
    (hanoi / "agent.py").write_text(AGENT.replace('("discs",)', '"discs"').replace('("user", 7)', '"user"'))
    info = check_agent(import_agent(AgentSpec(path="hanoi"))).info
    assert (info.group_by, info.roles) == (("discs",), ("user",))


def test_behind_a_colon_is_a_function_of_its_data(hanoi: Path) -> None:
    found = find("hanoi:easy")
    assert found.module.easy() == [{"discs": 2}]
    assert found.name == "easy"


def test_other_names_are_what_they_were(hanoi: Path) -> None:
    assert benchmarks.benchmark("hanoi.agent") is None
    assert benchmarks.benchmark("hanoi/agent.py:Hanoi") is None
    with pytest.raises(
        ImportRefusedError, match="no module 'nowhere' for 'nowhere:easy' on the import path; for a file"
    ):
        find("nowhere:easy")


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("multi-trun", "multi-turn"),
        ("multi_trun", "multi_turn"),
        ("rlrv", "rlvr"),
        ("tool", "tools"),
        ("bfc", "bfcl"),
        ("tau", "tau2"),
        ("bfc:multi_turn_base", "bfcl"),
    ],
)
def test_a_misspelt_short_name_is_answered_with_the_right_one(written: str, meant: str) -> None:
    with pytest.raises(ImportRefusedError, match=f"on the import path \\(did you mean '{meant}'\\?\\)"):
        find(written)


@pytest.mark.parametrize(("written", "kind"), [("rlvr.py", "ready-made agent"), ("tau2.py", "benchmark")])
def test_a_short_name_with_py_behind_it_is_told_without(written: str, kind: str) -> None:
    with pytest.raises(ImportRefusedError, match=f"; the {kind} is '{written[:-3]}', without .py"):
        find(written)


def test_the_names_are_those_of_the_folders_with_an_agent(hanoi: Path) -> None:
    (hanoi.parent / "unfinished").mkdir()
    assert benchmarks.names() == ["hanoi"]


def test_the_help_of_run_names_every_benchmark_and_every_ready_made_agent() -> None:
    words = set(re.findall(r"[\w-]+", run.command.help or ""))
    assert words >= {*benchmarks.names(), *NAMES}
