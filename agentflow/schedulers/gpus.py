"""Which GPUs this machine has for us."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping

import anyio

NVIDIA_SMI_S = 60.0  # it loads the driver where nothing holds it, which takes a while


def from_environment(value: str) -> tuple[str, ...]:
    """The GPUs that ``CUDA_VISIBLE_DEVICES`` names, as CUDA reads it: an invalid entry hides all that follow."""
    found: list[str] = []
    for entry in (e.strip() for e in value.split(",")):
        if not entry or entry.startswith("-"):
            break
        found.append(entry)
    return tuple(found)


def device_files(names: list[str]) -> tuple[str, ...]:
    """Indices of the ``nvidia<N>`` files among the names of ``/dev``."""
    indices = (n.removeprefix("nvidia") for n in names if n.startswith("nvidia"))
    return tuple(sorted((i for i in indices if i.isdigit()), key=int))


async def visible_gpus(environ: Mapping[str, str], dev: str = "/dev") -> tuple[str, ...]:
    """Ids for ``CUDA_VISIBLE_DEVICES``: what that variable allows, else what nvidia-smi lists, else what ``/dev`` has.

    Raises TimeoutError when nvidia-smi hangs, as it does with a broken GPU.
    """
    if "CUDA_VISIBLE_DEVICES" in environ:
        return from_environment(environ["CUDA_VISIBLE_DEVICES"])
    try:
        with anyio.fail_after(NVIDIA_SMI_S):
            listed = await anyio.run_process(
                ["nvidia-smi", "--query-gpu=index", "--format=csv,noheader"], check=True, stderr=subprocess.DEVNULL
            )
        return tuple(listed.stdout.decode().split())
    except (OSError, subprocess.CalledProcessError):
        return device_files(os.listdir(dev))
