"""The command line as a process, and a scripted endpoint as another."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).parents[2]
AGENTS = Path(__file__).with_name("played_agents.py")
DEADLINE_S = 200.0  # less than what pytest allows a test, which ends all tests with it


@dataclass
class Finished:
    code: int
    out: str
    err: str


@dataclass
class CommandLine:
    """``agentflow`` (or another module's command line) in ``cwd``."""

    cwd: Path
    processes: list[subprocess.Popen[str]] = field(default_factory=list)
    variables: dict[str, str] = field(default_factory=dict)
    module: str = "agentflow"

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "120", "PYTHONUNBUFFERED": "1", **self.variables}

    def __call__(self, *arguments: str) -> Finished:
        done = subprocess.run(
            [sys.executable, "-m", self.module, *arguments],
            cwd=self.cwd,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
        )
        return Finished(done.returncode, done.stdout, done.stderr)

    def background(self, *arguments: str) -> subprocess.Popen[str]:
        """Running beside the test, in a session of its own; ends with the test."""
        process = subprocess.Popen(
            [sys.executable, "-m", self.module, *arguments],
            cwd=self.cwd,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.processes.append(process)
        return process


@pytest.fixture
def agentflow(tmp_path: Path) -> Iterator[CommandLine]:
    command_line = CommandLine(tmp_path)
    yield command_line
    for process in command_line.processes:
        process.kill()
        process.wait()


@pytest.fixture(scope="session")
def endpoint() -> Iterator[str]:
    """URL of a scripted OpenAI-compatible server in a process of its own."""
    with scripted_process() as url:
        yield url


@contextmanager
def scripted_process(module: str = "tests.scripted", *arguments: str) -> Iterator[str]:
    """URL of a server that prints it, in a process of its own."""
    process = subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
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


@pytest.fixture
def rows(tmp_path: Path) -> Callable[..., Path]:
    """Writes a JSONL file of n rows; ``change`` may change each."""

    def write(n: int, change: Callable[[int, dict[str, object]], None] | None = None) -> Path:
        path = tmp_path / "rows.jsonl"
        with path.open("w") as f:
            for i in range(n):
                row: dict[str, object] = {"id": f"row-{i}", "question": f"What is {i}?", "answer": str(i)}
                if change is not None:
                    change(i, row)
                f.write(json.dumps(row) + "\n")
        return path

    return write


def lines(path: Path) -> list[dict[str, object]]:
    """The JSON lines of a file that may still be written: the whole ones; none where it does not exist yet."""
    whole = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
    return [json.loads(line) for line in whole]


def until(condition: Callable[[], bool], what: str, limit_s: float = DEADLINE_S) -> None:
    """Wait for something that another process does."""
    end = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < end, f"{what} did not happen in {limit_s:.0f} s"
        time.sleep(0.05)


def ours(marker: str) -> list[psutil.Process]:
    """Living processes of agentflow whose environment holds ``marker``: a path that only one test has."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.status() != psutil.STATUS_ZOMBIE and any(marker in v for v in process.environ().values()):
                found.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return [p for p in found if p.pid != os.getpid()]
