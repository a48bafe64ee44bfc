"""Which GPUs this machine has for us."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from agentflow.schedulers.gpus import from_environment, visible_gpus


@pytest.mark.parametrize(
    ("value", "gpus"),
    [("0,1", ("0", "1")), (" 2 , GPU-8f", ("2", "GPU-8f")), ("", ()), ("-1", ()), ("0,-1,1", ("0",)), ("1,,2", ("1",))],
)
def test_cuda_visible_devices_is_read_as_cuda_reads_it(value: str, gpus: tuple[str, ...]) -> None:
    assert from_environment(value) == gpus


@pytest.mark.asyncio
async def test_nvidia_smi_is_asked_where_the_environment_names_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    smi = tmp_path / "nvidia-smi"
    smi.write_text("#!/bin/sh\nprintf '0\\n1\\n2\\n'\n")
    smi.chmod(smi.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert await visible_gpus({}) == ("0", "1", "2")


@pytest.mark.asyncio
async def test_without_nvidia_smi_the_device_files_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("nvidia10", "nvidia2", "nvidiactl", "nvidia-uvm", "null"):
        (tmp_path / name).touch()
    monkeypatch.setenv("PATH", str(tmp_path))
    assert await visible_gpus({}, dev=str(tmp_path)) == ("2", "10")
