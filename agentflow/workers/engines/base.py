"""What an engine is: how to start it, when it is healthy, what it serves, and what its metrics mean.

One file an engine, one entry in ``engines/__init__.py``. Rendering is pure; the supervisor does the I/O.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from agentflow.channel.messages import EngineLoad, StartEngine


@dataclass(frozen=True)
class Launch:
    """A rendered command. ``secret_env`` and the contents of ``secret_files`` are never shown.

    Args:
        files: contents of files that it reads, by path; they exist while it runs. Written 0600.
        secret_files: the same, but they exist only until it is healthy: it has read them then.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    secret_env: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    secret_files: Mapping[str, str] = field(default_factory=dict)


class Engine(Protocol):
    """One inference engine."""

    name: str
    apis: tuple[str, ...]  # which of chat, responses, completions, messages, embeddings it serves well itself
    health_path: str  # GET answers 200 once it can take calls
    metrics_path: str

    def complete(self, spec: StartEngine) -> tuple[StartEngine, tuple[str, ...]]:
        """Fill in what the user left open and the model's files tell, with a sentence for the user for each."""

    def check(self, spec: StartEngine) -> None:
        """Raises a UsageError when this cannot be started here (missing package, missing file); no I/O beyond that."""

    def render(self, spec: StartEngine, port: int) -> Launch:
        """The command line for this spec on this port. Pure."""

    def model_name(self, spec: StartEngine) -> str:
        """What requests must name as their model: the served name, or an adapter's. Pure."""

    def load(self, metrics: str) -> EngineLoad:
        """Read the engine's Prometheus text. Pure; unknown lines are skipped."""
