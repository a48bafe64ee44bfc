"""Tasks beside a block of code, for as long as it lasts."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
from anyio.abc import TaskGroup


@asynccontextmanager
async def background() -> AsyncIterator[TaskGroup]:
    """A task group that is cancelled when the block ends.

    One error, of the block or of a task, comes out as it is: whoever waits for an AgentflowError must not have to look
    for it in an ExceptionGroup. Several at once stay a group.
    """
    error: BaseException | None = None
    try:
        async with anyio.create_task_group() as tasks:
            yield tasks
            tasks.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        if len(group.exceptions) > 1:
            raise
        error = group.exceptions[0]
    if error is not None:  # raised out here, where it keeps its own cause
        raise error
