"""From what a model wrote to a call that is safe to make, and safe to show the checker. Pure.

The checker takes calls as Python source and runs it through ``eval``, so no text of a model may reach it: a name is
looked up among the functions there are, argument names have to be plain identifiers, values come out of a JSON decoder
and go back through ``repr``. What does not pass is stood in for by :data:`REFUSED`, a call of something that does not
exist: the checker sees that a call was made, and that it failed, as it did.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

REFUSED = "refused_by_agentflow()"

MAX_DEPTH = 50  # of lists and objects in each other; Python's own parser, which the checker uses, gives up at 200

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")  # str.isidentifier admits letters that Python then replaces


class UndecodableError(ValueError):
    """The arguments of a call are no JSON object."""


class RefusedError(ValueError):
    """A call that is not made; the message is what the model is told."""


@dataclass(frozen=True)
class ApiCall:
    """A call that passed: ``name`` is a function of an API, ``arguments`` are plain JSON values by identifier."""

    name: str
    arguments: Mapping[str, Any]

    @property
    def source(self) -> str:
        """As Python source, for the checker.

        Its executor puts an object's name before whatever looks like a call of one of the functions, within strings
        too. A parenthesis in a string is therefore written as an escape, so that values arrive as they were given.
        """
        return f"{self.name}({', '.join(f'{name}={_literal(value)}' for name, value in self.arguments.items())})"


def decoded(arguments: str) -> dict[str, Any]:
    """The arguments of a tool call. No text at all counts as no arguments.

    Raises:
        UndecodableError: no JSON, or no object; also for NaN, infinity and broken surrogates, which JSON has not.
    """
    if not arguments.strip():
        return {}
    try:
        return msgspec.json.decode(arguments, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError) as e:
        raise UndecodableError(f"the arguments are no JSON object ({e})") from e


def checked(name: str, arguments: Mapping[str, Any], functions: Collection[str]) -> ApiCall:
    """The call, if it may be made.

    Raises:
        RefusedError: there is no such function, an argument's name is none, or its value is nested too deeply.
    """
    if name not in functions:
        raise RefusedError(f"name {name!r} is not defined")
    for argument in arguments:
        if _IDENTIFIER.fullmatch(argument) is None or keyword.iskeyword(argument):
            raise RefusedError(f"{argument!r} is no name of an argument")
        if _is_deep(arguments[argument], MAX_DEPTH):
            raise RefusedError(f"{argument!r} is nested more than {MAX_DEPTH} deep")
    return ApiCall(name, arguments)


def _is_deep(value: Any, most: int) -> bool:
    if not isinstance(value, list | dict):
        return False
    return most == 0 or any(
        _is_deep(inner, most - 1) for inner in (value.values() if isinstance(value, dict) else value)
    )


def _literal(value: Any) -> str:
    match value:
        case str():
            return repr(value).replace("(", r"\x28")
        case list():
            return f"[{', '.join(map(_literal, value))}]"
        case dict():
            return f"{{{', '.join(f'{_literal(key)}: {_literal(entry)}' for key, entry in value.items())}}}"
        case bool() | int() | float() | None:
            return repr(value)
    raise TypeError(f"{value!r} is no JSON value")
