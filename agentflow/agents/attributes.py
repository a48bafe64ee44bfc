"""What an agent's class says of itself in attributes: its data, how its score is shown, the models that it asks for."""

from __future__ import annotations

import os
from pathlib import Path

from agentflow.errors import AgentLoadError
from agentflow.metrics.at_k import PASS_HAT


def dataset(target: object, folder: Path) -> str:
    """What the attribute ``dataset`` names: a file beside the agent's own, or whatever ``--data`` takes."""
    named = getattr(target, "dataset", None)
    if not isinstance(named, str | os.PathLike):
        return ""
    beside = folder / named
    return str(beside) if beside.is_file() else os.fspath(named)


def names(target: object, attribute: str, label: str) -> tuple[str, ...]:
    """The names that an attribute lists, or the one that it is: columns of ``group_by``, model roles of ``roles``.

    Raises:
        AgentLoadError: it is something else; ``label`` says whose.
    """
    named = getattr(target, attribute, ())
    if callable(named) or isinstance(named, property):  # a method of the user's own that happens to be called so
        return ()
    listed = (named,) if isinstance(named, str) else named
    if not isinstance(listed, tuple | list) or not all(isinstance(n, str) and n for n in listed):
        raise AgentLoadError(
            f"{label} has {attribute} = {named!r}, which is no tuple or list of names: write {attribute} = "
            '("one", "other").'
        )
    return tuple(listed)


def headline(target: object, label: str) -> str:
    """What the attribute ``headline`` says: ``pass^k``, or nothing for the mean reward.

    Raises:
        AgentLoadError: it is something else; ``label`` says whose.
    """
    named = getattr(target, "headline", "")
    if not isinstance(named, str) or named == "":
        return ""
    if named != PASS_HAT:
        raise AgentLoadError(f"{label} has headline = {named!r}: {PASS_HAT!r} is the only one that can be chosen.")
    return named
