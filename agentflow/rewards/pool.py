"""Reward processes that can be killed: a wall limit and a memory limit for every call.

One thread owns the processes, starts them when there is work and ends those that overstep. Calls come from any thread
or event loop and get a ``concurrent.futures.Future``. A process is a fresh interpreter, not a fork and not a
``multiprocessing`` spawn: it works from notebooks, from scripts without a ``__main__`` guard and from processes with
threads. Python's own and pebble's pools do one of these two; pebble also has no memory limit.
"""

from __future__ import annotations

import atexit
import os
import pickle
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from agentflow.rewards.errors import GraderError
from agentflow.rewards.process import HEADER

DEFAULT_TIMEOUT_S = 10.0
DEFAULT_MEMORY_BYTES = 2 * 1024**3
MAX_PROCESSES = 4  # a runner's event loop is full long before four graders are

_START_TIMEOUT_S = 120.0  # for the interpreter, and again for the imports of a function: a busy machine is slow
_MEMORY_POLL_S = 0.05
_SEND_TIMEOUT_S = 30.0
_EXIT_TIMEOUT_S = 2.0
_SHOWN = 300  # characters of each argument in messages


@dataclass
class Call:
    """One call of a function that :func:`agentflow.rewards.function.pickled` made into ``blob``."""

    name: str
    blob: bytes
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    timeout_s: float
    memory_bytes: int
    future: Future[Any] = field(default_factory=Future)

    def shown(self) -> str:
        """The input, shortened from the middle: answers stand at the end of completions."""
        given = [_shortened(repr(a)) for a in self.args]
        given += [f"{name}={_shortened(repr(value))}" for name, value in self.kwargs.items()]
        return _shortened(", ".join(given), 4 * _SHOWN)


class RewardPool:
    """At most ``processes`` reward processes, started as they are needed."""

    def __init__(self, processes: int | None = None) -> None:
        self.processes = processes or min(MAX_PROCESSES, os.cpu_count() or 1)
        self._queue: deque[Call] = deque()
        self._lock = threading.Lock()
        self._closed = False
        self._workers: list[_Worker] = []
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
                worker = _Worker()
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

    def _hear(self, worker: _Worker) -> None:
        try:
            replies = worker.replies()
        except OSError:
            replies = None
        if replies is None:
            self._end(worker, worker.last_words())
            return
        for reply in replies:
            peak = worker.answered(reply)
            if peak is not None and peak > DEFAULT_MEMORY_BYTES // 2:
                self._end(worker, "")  # what one call left behind is not charged to the next

    def _enforce_limits(self) -> None:
        now = time.monotonic()
        weigh = now >= self._weigh_at
        if weigh:
            self._weigh_at = now + _MEMORY_POLL_S
        for worker in list(self._workers):
            if worker.deadline is not None and now >= worker.deadline:
                self._end(worker, worker.overdue())
            elif weigh and worker.call is not None and _resident_bytes(worker.process.pid) > worker.call.memory_bytes:
                self._end(worker, f"it took more than {worker.call.memory_bytes / 1024**2:.0f} MiB of memory")

    def _end(self, worker: _Worker, why: str) -> None:
        if worker not in self._workers:
            return
        self._workers.remove(worker)
        self._selector.unregister(worker.socket)
        worker.kill()
        if worker.call is not None:
            _fail(worker.call, why)
        elif worker.starting and self._queue:
            # else a process that cannot start would be started for ever
            self._fail_next(f"no reward process could be started ({why})")

    def _fail_next(self, why: str) -> None:
        call = self._queue.popleft()
        if call.future.set_running_or_notify_cancel():
            _fail(call, why)


