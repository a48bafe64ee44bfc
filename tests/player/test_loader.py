"""How an agent is named, found, checked and made anew."""

from __future__ import annotations

import pickle
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import cloudpickle
import pytest

from agentflow.agents.loader import LoadedAgent, check_agent, import_agent
from agentflow.channel.messages import AgentSpec
from agentflow.errors import AgentLoadError

Write = Callable[[str, str], Path]

MATH_AGENT = """
class MathAgent:
    def __init__(self, turns: int = 3, greeting: str = "hi"):
        self.turns = turns

    async def run(self, data, **extra_kwargs):
        return self.turns
"""


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Write]:
    """Write a file of the user's; its folder is the working directory, and nothing imported from it stays."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    before = set(sys.modules)

    def write(name: str, text: str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
        return path

    yield write
    for name in set(sys.modules) - before:
        del sys.modules[name]


def load_agent(spec: AgentSpec) -> LoadedAgent:
    return check_agent(import_agent(spec))


def refusal(path: str, **kwargs: object) -> str:
    with pytest.raises(AgentLoadError) as caught:
        load_agent(AgentSpec(path, kwargs=kwargs))
    return str(caught.value)


@pytest.mark.parametrize("path", ["agent.py", "agent.py:MathAgent", "agent:MathAgent", "agent.MathAgent", "agent"])
def test_every_way_to_name_an_agent_leads_to_it(write: Write, path: str) -> None:
    write("agent.py", MATH_AGENT)
    assert load_agent(AgentSpec(path)).info.name == "agent:MathAgent"


def test_an_agent_in_a_package_is_found_by_file_and_by_dots(write: Write) -> None:
    write("pkg/__init__.py", "")
    write("pkg/tools.py", "TURNS = 7")
    write("pkg/mod.py", "from .tools import TURNS\nclass Agent:\n    async def run(self, data): return TURNS\n")
    by_file = load_agent(AgentSpec("pkg/mod.py:Agent"))
    by_dots = load_agent(AgentSpec("pkg.mod.Agent"))
    assert by_file.info == by_dots.info
    assert set(by_file.info.modules) == {"pkg/mod.py", "pkg/tools.py", "pkg/__init__.py"}


def test_a_module_level_function_is_an_agent(write: Write) -> None:
    write("agent.py", "async def solve(data, base_url, *, level=1): return level")
    loaded = load_agent(AgentSpec("agent.py:solve", kwargs={"level": 4}))
    assert loaded.info.is_async
    assert loaded.takes == {"base_url"}
    coroutine = loaded.new()({}, base_url="")
    with pytest.raises(StopIteration) as returned:
        coroutine.send(None)
    assert returned.value.value == 4


def test_a_lone_run_function_of_a_file_is_taken(write: Write) -> None:
    write("agent.py", "def helper(data): ...\nasync def run_math(data): return 1")
    assert load_agent(AgentSpec("agent.py")).info.name == "agent:run_math"


def test_classes_that_a_file_only_imports_are_no_candidates(write: Write) -> None:
    write("base.py", "class Base:\n    async def run(self, data): return 0")
    write("agent.py", "from base import Base\nclass Mine(Base): pass\nclass Config: pass")
    assert load_agent(AgentSpec("agent.py")).info.name == "agent:Mine"


def test_several_candidates_are_listed(write: Write) -> None:
    write("agent.py", MATH_AGENT + "\nclass OtherAgent(MathAgent): pass\n")
    sentence = refusal("agent.py")
    assert "agent.py:MathAgent" in sentence
    assert "agent.py:OtherAgent" in sentence


def test_functions_that_could_be_meant_are_named(write: Write) -> None:
    helpers = "def _private(data): return 0\ndef add(a, b): return a + b\ndef score(text): return 0\n"
    write("onlyfun.py", helpers + "async def agent(data, **extra): return 1\n")
    assert "write onlyfun.py:agent." in refusal("onlyfun.py")
    write("plain.py", helpers + "def play(data): return 1\n")
    assert "write plain.py:score or plain.py:play." in refusal("plain.py")
    write("none.py", "def add(a, b): return a + b")
    assert "write" not in refusal("none.py")


def test_functions_are_listed_beside_several_classes_or_functions_called_run(write: Write) -> None:
    both = "class A:\n    async def run(self, data): return 1\nclass B(A): pass\nasync def run(data): return 1\n"
    write("agent.py", both)
    assert "one of them: agent.py:A, agent.py:B; or a function: agent.py:run." in refusal("agent.py")
    write("runs.py", "async def run_a(data): return 1\nasync def run_b(data): return 1\n")
    assert refusal("runs.py").endswith("one of them: runs.py:run_a, runs.py:run_b.")


def test_arguments_reach_the_constructor(write: Write) -> None:
    write("agent.py", MATH_AGENT)
    assert load_agent(AgentSpec("agent.py", kwargs={"turns": 9})).new().__self__.turns == 9


def test_every_episode_has_its_own_instance(write: Write) -> None:
    write("agent.py", MATH_AGENT + "\nagent = MathAgent(turns=5)\n")
    for spec in (AgentSpec("agent.py:MathAgent"), AgentSpec("agent.py:agent")):
        loaded = load_agent(spec)
        first, second = loaded.new().__self__, loaded.new().__self__
        first.turns = 99
        assert second.turns != 99
        assert loaded.new().__self__.turns != 99


def test_a_class_from_a_notebook_cell_comes_pickled(write: Write) -> None:
    namespace: dict[str, type] = {"__name__": "__main__"}
    exec(MATH_AGENT, namespace)
    for target in (namespace["MathAgent"], namespace["MathAgent"](turns=3)):
        loaded = load_agent(AgentSpec(pickled=cloudpickle.dumps(target)))
        assert loaded.info.is_async
        assert loaded.new().__self__.turns == 3
        assert list(loaded.info.modules) == ["<__main__:MathAgent, given from Python>"]


def test_what_a_file_defines_can_be_pickled(write: Write) -> None:
    path = write(
        "my-agent.py",
        """
        from dataclasses import dataclass, field

        @dataclass
        class State:
            turns: list["int"] = field(default_factory=list)

        class Agent:
            async def run(self, data):
                return State([1])
        """,
    )
    agent = load_agent(AgentSpec(str(path))).new()
    coroutine = agent({})
    with pytest.raises(StopIteration) as returned:
        coroutine.send(None)
    state = returned.value.value
    assert pickle.loads(pickle.dumps(state)) == state


def test_a_file_called_like_an_installed_package_does_not_replace_it(write: Write) -> None:
    import json

    write("json.py", MATH_AGENT)
    loaded = load_agent(AgentSpec("json.py"))
    assert loaded.info.name.startswith("json_")
    assert sys.modules["json"] is json


def test_the_fingerprint_changes_with_a_module_that_the_agent_imports(write: Write) -> None:
    write("agent.py", "import tools\n" + MATH_AGENT)
    tools = write("tools.py", "A = 1")
    before = load_agent(AgentSpec("agent.py")).info.modules
    assert set(before) == {"agent.py", "tools.py"}
    tools.write_text("A = 2")
    after = load_agent(AgentSpec("agent.py")).info.modules
    assert before["agent.py"] == after["agent.py"]
    assert before["tools.py"] != after["tools.py"]


def test_what_run_takes_is_told_by_its_signature(write: Write) -> None:
    write(
        "agent.py",
        """
        class Everything:
            async def run(self, data, **kw): ...
        class Some:
            async def run(self, item, api_key, seed=0): ...
        class Nothing:
            def run(self, data): ...
        """,
    )
    assert len(load_agent(AgentSpec("agent.py:Everything")).takes) == 7
    assert load_agent(AgentSpec("agent.py:Some")).takes == {"api_key", "seed"}
    nothing = load_agent(AgentSpec("agent.py:Nothing"))
    assert nothing.takes == frozenset()
    assert not nothing.info.is_async


@pytest.mark.parametrize(
    ("text", "path", "kwargs", "said"),
    [
        ("", "agnet.py", {}, "There is no file agnet.py in"),
        ("", "agnet.py", {}, "did you mean 'agent.py'?"),
        ("", "no_such_module:Agent", {}, "There is no module 'no_such_module'"),
        ("", "no_such_module.Agent", {}, "There is no module 'no_such_module'"),
        (MATH_AGENT, "agent.py:MathAgnet", {}, "has no class or function 'MathAgnet' (did you mean 'MathAgent'?)"),
        (MATH_AGENT, "agent.MathAgnet", {}, "has no class or function 'MathAgnet' (did you mean 'MathAgent'?)"),
        ("x = 1\nimport no_such_package\n", "agent.py", {}, "agent.py:2): ModuleNotFoundError: No module named"),
        ("def f():\n    return 1 / 0\nf()\n", "agent.py", {}, "(at agent.py:2 in f): ZeroDivisionError"),
        ("import sys\nsys.exit(3)\n", "agent.py", {}, "agent.py cannot be imported (at agent.py:2): SystemExit: 3"),
        ("class A\n", "agent.py", {}, "has a syntax error at"),
        ("class A\n", "agent.py", {}, "agent.py:1: expected ':'"),
        (MATH_AGENT, "agent.py", {"trns": 1}, "unexpected keyword argument 'trns' (did you mean 'turns'?)"),
        (MATH_AGENT, "agent.py", {"trns": 1}, "it takes turns, greeting"),
        ("class A:\n    def play(self, data): ...\n", "agent.py:A", {}, "agent:A has no 'run' method"),
        ("class A:\n    def play(self, data): ...\n", "agent.py", {}, "its classes are A"),
        ("class A:\n    def run(self): ...\n", "agent.py", {}, "'run' has to take the data first"),
        ("class A:\n    def run(self, data, judge): ...\n", "agent.py", {}, "missing a required argument: 'judge'"),
        ("class A:\n    async def run(self, data): yield 1\n", "agent.py", {}, "'run' has to return the reward"),
        ("A = 3\n", "agent.py:A", {}, "neither a class with 'run'"),
        (
            "class A:\n    roles = {'user': 1}\n    def run(self, data): ...\n",
            "agent.py",
            {},
            "agent:A has roles = {'user': 1}, which is no tuple or list of names: write roles = ",
        ),
        (
            "class A:\n    group_by = ('level', 7)\n    def run(self, data): ...\n",
            "agent.py",
            {},
            "agent:A has group_by = ('level', 7), which is no tuple or list of names",
        ),
        (
            "class A:\n    headline = 'pass@k'\n    def run(self, data): ...\n",
            "agent.py",
            {},
            "agent:A has headline = 'pass@k': 'pass^k' is the only one that can be chosen.",
        ),
        ("class A:\n    def run(self, data): ...\n", "agent.py:Other", {}, "no class or function 'Other': it has A."),
        (
            "class A:\n    def __init__(self): raise ValueError('no key')\n    def run(self, data): ...",
            "agent.py",
            {},
            "agent:A cannot be constructed (at agent.py:2 in __init__): ValueError: no key.",
        ),
        (
            "class W:\n    async def arun_episode(self, engine, data): ...\n",
            "agent.py",
            {},
            "Give it 'async def run(self, data, **extra_kwargs)'",
        ),
        (MATH_AGENT + "agent = MathAgent()\n", "agent.py:agent", {"turns": 1}, "is an instance already"),
        (
            "import threading\n" + MATH_AGENT + "agent = MathAgent()\nagent.lock = threading.Lock()\n",
            "agent.py:agent",
            {},
            "cannot be pickled",
        ),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(
    write: Write, text: str, path: str, kwargs: dict[str, object], said: str
) -> None:
    write("agent.py", text)
    sentence = refusal(path, **kwargs)
    assert said in sentence
    assert "\n" not in sentence


def test_an_import_error_inside_the_agent_is_not_taken_for_a_wrong_name(write: Write) -> None:
    write("pkg/__init__.py", "")
    write("pkg/mod.py", "import pkg.missing\nclass Agent:\n    def run(self, data): ...")
    assert "pkg.mod cannot be imported" in refusal("pkg.mod:Agent") or "pkg/mod.py:1" in refusal("pkg.mod:Agent")
    assert "pkg/mod.py:1" in refusal("pkg.mod.Agent")
