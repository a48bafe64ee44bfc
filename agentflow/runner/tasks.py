"""Which asyncio task belongs to which episode: told when a task is created, by the context it is created in."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator, Iterator
from contextlib import contextmanager
from contextvars import Context
from typing import Any
from weakref import WeakSet

from agentflow.runner.environment import EpisodeScope, current_scope


class TaskBook:
    """Notes the tasks that episodes create, while :meth:`installed` on the running loop."""

    def __init__(self) -> None:
        self._tasks: dict[EpisodeScope, WeakSet[asyncio.Task[Any]]] = {}

    def open(self, scope: EpisodeScope) -> None:
        """Note the tasks of this episode from now on."""
        self._tasks[scope] = WeakSet()

    def close(self, scope: EpisodeScope) -> None:
        """Forget the episode."""
        self._tasks.pop(scope, None)

    def unfinished(self, scope: EpisodeScope) -> set[asyncio.Task[Any]]:
        """Tasks of this episode that are not done."""
        return {task for task in self._tasks.get(scope, ()) if not task.done()}

    def owner(self, task: asyncio.Task[Any] | None) -> EpisodeScope | None:
        """The episode that a task belongs to. For any thread."""
        for scope, tasks in list(self._tasks.items()):
            if task is not None and task in tasks:
                return scope
        return None

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Be the running loop's task factory, in front of the one it has."""
        loop = asyncio.get_running_loop()
        before = loop.get_task_factory()

        def create(
            loop: asyncio.AbstractEventLoop,
            coroutine: Coroutine[Any, Any, Any] | Generator[Any, None, Any],
            *,
            context: Context | None = None,
            **more: Any,
        ) -> asyncio.Future[Any]:
            if before is not None:
                kwargs = more if context is None else {"context": context, **more}
                task = before(loop, coroutine, **kwargs)
            else:
                task = asyncio.Task(coroutine, loop=loop, context=context, **more)
            scope = current_scope.get() if context is None else context.get(current_scope)
            book = self._tasks.get(scope) if scope is not None else None
            if book is not None and isinstance(task, asyncio.Task):
                book.add(task)
            return task

        loop.set_task_factory(create)
        try:
            yield
        finally:
            loop.set_task_factory(before)