class _Worker:
    """One reward process as the pool's thread sees it."""

    def __init__(self) -> None:
        self.socket, theirs = socket.socketpair()
        with theirs:
            code = (
                f"import sys; sys.path[:] = {sys.path!r}; "
                f"from agentflow.rewards.process import main; main({theirs.fileno()}, {os.getpid()})"
            )
            # a session of its own: Ctrl-C does not reach it, and its own children die with its group
            self.process = subprocess.Popen(
                [sys.executable, "-c", code],
                stdin=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        self.socket.settimeout(_SEND_TIMEOUT_S)
        self.starting = True
        self._loading = False
        self.call: Call | None = None
        self.deadline: float | None = time.monotonic() + _START_TIMEOUT_S
        self._known: set[bytes] = set()
        self._buffer = bytearray()

    @property
    def idle(self) -> bool:
        return not self.starting and self.call is None

    def take(self, call: Call) -> bool:
        """Start a call; False if the process is gone (the call is then this worker's and fails with it)."""
        self.call = call
        new = call.blob not in self._known
        self._loading = new
        self.deadline = time.monotonic() + (_START_TIMEOUT_S if new else call.timeout_s)
        try:
            data = pickle.dumps((call.blob, call.args, dict(call.kwargs)))
        except Exception as e:  # noqa: BLE001 -- pickling runs the arguments' own code
            _fail(call, f"its arguments cannot be sent to another process: {e!r}")
            self.call = self.deadline = None
            return True
        try:
            self.socket.sendall(HEADER.pack(len(data)) + data)
        except OSError:
            return False
        return True

    def replies(self) -> list[tuple[Any, ...]] | None:
        """Whole messages that have arrived; None at the end of the stream."""
        data = self.socket.recv(1 << 20)
        if not data:
            return None
        self._buffer += data
        found = []
        while len(self._buffer) >= HEADER.size:
            (length,) = HEADER.unpack_from(self._buffer)
            if len(self._buffer) < HEADER.size + length:
                break
            found.append(pickle.loads(self._buffer[HEADER.size : HEADER.size + length]))
            del self._buffer[: HEADER.size + length]
        return found

    def answered(self, reply: tuple[Any, ...]) -> int | None:
        """Act on one message; returns the peak memory of the process after a call."""
        kind, *rest = reply
        if kind == "ready":
            self.starting, self.deadline = False, None
            return None
        call = self.call
        assert call is not None
        if kind == "loaded":
            self._known.add(call.blob)
            self._loading = False
            self.deadline = time.monotonic() + call.timeout_s
            return None
        self.call = self.deadline = None
        if kind == "returned":
            call.future.set_result(rest[0])
            return int(rest[1])
        name, message, trace, peak = rest
        _fail(call, f"it raised {name}: {message}" if message else f"it raised {name}", trace)
        return int(peak)

    def overdue(self) -> str:
        """Why the deadline was there."""
        if self.call is None:
            return f"a process did not start within {_START_TIMEOUT_S:.0f} s"
        if self._loading:
            return f"its imports took more than {_START_TIMEOUT_S:.0f} s"
        return f"it did not finish within {self.call.timeout_s:g} s"

    def last_words(self) -> str:
        """How a process ended whose socket is closed."""
        try:
            code = self.process.wait(timeout=_EXIT_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            return "its process closed the connection"
        return f"its process was ended by {signal.Signals(-code).name}" if code < 0 else f"its process exited ({code})"

    def kill(self) -> None:
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            self.process.kill()
        self.process.wait()
        self.socket.close()


def _fail(call: Call, why: str, trace: str = "") -> None:
    error = GraderError(f"The reward function {call.name} gave no reward: {why}. Its input: {call.shown()}")
    if trace:
        error.add_note(f"In the reward process:\n{trace}")
    call.future.set_exception(error)


def _shortened(text: str, limit: int = _SHOWN) -> str:
    return text if len(text) <= limit else f"{text[: limit // 3]} ... {text[-(limit - limit // 3) :]}"


def _resident_bytes(pid: int) -> int:
    """Memory in use; 0 where the system does not say (macOS) or the process is gone."""
    try:
        with open(f"/proc/{pid}/statm", "rb") as statm:
            return int(statm.read().split()[1]) * _PAGE
    except (OSError, IndexError):
        return 0


_PAGE = os.sysconf("SC_PAGE_SIZE")
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
