"""Reward processes that can be killed: a wall limit and a memory limit for every call.

One thread owns the processes, starts them when there is work and ends those that overstep. Calls come from any thread
or event loop and get a ``concurrent.futures.Future``. A process is a fresh interpreter, not a fork and not a
``multiprocessing`` spawn: it works from notebooks, from scripts without a ``__main__`` guard and from processes with
threads. Python's own and pebble's pools do one of these two; pebble also has no memory limit.
"""

from __future__ import annotations

import atexit
import os
import selectors
import socket
import threading
import time
from collections import deque
from concurrent.futures import Future
from typing import Any

from agentflow.rewards.worker import Call, Worker, fail, resident_bytes

DEFAULT_TIMEOUT_S = 10.0
DEFAULT_MEMORY_BYTES = 2 * 1024**3
MAX_PROCESSES = 4  # a runner's event loop is full long before four graders are

_MEMORY_POLL_S = 0.05


class RewardPool:
    """At most ``processes`` reward processes, started as they are needed."""

    def __init__(self, processes: int | None = None) -> None:
        self.processes = processes or min(MAX_PROCESSES, os.cpu_count() or 1)
        self._queue: deque[Call] = deque()
        self._lock = threading.Lock()
        self._closed = False
        self._workers: list[Worker] = []
        self._selector = selectors.DefaultSelector()
        self._bell, self._ear = socket.socketpair()
        self._rung = False
        self._weigh_at = 0.0
        self._ear.setblocking(False)
        self._selector.register(self._ear, selectors.EVENT_READ)
        # The kernel's parent-death signal comes when the *thread* that started a process ends: this one never does.
        self._thread = threading.Thread(target=self._run, name="agentflow-rewards", daemon=True)
        self._thread.start()

    def submit(self, call: Call) -> Future[Any]:
        """Queue a call. The future holds what the function returned, or a GraderError."""
        with self._lock:
            if self._closed:
                raise RuntimeError("the reward pool is closed")
            self._queue.append(call)
            self._ring()
        return call.future

    def close(self) -> None:
        """End all processes; calls that are not done fail."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._ring()
        self._thread.join(timeout=10.0)

    @property
    def closed(self) -> bool:
        """Whether calls are no longer taken."""
        return self._closed

    def pids(self) -> list[int]:
        """Process ids of the living reward processes."""
        return [worker.process.pid for worker in list(self._workers)]

    def _ring(self) -> None:
        if not self._rung:
            self._rung = True
            self._bell.send(b"\0")

    def _run(self) -> None:
        try:
            while not self._closed:
                self._hand_out()
                for key, _ in self._selector.select(self._patience()):
                    if key.data is None:
                        with self._lock:
                            self._ear.recv(64)
                            self._rung = False
                    else:
                        self._hear(key.data)
                self._enforce_limits()
        finally:  # whatever ended the thread, nobody waits for it
            with self._lock:
                self._closed = True
            for worker in list(self._workers):
                self._end(worker, "the pool was closed")
            while self._queue:
                self._fail_next("the pool was closed before it was its turn")
            self._selector.close()
            self._ear.close()
            self._bell.close()

    def _hand_out(self) -> None:
        """Give queued calls to idle processes; start processes for calls that would wait."""
        for worker in list(self._workers):
            while self._queue and worker.idle:
                call = self._queue.popleft()
                if call.future.set_running_or_notify_cancel() and not worker.take(call):
                    self._end(worker, "its process was gone")
        starting = sum(worker.starting for worker in self._workers)
        while len(self._queue) > starting and len(self._workers) < self.processes:
            try:
                worker = Worker()
            except OSError as e:
                self._fail_next(f"no reward process could be started ({e})")
                continue
            self._workers.append(worker)
            self._selector.register(worker.socket, selectors.EVENT_READ, worker)
            starting += 1

    def _patience(self) -> float | None:
        deadlines = [worker.deadline for worker in self._workers if worker.deadline is not None]
        if not deadlines:
            return None
        left = max(0.0, min(deadlines) - time.monotonic())
        return min(left, _MEMORY_POLL_S) if any(worker.call for worker in self._workers) else left

    def _hear(self, worker: Worker) -> None:
        try:
            replies = worker.replies()
        except OSError:
            replies = None
        if replies is None:
            self._end(worker, worker.last_words())
            return
        for reply in replies:
            if worker.idle:  # nothing was asked: whoever wrote this would answer the next call too
                self._end(worker, "")
                return
            worker.answered(reply)
        if worker.is_worn:
            self._end(worker, "")

    def _enforce_limits(self) -> None:
        now = time.monotonic()
        weigh = now >= self._weigh_at
        if weigh:
            self._weigh_at = now + _MEMORY_POLL_S
        for worker in list(self._workers):
            if worker.deadline is not None and now >= worker.deadline:
                self._end(worker, worker.overdue())
            elif weigh and worker.call is not None and resident_bytes(worker.process.pid) > worker.call.memory_bytes:
                self._end(worker, f"it took more than {worker.call.memory_bytes / 1024**2:.0f} MiB of memory")

    def _end(self, worker: Worker, why: str) -> None:
        if worker not in self._workers:
            return
        self._workers.remove(worker)
        self._selector.unregister(worker.socket)
        worker.kill()
        if worker.call is not None:
            fail(worker.call, why)
        elif worker.starting and self._queue:
            # else a process that cannot start would be started for ever
            self._fail_next(f"no reward process could be started ({why})")

    def _fail_next(self, why: str) -> None:
        call = self._queue.popleft()
        if call.future.set_running_or_notify_cancel():
            fail(call, why)


_shared: RewardPool | None = None
_shared_lock = threading.Lock()


def shared_pool() -> RewardPool:
    """The pool of this process, started at its first use and ended with the process."""
    global _shared
    with _shared_lock:
        if _shared is None or _shared.closed:
            _shared = RewardPool()
            atexit.register(_shared.close)
        return _shared


def _forget_shared() -> None:
    """After a fork the thread is the parent's and so are the processes."""
    global _shared, _shared_lock
    _shared, _shared_lock = None, threading.Lock()


os.register_at_fork(after_in_child=_forget_shared)
