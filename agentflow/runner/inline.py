"""A runner inside the controller's own process and loop: for a debugger, and for very small runs."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio

from agentflow.channel.client import Address
from agentflow.runner.leave import HURRY_S, drained
from agentflow.runner.shell import Shell


@asynccontextmanager
async def inline_runner(address: Address) -> AsyncIterator[None]:
    """Play on the running loop, until the block ends: one episode at a time, without timeouts and stall watch.

    It talks to the controller over the same WebSocket as a runner process, from a thread of its own. Signal handlers
    are left alone; the environment is a runner's inside the block, and restored after it.

    Raises:
        ChannelClosedError, RunnerError: the runner did not come up, or lost the controller's channel at its start.
    """
    before = dict(os.environ)
    shell = Shell(address, asyncio.get_running_loop(), end_process=None)
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(shell.run)
            try:
                yield
            finally:
                shell.leave(drained(grace_s=0.0, stop_grace_s=HURRY_S))
    except BaseExceptionGroup as errors:
        if len(errors.exceptions) == 1:  # the block's own error, or the runner's: not both
            raise errors.exceptions[0] from None
        raise
    finally:
        os.environ.clear()
        os.environ.update(before)
