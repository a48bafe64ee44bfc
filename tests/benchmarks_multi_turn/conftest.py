"""The command line, and the endpoint that costs next to nothing, each as a process."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from benchmarks.multi_turn.measurement import Measurement
from tests.e2e.conftest import ROOT, CommandLine, agentflow

__all__ = ["agentflow"]  # fixtures


@pytest.fixture
def multi_turn(agentflow: CommandLine) -> CommandLine:
    """``python -m benchmarks.multi_turn`` in the folder of the test; what it starts ends with it."""
    return replace(agentflow, module="benchmarks.multi_turn")


@contextmanager
def scripted_endpoint(*arguments: str) -> Iterator[str]:
    """URL of ``python -m benchmarks.multi_turn.scripted``."""
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.multi_turn.scripted", *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        assert url.startswith("http://127.0.0.1:")
        yield url
    finally:
        process.kill()
        process.wait()


def measured(run_dir: Path) -> Measurement:
    """What ``serving.json`` holds."""
    return msgspec.json.decode((run_dir / "serving.json").read_bytes(), type=Measurement)
