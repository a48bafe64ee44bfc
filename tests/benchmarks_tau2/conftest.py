"""The tasks of tau2."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from benchmarks.tau2.data import rows
from benchmarks.tau2.task import Task, task_of


@pytest.fixture(scope="session")
def tasks() -> Callable[[str], dict[str, Task]]:
    """Those of a domain, by the ids of their rows."""
    return lambda domain: {row["id"]: task_of(row) for row in rows(domain)}
