"""``status.json``: what a controller has at this moment, or how it ended, for ``agentflow status``."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import msgspec

from agentflow.errors import NotARunError
from agentflow.store.files import read_error

STATUS = "status.json"


class ProcessStatus(msgspec.Struct, frozen=True):
    """One worker or runner.

    Args:
        state: ``up``, ``starting``, ``waiting`` (for resources; ``note`` says why), ``away`` (its socket closed),
            ``down`` (an endpoint that cannot be reached; ``note`` says why).
        since: Unix timestamp of its start; None while it waits.
        episodes: placed on this worker, or playing in this runner, now.
        note: an engine's load, or why it waits or is down.
    """

    name: str
    kind: str
    state: str
    node: str = ""
    since: float | None = None
    episodes: int = 0
    note: str = ""


class Ended(msgspec.Struct, frozen=True):
    """That a controller is over.

    Args:
        at: Unix timestamp.
        stopped_by: ``user``, ``caller`` (it was cancelled), ``error``; empty where its work was done.
        error: one sentence.
    """

    at: float
    stopped_by: str = ""
    error: str = ""


class Status(msgspec.Struct, frozen=True):
    """A controller at one moment.

    Args:
        cap: episodes that admission allows at once.
        ended: None while it runs, and for ever where it was killed.
    """

    at: float
    host: str
    pid: int
    in_flight: int
    cap: int
    processes: tuple[ProcessStatus, ...]
    ended: Ended | None = None


def write_status(run_dir: Path, status: Status) -> None:
    """Replace ``status.json``. No number of the run depends on it, so it is not made durable."""
    _replace(run_dir, msgspec.json.format(msgspec.json.encode(status), indent=2) + b"\n")


def keep_status(run_dir: Path) -> Callable[[], None]:
    """Remember ``status.json`` as it is now; returns what puts it back. A file that cannot be read counts as none."""
    try:
        before = (run_dir / STATUS).read_bytes()
    except OSError:
        return lambda: (run_dir / STATUS).unlink(missing_ok=True)
    return lambda: _replace(run_dir, before)


def _replace(run_dir: Path, text: bytes) -> None:
    temporary = run_dir / f".{STATUS}.new"
    temporary.write_bytes(text)
    os.replace(temporary, run_dir / STATUS)


def read_status(run_dir: Path) -> Status:
    """Raises NotARunError (no run, or it has not started), StoreError."""
    path = run_dir / STATUS
    try:
        return msgspec.json.decode(path.read_bytes(), type=Status)
    except OSError as e:
        raise read_error(path, e) from e
    except msgspec.DecodeError as e:
        raise NotARunError(f"{path} is broken ({e}): is it of this version of agentflow?") from e
