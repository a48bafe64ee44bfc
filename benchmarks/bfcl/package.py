"""The one place that touches the PyPI package ``bfcl-eval``: which version, its data files, its API classes.

Only the parts that need nothing but ``mpmath`` are imported: its requirements as declared pull in torch and more.
"""

from __future__ import annotations

import copy
import importlib
import importlib.util
import inspect
import os
import tempfile
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec

from agentflow.errors import UsageError
from benchmarks.pinned import require_pinned

NAME = "bfcl-eval"
VERSION = (
    "2026.3.23"  # data, simulated APIs and checker decide the score together: another release is another benchmark
)
INSTALL = f"pip install --no-deps {NAME}=={VERSION} && pip install mpmath==1.3.0 filelock"

_BACKEND = "bfcl_eval.constants.executable_backend_config"
_PROMPTS = "bfcl_eval.constants.default_prompts"


def require() -> None:
    """Raises UsageError where the package is not installed, or not in the version that this code was checked with."""
    require_pinned(NAME, VERSION, what="BFCL's data and checker", install=INSTALL)
    try:
        importlib.import_module("mpmath")
    except ImportError as e:
        raise UsageError(f"BFCL's simulated APIs need mpmath: run {INSTALL}.") from e


def package_module(name: str) -> ModuleType:
    """A module of the package; some of them create folders under BFCL_PROJECT_ROOT, by default beside the package."""
    os.environ.setdefault("BFCL_PROJECT_ROOT", str(Path(tempfile.gettempdir(), "agentflow-bfcl")))
    return importlib.import_module(name)


def read_lines(file: str) -> list[dict[str, Any]]:
    """The objects of one of the package's data files, one a line; ``file`` is a path under its ``data`` folder."""
    spec = importlib.util.find_spec("bfcl_eval")
    assert spec is not None
    assert spec.submodule_search_locations
    path = Path(next(iter(spec.submodule_search_locations)), "data", file)
    return [msgspec.json.decode(line) for line in path.read_bytes().splitlines() if line.strip()]


@cache
def function_docs(api: str) -> tuple[dict[str, Any], ...]:
    """The documented functions of one API class, in the package's own schema dialect."""
    files: dict[str, str] = package_module(_BACKEND).MULTI_TURN_FUNC_DOC_FILE_MAPPING
    return tuple(read_lines(f"multi_turn_func_doc/{files[api]}"))


@cache
def api_class(api: str) -> type[Any]:
    """The class that simulates an API."""
    module = package_module(package_module(_BACKEND).CLASS_FILE_PATH_MAPPING[api])
    found: type[Any] = getattr(module, api)
    return found


def restore_defaults(api: str) -> None:
    """Give an API's functions back the default values of their parameters.

    Some are lists, which later calls extend: without this, what one conversation did shows in all that follow it in
    the same process.
    """
    for function, values in _mutable_defaults(api):
        function.__defaults__ = copy.deepcopy(values)


@cache
def _mutable_defaults(api: str) -> tuple[tuple[Any, tuple[Any, ...]], ...]:
    """Functions of an API with defaults that can be changed, and these as they are before the first call."""
    return tuple(
        (function, copy.deepcopy(function.__defaults__))
        for _, function in inspect.getmembers(api_class(api), inspect.isfunction)
        if any(isinstance(value, list | dict | set) for value in function.__defaults__ or ())
    )


def is_stateless(api: str) -> bool:
    """Whether an API keeps nothing from one call to the next, and so has no scenario to load."""
    return api in package_module(_BACKEND).STATELESS_CLASSES


def handover_prompt() -> str:
    """What the user says when a function that was missing is handed over."""
    text: str = package_module(_PROMPTS).DEFAULT_USER_PROMPT_FOR_ADDITIONAL_FUNCTION_FC
    return text


def schema_types() -> dict[str, str]:
    """The package's names of types to JSON Schema's."""
    types: dict[str, str] = package_module("bfcl_eval.constants.type_mappings").GORILLA_TO_OPENAPI
    return types


def max_steps() -> int:
    """Steps with calls that a turn may have before the checker's authors give an episode up."""
    steps: int = package_module(_PROMPTS).MAXIMUM_STEP_LIMIT
    return steps
