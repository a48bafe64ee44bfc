"""The command line, and the endpoint that costs next to nothing, each as a process."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from benchmarks.multi_turn.measurement import Measurement
from tests.e2e.conftest import CommandLine, agentflow, scripted_process

__all__ = ["agentflow"]  # fixtures


@pytest.fixture
def multi_turn(agentflow: CommandLine) -> CommandLine:
    """``python -m benchmarks.multi_turn`` in the folder of the test; what it starts ends with it."""
    return replace(agentflow, module="benchmarks.multi_turn")


def scripted_endpoint(*arguments: str) -> AbstractContextManager[str]:
    """URL of ``python -m benchmarks.multi_turn.scripted``."""
    return scripted_process("benchmarks.multi_turn.scripted", *arguments)


def measured(run_dir: Path) -> Measurement:
    """What ``serving.json`` holds."""
    return msgspec.json.decode((run_dir / "serving.json").read_bytes(), type=Measurement)
