"""What all calls of a runner share, whichever door and loop they come through."""

from __future__ import annotations

import threading
from collections.abc import Callable

import msgspec

from agentflow.channel.messages import Message, RoleSettings, RunnerSettings, ToolSchema
from agentflow.runner.connections import ConnectionsByLoop
from agentflow.runner.dialect import Dialect
from agentflow.runner.policy import Budget
from agentflow.runner.sampling import Fill, fills
from agentflow.runner.table import WorkerTable

_NOTHING_SET = RoleSettings()


class Core:
    """Thread-safe. ``notify`` must be."""

    def __init__(self, settings: RunnerSettings, notify: Callable[[Message], None]) -> None:
        self.settings = settings
        self.notify = notify
        self.table = WorkerTable(settings.worker_calls, settings.roles, settings.model_names)
        self.connections = ConnectionsByLoop(settings.concurrency, settings.http_client)
        self.budget = Budget(settings.request_retries, settings.retry_window_s, settings.request_timeout_s)
        self._fills: dict[tuple[str, Dialect], tuple[Fill, ...]] = {}
        self._schemas: set[str] = set()
        self._lock = threading.Lock()

    def fills(self, role: str, dialect: Dialect) -> tuple[Fill, ...]:
        """The user's sampling values for a role, in the fields of a dialect."""
        key = role, dialect
        found = self._fills.get(key)
        if found is None:
            found = self._fills[key] = fills(dialect, self.settings.roles.get(role, _NOTHING_SET).sampling)
        return found

    def tell_schema(self, hash: str, data: bytes | msgspec.Raw) -> None:
        """Send a tool list off, once."""
        if hash in self._schemas:
            return
        with self._lock:
            if hash in self._schemas:
                return
            self._schemas.add(hash)
        self.notify(ToolSchema(hash, bytes(data)))
