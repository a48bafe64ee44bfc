"""A stored run, and what a function prints."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest
from report_samples import write_run
from rich.console import Console


@pytest.fixture
def run(tmp_path: Path) -> Path:
    anyio.run(write_run, tmp_path / "run")
    return tmp_path / "run"


@pytest.fixture
def printed() -> Callable[..., str]:
    """What a function prints to a console of some width, without styles."""

    def capture(function: Callable[..., object], *arguments: object, width: int = 80, **named: object) -> str:
        console = Console(file=io.StringIO(), width=width)
        function(*arguments, console=console, **named)
        return console.file.getvalue()  # type: ignore[attr-defined]

    return capture
