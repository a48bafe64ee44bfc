"""The same verbs for synchronous scripts: a controller on an event loop in a thread of its own."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any, Self

from anyio.from_thread import BlockingPortal, start_blocking_portal

from agentflow.config import Config
from agentflow.controller.controller import WAIT_TIMEOUT_S, Controller
from agentflow.controller.submissions import Submitted


class BlockingController:
    """A :class:`Controller` for code without an event loop; every verb blocks until it is done.

    Use ``with BlockingController(config) as c``, or call ``initialize`` and ``destroy`` as AReaL's scripts do. Works
    from any thread, also in a notebook whose own loop is running.
    """

    def __init__(self, config: Config, **options: Any) -> None:
        self._config = config
        self._options = options
        self._stack = ExitStack()
        self._portal: BlockingPortal | None = None
        self._controller: Controller

    def initialize(self) -> Self:
        """Start workers and runners; returns when the first worker is healthy."""
        if self._portal is not None:
            raise RuntimeError("The controller is running already: call destroy() before initialize().")
        with ExitStack() as stack:
            portal = stack.enter_context(start_blocking_portal())
            controller = portal.call(lambda: Controller(self._config, **self._options))
            self._controller = stack.enter_context(portal.wrap_async_context_manager(controller))
            self._portal = portal
            self._stack = stack.pop_all()
        return self

    def submit(
        self,
        data: Mapping[str, Any],
        workflow: Any = None,
        workflow_kwargs: Mapping[str, Any] | None = None,
        group_size: int | None = None,
    ) -> str:
        """See :meth:`Controller.submit`."""
        return self._open.call(self._controller.submit, data, workflow, workflow_kwargs, group_size)

    def wait(self, count: int | None = None, timeout: float = WAIT_TIMEOUT_S) -> list[Submitted]:
        """See :meth:`Controller.wait`."""
        return self._open.call(self._controller.wait, count, timeout)

    def export_stats(self) -> dict[str, float]:
        """See :meth:`Controller.export_stats`."""
        return self._open.call(self._controller.export_stats)

    def destroy(self) -> None:
        """Stop everything that was started. Calling it again does nothing."""
        self._portal = None
        self._stack.close()

    def __enter__(self) -> Self:
        return self.initialize()

    def __exit__(self, *details: Any) -> None:
        self._portal = None
        self._stack.__exit__(*details)

    @property
    def _open(self) -> BlockingPortal:
        if self._portal is None:
            raise RuntimeError("The controller is not running: call initialize() first.")
        return self._portal
