"""Ctrl-C and SIGTERM: once to stop, twice to stop now, a third time to be gone."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from agentflow.errors import EXIT_INTERRUPTED

UNHEARD_S = 1.0  # a loop that has not come round for so long is held by an agent that is played inline


@contextmanager
def interrupts(heard: Callable[[], None]) -> Iterator[None]:
    """Call ``heard`` on the running loop at the first and the second signal inside the block.

    The third ends this process where it stands, and so does the second where the loop never came to hear the first.
    That is safe as ``kill -9`` is: the guards end all processes of the run, and what was written stays.

    The handlers are Python's own, not the loop's, because those wait until the loop is free.
    """
    loop = asyncio.get_running_loop()
    arrived: list[float] = []
    reached = 0

    def tell() -> None:
        nonlocal reached
        reached += 1
        heard()

    def handle(_number: int, _frame: FrameType | None) -> None:
        now = time.monotonic()
        if len(arrived) > 1 or (arrived and not reached and now - arrived[0] > UNHEARD_S):
            os.write(2, b"\nStopped at once; what was written is safe.\n")
            os._exit(EXIT_INTERRUPTED)
        arrived.append(now)
        loop.call_soon_threadsafe(tell)

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
