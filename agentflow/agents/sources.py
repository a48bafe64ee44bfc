"""Which code is the user's: told by file, for tracebacks, stall reports and the fingerprint of an agent."""

from __future__ import annotations

import functools
import hashlib
import os
import site
import sys
import sysconfig
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from types import FrameType, TracebackType

import agentflow

_INSTALLED_FOLDERS = frozenset({"site-packages", "dist-packages"})
MAX_FRAMES_WALKED = 10_000  # a runaway recursion has about 1000; beyond this somebody raised the limit


def _foreign_roots() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    roots = [paths["stdlib"], paths["platstdlib"], *site.getsitepackages(), str(Path(agentflow.__file__).parent)]
    return tuple(str(Path(root).resolve()) + "/" for root in roots)


_FOREIGN_ROOTS = _foreign_roots()


@functools.lru_cache(maxsize=4096)
def is_users(filename: str) -> bool:
    """True for code that is neither the standard library, nor installed, nor agentflow itself.

    A notebook's cells count as the user's; code without any file (``<string>``, frozen modules) does not.
    """
    if filename.startswith("<"):
        return filename.startswith("<ipython-input")
    if not os.path.isabs(filename):  # run from a working directory that may be gone
        return True
    path = Path(filename).resolve()
    return not str(path).startswith(_FOREIGN_ROOTS) and _INSTALLED_FOLDERS.isdisjoint(path.parts)


def place(filename: str, line: int, function: str) -> str:
    """``agent.py:12 in run``: the file under the working directory where it lies there."""
    path = Path(filename)
    with suppress(ValueError, OSError):  # elsewhere, or the working directory is gone
        path = path.relative_to(Path.cwd())
    return f"{path}:{line} in {function}" if function != "<module>" else f"{path}:{line}"


def users_lines(trace: TracebackType | None) -> list[tuple[str, int, str]]:
    """(file, line, function) of the user's frames of a traceback, outermost first."""
    lines: list[tuple[str, int, str]] = []
    for _ in range(MAX_FRAMES_WALKED):
        if trace is None:
            break
        code = trace.tb_frame.f_code
        if is_users(code.co_filename):
            lines.append((code.co_filename, trace.tb_lineno, code.co_name))
        trace = trace.tb_next
    return lines


def where(error: BaseException) -> str:
    """The innermost place of the user's own code that an exception came through; "" where there is none."""
    lines = users_lines(error.__traceback__)
    return place(*lines[-1]) if lines else ""


def where_running(frame: FrameType | None) -> str:
    """The innermost place of the user's own code on a live stack, else the innermost place at all."""
    innermost = frame
    for _ in range(MAX_FRAMES_WALKED):
        if frame is None:
            break
        if is_users(frame.f_code.co_filename):
            return place(frame.f_code.co_filename, frame.f_lineno or 0, frame.f_code.co_name)
        frame = frame.f_back
    if innermost is None:
        return "an unknown place"
    return place(innermost.f_code.co_filename, innermost.f_lineno or 0, innermost.f_code.co_name)


def where_suspended(awaited: object) -> str:
    """The innermost place of the user's own code in a coroutine that waits; "" where there is none."""
    found = ""
    for _ in range(MAX_FRAMES_WALKED):
        frame = getattr(awaited, "cr_frame", None)
        if frame is None:
            break
        if is_users(frame.f_code.co_filename):
            found = place(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)
        awaited = getattr(awaited, "cr_await", None)
    return found


def fingerprint(roots: Iterable[Path]) -> dict[str, str]:
    """sha256 by file of the imported modules that lie under one of the folders and are the user's own.

    The keys are paths from where the import began (``agent.py``, ``pkg/tools.py``): the same on every machine and in
    every working directory.
    """
    folders = [root.resolve() for root in roots]
    hashes: dict[str, str] = {}
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if not isinstance(file, str) or not file.endswith(".py") or not is_users(file):
            continue
        path = Path(file).resolve()
        if path.is_file() and any(path.is_relative_to(folder) for folder in folders):
            depth = name.count(".") + 1 + (path.name == "__init__.py")
            hashes["/".join(path.parts[-depth:])] = hashlib.sha256(path.read_bytes()).hexdigest()
    return dict(sorted(hashes.items()))
