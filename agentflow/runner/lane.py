"""A counted entrance to one worker, shared by the runner's two event loops."""

from __future__ import annotations

import asyncio
import threading
from collections import deque


class _Waiter:
    __slots__ = ("future", "granted", "loop")

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[bool] = self.loop.create_future()
        self.granted = False


class Lane:
    """Lets at most ``limit`` calls in at a time, first come first served, across event loops.

    asyncio's own semaphore belongs to one loop; a blocking one would stop a loop.
    """

    def __init__(self, limit: int) -> None:
        self._lock = threading.Lock()
        self._free = limit
        self._waiting: deque[_Waiter] = deque()
        self._closed = False

    def try_enter(self) -> bool:
        """Take a place if one is free now."""
        with self._lock:
            if self._closed or self._free <= 0:
                return False
            self._free -= 1
            return True

    async def enter(self) -> bool:
        """Wait for a place. False: the lane was closed, choose another worker. Leave with :meth:`leave` after True."""
        with self._lock:
            if self._closed:
                return False
            if self._free > 0:
                self._free -= 1
                return True
            waiter = _Waiter()
            self._waiting.append(waiter)
        try:
            return await waiter.future
        except asyncio.CancelledError:
            with self._lock:
                if not waiter.granted and waiter in self._waiting:
                    self._waiting.remove(waiter)
            if waiter.granted:
                self.leave()
            raise

    def leave(self) -> None:
        """Give the place back, to the next in line. From any thread."""
        with self._lock:
            while self._waiting:
                waiter = self._waiting.popleft()
                waiter.granted = _wake(waiter, True)
                if waiter.granted:
                    return
            self._free += 1

    def close(self) -> None:
        """Send everybody who waits away, and everybody who comes. From any thread."""
        with self._lock:
            self._closed = True
            while self._waiting:
                _wake(self._waiting.popleft(), False)


def _wake(waiter: _Waiter, answer: bool) -> bool:
    def tell() -> None:
        if not waiter.future.done():
            waiter.future.set_result(answer)

    if waiter.loop is asyncio._get_running_loop():  # the common case; waking a loop costs a write to its own pipe
        tell()
        return True
    try:
        waiter.loop.call_soon_threadsafe(tell)
    except RuntimeError:  # that loop is closed, and its tasks with it
        return False
    return True
