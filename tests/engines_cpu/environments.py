"""The engines' own environments: named by AGENTFLOW_VLLM_ENV and AGENTFLOW_SGLANG_ENV, made by .ci/<engine>."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def environment(engine: str) -> Path:
    """The folder; fails the test that needs it where it is not named."""
    variable = f"AGENTFLOW_{engine.upper()}_ENV"
    folder = os.environ.get(variable)
    if not folder:
        pytest.fail(f"{variable} names no environment with {engine}: .ci/{engine} makes one and runs these tests.")
    return Path(folder)


def python_of(engine: str) -> str:
    """The Python of its environment."""
    return str(environment(engine) / "bin" / "python")
