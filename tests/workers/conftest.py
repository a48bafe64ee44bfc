"""A real embedded engine, started once."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import anyio
import pytest

from agentflow.workers.ports import free_port
from agentflow.workers.smollm2 import embedded_model

KEY = "key-of-this-run"
START_S = 120


@dataclass(frozen=True)
class Endpoint:
    url: str
    key: str
    pid: int

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.key}"}


@pytest.fixture(scope="session")
def model() -> Path:
    return embedded_model()


@pytest.fixture(scope="session")
def engine(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Endpoint]:
    """Four slots of 1024 tokens, the chat template chosen by the model."""
    port = free_port("127.0.0.1")  # not one that the kernel may give to a connection until the engine binds it
    url = f"http://127.0.0.1:{port}"
    argv = [
        *(sys.executable, "-m", "agentflow.workers.llamacpp.server", "--model", str(model), "--served-name", "smol"),
        *("--host", "127.0.0.1", "--port", str(port), "--n-parallel", "4", "--n-ctx", "1024", "--cache-mib", "64"),
    ]
    log = tmp_path_factory.mktemp("engine") / "log"
    with log.open("w") as output:
        process = subprocess.Popen(argv, env={**os.environ, "AGENTFLOW_ENGINE_KEY": KEY}, stdout=output, stderr=output)
    try:
        end = time.monotonic() + START_S
        while not answers(url + "/health"):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < end, log.read_text()
            time.sleep(0.1)
        yield Endpoint(url, KEY, process.pid)
    finally:
        process.terminate()
        assert process.wait(30) == 0, "SIGTERM did not end the engine as it should"


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as reply:
            return bool(reply.status == 200)
    except (urllib.error.URLError, OSError):
        return False


async def until(condition: Callable[[], Awaitable[bool]], limit_s: float = 60) -> None:
    """Until that holds of another process, which has no event to wait for; fails at the limit."""
    with anyio.fail_after(limit_s):
        while not await condition():  # noqa: ASYNC110
            await anyio.sleep(0.02)
