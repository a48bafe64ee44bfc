"""One reward process and the call it works on, as the pool's thread sees them."""

from __future__ import annotations

import os
import pickle
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from agentflow.rewards.errors import GraderError
from agentflow.rewards.process import HEADER

_START_TIMEOUT_S = 120.0  # for the interpreter, and again for the imports of a function: a busy machine is slow
_SEND_TIMEOUT_S = 30.0
_EXIT_TIMEOUT_S = 2.0
_WORN = 0.75  # a process whose memory once passed this part of a call's limit is not used again
_SHOWN = 300  # characters of each argument in messages
_PAGE = os.sysconf("SC_PAGE_SIZE")


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
        given = [_shown(a) for a in self.args]
        given += [f"{name}={_shown(value)}" for name, value in self.kwargs.items()]
        return _shortened(", ".join(given), 4 * _SHOWN)


class Worker:
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
        self.is_worn = False
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
            fail(call, f"its arguments cannot be sent to another process: {e!r}")
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

    def answered(self, reply: tuple[Any, ...]) -> None:
        """Act on one message."""
        kind, *rest = reply
        if kind == "ready":
            self.starting, self.deadline = False, None
            return
        call = self.call
        assert call is not None
        if kind == "loaded":
            self._known.add(call.blob)
            self._loading = False
            self.deadline = time.monotonic() + call.timeout_s
            return
        self.call = self.deadline = None
        # what one call left behind is not charged to the next
        self.is_worn = rest[0] > _WORN * call.memory_bytes
        if kind == "raised":
            _, name, message, trace = rest
            fail(call, f"it raised {name}: {message}" if message else f"it raised {name}", trace)
            return
        try:
            value = pickle.loads(rest[1])
        except Exception as e:  # noqa: BLE001 -- unpickling runs the value's own code
            fail(call, f"what it returned cannot be read here: {e!r}")
        else:
            call.future.set_result(value)

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
        name = {s.value: s.name for s in signal.Signals}.get(-code, f"signal {-code}")
        return f"its process was ended by {name}" if code < 0 else f"its process exited ({code})"

    def kill(self) -> None:
        """End the process and what it started; returns when it is gone."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            self.process.kill()
        self.process.wait()
        self.socket.close()


def fail(call: Call, why: str, trace: str = "") -> None:
    """Give a call's future the GraderError that says why, with the input."""
    error = GraderError(f"The reward function {call.name} gave no reward: {why}. Its input: {call.shown()}", why)
    if trace:
        error.add_note(f"In the reward process:\n{trace}")
    call.future.set_exception(error)


def _shown(value: object) -> str:
    try:
        return _shortened(repr(value))
    except Exception:  # noqa: BLE001 -- a value's own code
        return f"<{type(value).__name__}>"


def _shortened(text: str, limit: int = _SHOWN) -> str:
    return text if len(text) <= limit else f"{text[: limit // 3]} ... {text[-(limit - limit // 3) :]}"


def resident_bytes(pid: int) -> int:
    """Memory in use; 0 where the system does not say (macOS) or the process is gone."""
    try:
        with open(f"/proc/{pid}/statm", "rb") as statm:
            return int(statm.read().split()[1]) * _PAGE
    except (OSError, IndexError):
        return 0
