"""The golden calls as a model would make them: JSON arguments by name."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Sequence
from typing import Any

from benchmarks.bfcl.calls import ApiCall
from benchmarks.bfcl.package import api_class


def golden_call(source: str, apis: Sequence[str]) -> ApiCall:
    """Read one golden call, such as ``cd(folder='document')``; arguments without a name get theirs."""
    call = ast.parse(source, mode="eval").body
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
        raise ValueError(f"{source!r} is no call of a function")
    name = call.func.id
    owner = next(cls for api in apis if hasattr(cls := api_class(api), name))
    names = list(inspect.signature(getattr(owner, name)).parameters)[1:]
    arguments: dict[str, Any] = dict(zip(names, map(ast.literal_eval, call.args), strict=False))
    arguments |= {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in call.keywords}
    return ApiCall(name, arguments)
