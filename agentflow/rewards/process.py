"""A reward process: reads calls from a socket, one at a time, and answers. It can be killed at any moment.

It ends when its parent does, also when it is busy and the parent was killed: the kernel sends the signal (Linux).
Elsewhere an idle one sees the end of the socket.
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import os
import pickle
import resource
import signal
import socket
import struct
import sys
import traceback
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from typing import Any, cast

HEADER = struct.Struct("!I")
_PR_SET_PDEATHSIG = 1
_MAX_MESSAGE = 500  # characters of an exception's message
_MAX_TRACEBACK = 4_000  # from its end, where the raising line stands

_inside = False


def is_reward_process() -> bool:
    """Whether this code runs in a reward process already: it then computes rewards itself."""
    return _inside


def main(fd: int, parent: int) -> None:
    """Serve calls on the socket ``fd`` until its other end, held by process ``parent``, is closed."""
    global _inside
    _inside = True
    _end_with(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's business
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.meta_path.append(_homes)
    process = os.getpid()
    functions: dict[bytes, Callable[..., Any]] = {}
    with socket.socket(fileno=fd) as parent_end:
        _send(parent_end, ("ready",))
        while (frame := _receive(parent_end)) is not None:
            blob, args, kwargs = pickle.loads(frame)
            reply: tuple[Any, ...]
            try:
                function = functions.get(blob)
                if function is None:
                    function = functions[blob] = _load(blob)
                    _send(parent_end, ("loaded",))  # the time limit counts from here: imports are not the grade's
                # pickled apart: a value that the parent cannot read must not spoil the message
                value = pickle.dumps(function(*args, **kwargs))
                reply = ("returned", _peak_bytes(), value)
            except BaseException as e:  # noqa: BLE001 -- whatever it is, it is reported; math_verify's time limit is one
                trace = "".join(traceback.format_tb(e.__traceback__))[-_MAX_TRACEBACK:]
                reply = ("raised", _peak_bytes(), type(e).__name__, str(e)[:_MAX_MESSAGE], trace)
            if os.getpid() != process:  # the function forked and both returned: the copy has nothing to say
                os._exit(0)
            _send(parent_end, reply)


def _end_with(parent: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before the line above
        os._exit(1)


def _load(blob: bytes) -> Callable[..., Any]:
    path, homes, code = pickle.loads(blob)
    _homes.files.update(homes)
    sys.path.extend(entry for entry in path if entry not in sys.path)
    if isinstance(code, str):
        module, _, name = code.partition(":")
        function = getattr(importlib.import_module(module), name)
    else:
        function = pickle.loads(code)
    return cast("Callable[..., Any]", function)


class _Homes:
    """Finds modules that were loaded by the path of their file, when nothing else has their name."""

    def __init__(self) -> None:
        self.files: dict[str, str] = {}

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        file = self.files.get(name)
        return None if file is None else importlib.util.spec_from_file_location(name, file)


_homes = _Homes()


def _peak_bytes() -> int:
    """The most memory that this process ever had resident.

    On Linux not by ``getrusage``: there a process begins with the peak of whoever forked it, so that every child of a
    large parent would look worn.
    """
    if sys.platform == "linux":
        with open("/proc/self/status", encoding="ascii", errors="replace") as status:
            return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM:"))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _send(sock: socket.socket, reply: tuple[Any, ...]) -> None:
    data = pickle.dumps(reply)
    sock.sendall(HEADER.pack(len(data)) + data)


def _receive(sock: socket.socket) -> bytes | None:
    """One frame; None at the end of the stream."""
    header = _exactly(sock, HEADER.size)
    return None if header is None else _exactly(sock, HEADER.unpack(header)[0])


def _exactly(sock: socket.socket, count: int) -> bytes | None:
    parts = bytearray()
    while len(parts) < count:
        part = sock.recv(min(count - len(parts), 1 << 20))
        if not part:
            return None
        parts += part
    return bytes(parts)
