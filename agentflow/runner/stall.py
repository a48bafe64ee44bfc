"""A watch on an event loop that user code may block: it names the code, and keeps a clock that leaves stalls out.

::

    with StallWatch(threshold_s=1.0, report=lambda seconds, where: print(seconds, where)) as watch:  # on the loop
        started = watch.now()
        ...                               # user code runs on the loop, and may block it
        spent = watch.now() - started     # seconds, a stall of any length counted as threshold_s at most
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self

from agentflow.agents.sources import where_running

BEATS_PER_THRESHOLD = 4  # the loop beats so often in threshold_s: a stall is noticed a quarter late at most
REPORT_EVERY_S = 10.0  # a stall that lasts is reported in pieces, so that somebody who waits can read why
UNSEEN = "native code that holds the GIL (a regular expression, a huge integer), or the process was stopped"


class StallWatch:
    """Watches the running loop from a thread, from ``with`` to its end.

    Args:
        threshold_s: a loop that does not come round for so long is stalled.
        report: called in the watching thread with the seconds since the stall began, or since the last report of it
            (so the reports of one stall add up to it), and the user's code that held the loop most of the time.
        holder: called in the watching thread during a stall; says on whose account it goes, or None.
    """

    def __init__(
        self,
        threshold_s: float,
        report: Callable[[float, str], None],
        holder: Callable[[], Hashable | None] = lambda: None,
    ) -> None:
        self._threshold = threshold_s
        self._interval = threshold_s / BEATS_PER_THRESHOLD
        self._report = report
        self._holder = holder
        self._thread = threading.Thread(target=self._watch, name="agentflow-stall-watch", daemon=True)
        self._end = threading.Event()
        self._counted = 0.0  # the clock at the last beat
        self._beat_at = time.monotonic()
        self._excused = False
        self._caused: dict[Hashable, float] = {}
        self._holders: Counter[Hashable | None] = Counter()  # seen during the present stall
        self._over: list[tuple[float, float]] = []  # (began, ended) of stalls that the thread has yet to report

    def __enter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        self._watched = threading.get_ident()
        self._beat_at = time.monotonic()
        self._timer = self._loop.call_later(self._interval, self._beat)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._timer.cancel()
        self._end.set()
        self._thread.join()

    def now(self) -> float:
        """Seconds on a clock that advances by ``threshold_s`` at most however long the loop is blocked."""
        if self._excused:
            return self._counted
        return self._counted + min(time.monotonic() - self._beat_at, self._threshold)

    def caused_s(self, holder: Hashable) -> float:
        """Seconds of stalls on this holder's account that :meth:`now` left out."""
        return self._caused.get(holder, 0.0)

    def forget(self, holder: Hashable) -> None:
        """Close this holder's account."""
        self._caused.pop(holder, None)

    def blocked_by(self) -> Hashable | None:
        """The holder that was seen most during the present stall."""
        seen = self._holders.most_common(1)
        return seen[0][0] if seen else None

    def blocked_s(self) -> float:
        """For how long the loop is blocked right now; 0 when it is not, or is excused. For any thread."""
        if self._excused:  # asked first: where it says no, the beat that an excused block ended with is there already
            return 0.0
        gap = time.monotonic() - self._beat_at
        return gap if gap > self._threshold else 0.0

    def where(self) -> str:
        """What the watched thread is executing, at the user's innermost place. For any thread."""
        return where_running(sys._current_frames().get(self._watched))

    @contextmanager
    def excused(self) -> Iterator[None]:
        """Block the loop on purpose: inside, the clock stands still and nothing is reported."""
        self._counted, self._excused = self.now(), True
        try:
            yield
        finally:
            self._beat_at, self._excused = time.monotonic(), False

    def _beat(self) -> None:
        at = time.monotonic()
        gap = at - self._beat_at
        self._counted += min(gap, self._threshold)
        if gap > self._threshold:
            self._over.append((self._beat_at, at))
        self._beat_at = at
        self._timer = self._loop.call_later(self._interval, self._beat)

    def _watch(self) -> None:
        places: Counter[str] = Counter()  # where the present stall was seen
        reported_until = 0.0
        ending = False
        while not ending:
            ending = self._end.wait(self._interval)
            while self._over:
                began, ended = self._over.pop(0)
                holder = self.blocked_by()
                if holder is not None:
                    self._caused[holder] = self.caused_s(holder) + ended - began - self._threshold
                self._report(ended - max(began, reported_until), _most_seen(places))
                places.clear()
                self._holders.clear()
            if self.blocked_s():
                places[self.where()] += 1
                self._holders[self._holder()] += 1
                since = max(self._beat_at, reported_until)
                if time.monotonic() - since > REPORT_EVERY_S:
                    reported_until = time.monotonic()
                    self._report(reported_until - since, _most_seen(places))


def _most_seen(places: Counter[str]) -> str:
    return places.most_common(1)[0][0] if places else UNSEEN
