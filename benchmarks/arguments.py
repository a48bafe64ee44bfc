"""What the agents' constructors check of the arguments that a user gives them, before anything is played."""

from __future__ import annotations

from agentflow.errors import UsageError


def check_count(name: str, value: object) -> None:
    """Raises UsageError unless ``value`` is None (not given) or a whole number of at least 1."""
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and value >= 1):
        return
    raise UsageError(f"{name} must be a whole number of at least 1, and it is {value!r}.")
