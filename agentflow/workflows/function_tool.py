"""Python functions as tools: what a model is told of them, and what a call of it comes to."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping
from functools import partial
from types import ModuleType
from typing import Any

from pydantic import TypeAdapter, ValidationError, validate_call
from pydantic.errors import PydanticUserError
from pydantic_core import to_json

from agentflow.agents.importing import attribute, find
from agentflow.errors import UsageError
from agentflow.workflows.tool_calls import ToolCall

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

    async def __call__(self, arguments: Mapping[str, Any]) -> str:
        """What the model is told: the result as text, else as JSON.

        Args:
            arguments: by name.

        Raises:
            ValueError: the arguments do not fit the signature.
            BaseException: whatever the function raises.
        """
        call = partial(self._call, **arguments)
        try:
            value = await call() if self._is_async else await asyncio.to_thread(call)
            if inspect.isawaitable(value):  # of an async function in a decorator that is none
                value = await value
        except ValidationError as e:
            raise ValueError("; ".join(f"{'.'.join(map(str, x['loc']))}: {x['msg']}" for x in e.errors())) from e
        return value if isinstance(value, str) else to_json(value, fallback=_plain, inf_nan_mode="strings").decode()


async def outcome(tools: Mapping[str, FunctionTool], call: ToolCall, *, is_cut_off: bool = False) -> dict[str, Any]:
    """The message that answers one tool call. What goes wrong in it is told to the model, which may do better.

    Args:
        tools: by name.
        call: what the model wants.
        is_cut_off: the message with the call ended at the token limit.
    """
    tool = tools.get(call.name)
    if tool is None:
        content = f"Error: there is no tool '{call.name}'; there are {', '.join(tools) or 'none'}."
    elif call.arguments is None:
        content = f"Error: {call.complaint}" + (
            " (cut off: your message reached its token limit)" if is_cut_off else ""
        )
    else:
        try:
            content = await tool(call.arguments)
        except (Exception, SystemExit) as e:  # noqa: BLE001 - a tool may raise anything
            content = f"Error: {_said(e)}"
        except asyncio.CancelledError as e:
            if (task := asyncio.current_task()) is not None and task.cancelling():
                raise  # the episode is over
            content = f"Error: {_said(e)}"  # of something that the tool itself began
    return {"role": "tool", "tool_call_id": call.id, "content": _sendable(content)}


def _said(error: BaseException) -> str:
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # noqa: BLE001 - an exception's own __str__
        return type(error).__name__


def _sendable(text: str) -> str:
    """Without lone surrogates (names of files have them), which no request can hold."""
    return text.encode("utf-8", "replace").decode()


def _plain(value: Any) -> Any:
    """Arrays and scalars of numpy and torch as lists and numbers, everything else as its text."""
    return value.tolist() if callable(getattr(value, "tolist", None)) else str(value)


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
