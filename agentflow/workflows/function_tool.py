"""Python functions as tools: what a model is told of them, and what a call of it comes to."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Callable, Mapping
from functools import partial
from types import ModuleType
from typing import Any

import msgspec
from pydantic import TypeAdapter, ValidationError, validate_call
from pydantic.errors import PydanticUserError

from agentflow.agents.importing import attribute, find
from agentflow.errors import UsageError

Function = Callable[..., Any]


class FunctionTool:
    """A function that a model may call; its schema is made of the signature, its description is the docstring.

    ``Annotated[int, Field(description=...)]`` describes one argument. A plain function runs in a thread, an
    ``async def`` on the event loop.

    Raises:
        UsageError: the signature cannot be said as a JSON object (``*args``, positional-only, an unknown type).
    """

    def __init__(self, function: Function) -> None:
        self.name: str = getattr(function, "__name__", "")
        if not self.name.isidentifier():  # a lambda, a partial
            raise UsageError(f"{function!r} has no name that a model could call: write it as a def.")
        self._is_async = inspect.iscoroutinefunction(function)
        try:
            self._call = validate_call(function)
            parameters: Any = function  # TypeAdapter reads a signature as well as a type
            self._parameters = TypeAdapter(parameters).json_schema()
        except (PydanticUserError, NameError) as e:
            said = str(e).partition("\n")[0].rstrip(".")
            raise UsageError(f"The tool '{self.name}' cannot be described to a model: {said}.") from e
        if self._parameters.get("type") != "object":
            raise UsageError(f"The tool '{self.name}' has positional-only arguments; models give arguments by name.")
        self._description = inspect.getdoc(function) or ""

    @property
    def schema(self) -> dict[str, Any]:
        """One entry of a request's ``tools``."""
        function = {"name": self.name, "description": self._description, "parameters": self._parameters}
        return {"type": "function", "function": function}

    async def __call__(self, arguments: str) -> str:
        """What the model is told: the result as text, else as JSON.

        Args:
            arguments: a JSON object, as the model wrote it.

        Raises:
            ValueError: the arguments are no JSON object or do not fit the signature.
            Exception: whatever the function raises.
        """
        given = json.loads(arguments)
        if not isinstance(given, dict):
            raise ValueError(f"the arguments must be a JSON object, not {arguments[:100]}")
        call = partial(self._call, **given)
        try:
            value = await call() if self._is_async else await asyncio.to_thread(call)
        except ValidationError as e:
            raise ValueError("; ".join(f"{'.'.join(map(str, x['loc']))}: {x['msg']}" for x in e.errors())) from e
        return value if isinstance(value, str) else msgspec.json.encode(value, enc_hook=str).decode()


async def outcome(tools: Mapping[str, FunctionTool], call: Mapping[str, Any]) -> dict[str, Any]:
    """The message that answers one tool call. What goes wrong in it is told to the model, which may do better."""
    name = call["function"]["name"]
    tool = tools.get(name)
    if tool is None:
        content = f"Error: there is no tool '{name}'; there are {', '.join(tools) or 'none'}."
    else:
        try:
            content = await tool(call["function"].get("arguments") or "{}")
        except Exception as e:  # noqa: BLE001 - a tool may raise anything
            content = f"Error: {type(e).__name__}: {e}"
    return {"role": "tool", "tool_call_id": call["id"], "content": content}


def functions_of(given: str | Function) -> list[Function]:
    """The functions that ``given`` names: one, or all public ones that a file or module defines.

    Args:
        given: a function, ``file.py``, ``file.py:function``, ``pkg.mod`` or ``pkg.mod:function``.

    Raises:
        UsageError: there is none, or it cannot be imported.
    """
    if not isinstance(given, str):
        return [given]
    found = find(given)
    target = attribute(found, "function") if found.name else found.module
    if not isinstance(target, ModuleType):
        if not callable(target):
            raise UsageError(f"{given} is no function.")
        return [target]
    own = [f for name, f in vars(target).items() if inspect.isfunction(f) and not name.startswith("_")]
    functions: list[Function] = [f for f in own if f.__module__ == target.__name__]
    if not functions:
        raise UsageError(f"{given} defines no public functions: there is nothing to use as a tool.")
    return functions
