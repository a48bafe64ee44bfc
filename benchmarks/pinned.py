"""The authors' packages: installed, and in the version whose scores are meant."""

from __future__ import annotations

import importlib.metadata

from agentflow.errors import UsageError


def require_pinned(name: str, version: str, *, what: str, install: str) -> None:
    """Raises UsageError where a package is not installed, or in another version than this code was checked with.

    Args:
        name: of the distribution.
        what: that it brings, for the sentence.
        install: the command that installs it.
    """
    try:
        installed = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError as e:
        raise UsageError(f"{what} are not installed: run {install}.") from e
    if installed != version:
        raise UsageError(
            f"{name} {installed} is installed, and its scores are comparable only at {version}: {install}."
        )
