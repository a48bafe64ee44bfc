"""The tasks of BFCL, and transcripts of their golden calls."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from benchmarks.bfcl.checker import Transcript
from benchmarks.bfcl.data import rows
from benchmarks.bfcl.golden import golden_call
from benchmarks.bfcl.task import Task, task_of


@pytest.fixture(scope="session")
def tasks() -> Callable[[str], list[Task]]:
    return lambda category: [task_of(row) for row in rows(category)]


@pytest.fixture(scope="session")
def golden() -> Callable[[Task], Transcript]:
    """One step a golden call, each call read as JSON arguments by name and written again."""
    return lambda task: [
        [[golden_call(source, task.involved_classes).source] for source in turn] for turn in task.ground_truth
    ]
