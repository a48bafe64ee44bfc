"""One conversation of BFCL as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from agentflow.errors import UsageError


class Task(msgspec.Struct, frozen=True):
    """A row of ``bfcl:...``.

    Args:
        id: the package's own; the checker reads the category from it.
        question: the user's messages of each turn; none in the turn in which a missing function is handed over.
        initial_config: state of each API at the start.
        involved_classes: the APIs, in the order in which their functions are listed.
        ground_truth: golden calls of each turn, as Python source.
        missed_function: turn (as text) to the functions that are there only from then on.
    """

    id: str
    question: list[list[dict[str, Any]]]
    initial_config: dict[str, Any]
    involved_classes: list[str]
    ground_truth: list[list[str]]
    missed_function: dict[str, list[str]] = {}

    @property
    def is_long_context(self) -> bool:
        """Whether the APIs are filled with much more than the task needs."""
        return "long_context" in self.id.rpartition("_")[0]


def task_of(row: Mapping[str, Any]) -> Task:
    """Raises UsageError for a row of other data."""
    try:
        return msgspec.convert(dict(row), Task)
    except msgspec.ValidationError as e:
        raise UsageError(f"This row is no multi-turn task of BFCL ({e}): give --data bfcl:multi_turn_base.") from e
