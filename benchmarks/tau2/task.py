"""One task of tau2 as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from agentflow.errors import UsageError


class Task(msgspec.Struct, frozen=True):
    """A row of ``tau2:...``.

    Args:
        domain: ``airline``, ``retail``, ``telecom`` or ``mock``.
        task: the package's own task: the user's scenario, the initial state, what is evaluated.
    """

    domain: str
    task: dict[str, Any]


def task_of(row: Mapping[str, Any]) -> Task:
    """Raises UsageError for a row of other data."""
    try:
        return msgspec.convert(dict(row), Task)
    except msgspec.ValidationError as e:
        raise UsageError(f"This row is no task of tau2 ({e}): give --data tau2:retail.") from e
