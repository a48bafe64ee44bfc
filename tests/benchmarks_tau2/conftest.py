"""The tasks of tau2."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator

import pytest

from benchmarks.tau2.data import rows
from benchmarks.tau2.task import Task, task_of


@pytest.fixture(scope="session")
def tasks() -> Callable[[str], dict[str, Task]]:
    """Those of a domain, by the ids of their rows."""
    return lambda domain: {row["id"]: task_of(row) for row in rows(domain)}


@pytest.fixture(scope="session", autouse=True)
def rare_collections() -> Iterator[None]:
    """A verdict makes hundreds of thousands of objects: Python's own threshold would have it take twice as long."""
    before = gc.get_threshold()
    gc.set_threshold(100_000)
    yield
    gc.set_threshold(*before)
