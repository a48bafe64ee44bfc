"""The waits of one call: each has a limit, and each can be ended from outside."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Self


class EpisodeOverError(Exception):
    """The episode ended while a call of it was on its way."""


class WorkerLeftError(Exception):
    """The worker is gone, or was restarted, while a call was on its way to it."""


class Clock:
    """``async with clock.limit(seconds): ...`` waits at most so long, one wait at a time.

    Raises out of the block:
        TimeoutError: the limit has passed.
        EpisodeOverError: :meth:`end_episode` was called, before or during the wait.
        WorkerLeftError: :meth:`leave` was called during the wait.

    The two methods may be called on the clock's own loop only; :meth:`tell` gets there from any thread.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._limit: float | None = None
        self._wait: asyncio.Timeout | None = None
        self._left = False
        self._over = False

    def now(self) -> float:
        """Seconds on the loop's clock."""
        return self._loop.time()

    @property
    def deadline(self) -> float | None:
        """Of the latest wait, on the loop's clock."""
        return self._limit

    def limit(self, seconds: float | None) -> Self:
        """Of the next wait."""
        return self.until(None if seconds is None else self.now() + seconds)

    def until(self, when: float | None) -> Self:
        """The same with a point in time."""
        self._limit = when
        return self

    async def __aenter__(self) -> Self:
        if self._over:
            raise EpisodeOverError
        self._left = False
        self._wait = asyncio.timeout_at(self._limit)
        await self._wait.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        wait, self._wait = self._wait, None
        assert wait is not None
        try:
            await wait.__aexit__(kind, error, trace)
        except TimeoutError:
            if self._over:
                raise EpisodeOverError from None
            if self._left:
                raise WorkerLeftError from None
            raise

    def tell(self, do: Callable[[], None]) -> None:
        """Have ``do`` called on the clock's loop. From any thread."""
        with suppress(RuntimeError):  # its loop is closed, and the call with it
            self._loop.call_soon_threadsafe(do)

    def end_episode(self) -> bool:
        """End the wait, and refuse further ones. False: there was no wait."""
        self._over = True
        return self._wake()

    def leave(self) -> None:
        """End the wait for a worker that is gone."""
        self._left = True
        self._wake()

    def _wake(self) -> bool:
        if self._wait is None or self._wait.expired():
            return False
        self._wait.reschedule(self.now())
        return True
