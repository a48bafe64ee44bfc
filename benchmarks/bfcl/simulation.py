"""The simulated APIs of one episode, called directly: never through ``eval``."""

from __future__ import annotations

import copy
import inspect
import json
from collections.abc import Callable, Mapping
from typing import Any

from agentflow.rewards import AsyncRewardWrapper, GraderError
from benchmarks.bfcl.calls import REFUSED, RefusedError, checked
from benchmarks.bfcl.package import api_class, is_stateless, restore_defaults
from benchmarks.bfcl.task import Task

CALL_TIMEOUT_S = 10.0

FAILED = "Error during execution: "  # how the package's executor begins what it tells of an exception


class Simulation:
    """The objects of a task's APIs in their initial state, and what was called on them.

    Functions of a stateless API (arithmetic) run in a reward process: a model may ask for 10 to the power of a billion.
    """

    def __init__(self, task: Task) -> None:
        self._functions: dict[str, Callable[..., Any]] = {}
        self._apis: dict[str, str] = {}  # of each function
        for api in task.involved_classes:
            instance = api_class(api)()
            methods = public_methods(instance)
            if not is_stateless(api):
                scenario = copy.deepcopy(task.initial_config.get(api, {}))
                instance._load_scenario(scenario, long_context=task.is_long_context)
            self._functions |= methods
            self._apis |= dict.fromkeys(methods, api)

    async def call(self, name: str, arguments: Mapping[str, Any]) -> tuple[str, str]:
        """Make a call that a model asked for.

        Returns:
            What the model is told, and the call as source for the checker (:data:`REFUSED` if it was not made).
        """
        try:
            call = checked(name, arguments, self._functions)
        except RefusedError as e:
            return f"{FAILED}{e}", REFUSED
        api = self._apis[name]
        if not is_stateless(api):
            restore_defaults(api)
            return outcome(self._functions[name], arguments), call.source
        try:
            return await _in_a_process(api, name, dict(arguments)), call.source
        except GraderError:
            return f"{FAILED}{name} took too long or too much memory", REFUSED


def call_stateless(api: str, name: str, arguments: Mapping[str, Any]) -> str:
    """Runs in a reward process."""
    return outcome(public_methods(api_class(api)())[name], arguments)


def public_methods(instance: object) -> dict[str, Callable[..., Any]]:
    """What the package's executor finds: the methods whose names do not begin with an underscore."""
    return {name: method for name, method in inspect.getmembers(instance, inspect.ismethod) if name[0] != "_"}


def outcome(function: Callable[..., Any], arguments: Mapping[str, Any]) -> str:
    """What the model is told: text as it is, the rest as JSON or, where that fails, as Python writes it."""
    try:
        return _text(function(**arguments))
    except Exception as e:  # noqa: BLE001 - the APIs raise whatever their code runs into
        return f"{FAILED}{e}"


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value)
    except (TypeError, ValueError, RecursionError):
        return str(value)


_in_a_process = AsyncRewardWrapper("benchmarks.bfcl.simulation:call_stateless", timeout=CALL_TIMEOUT_S)
