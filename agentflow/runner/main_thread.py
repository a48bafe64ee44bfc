"""User code that is no coroutine runs on the main thread, with the running event loop out of its sight."""

from __future__ import annotations

import asyncio
from asyncio.events import _set_running_loop
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import Context
from typing import TypeVar

from agentflow.runner.environment import EpisodeScope, current_scope

T = TypeVar("T")


class MainThread:
    """Calls plain functions on the thread of the running loop, as if a script called them.

    The loop is blocked meanwhile. Inside, no loop is running and another is the thread's current one, so that
    ``asyncio.run(...)``, ``Runner.run_sync(...)`` and ``get_event_loop().run_until_complete(...)`` work.
    """

    def __init__(self) -> None:
        self._scripts_loop: asyncio.AbstractEventLoop | None = None

    async def call(self, function: Callable[[], T], scope: EpisodeScope | None = None) -> T:
        """Call ``function`` and return its result. It may raise any ``Exception``, and nothing else.

        Args:
            scope: the episode that it works for.
        """
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()

        def job() -> None:
            if done.cancelled():
                return
            try:
                with self._hidden(loop):
                    result = function()
            except Exception as e:  # noqa: BLE001 - raised where the call is awaited
                done.set_exception(e)
            else:
                done.set_result(result)

        # A context of its own: anyio and sniffio keep "asyncio is running" in the inherited one.
        context = Context()
        context.run(current_scope.set, scope)
        # A callback, not the current task: asyncio refuses to run a second loop's task inside a task.
        handle = loop.call_soon(job, context=context)
        try:
            return await done
        finally:
            handle.cancel()

    def close(self) -> None:
        """Close the loop that scripts were given."""
        if self._scripts_loop is not None:
            self._scripts_loop.close()

    @contextmanager
    def _hidden(self, loop: asyncio.AbstractEventLoop) -> Iterator[None]:
        if self._scripts_loop is None or self._scripts_loop.is_closed():
            # One for all calls: openai-agents keeps loop-bound locks between two run_sync.
            self._scripts_loop = asyncio.new_event_loop()
        _set_running_loop(None)
        asyncio.set_event_loop(self._scripts_loop)
        try:
            yield
        finally:
            _set_running_loop(loop)
            asyncio.set_event_loop(loop)
