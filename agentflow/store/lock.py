"""One controller a run directory: a lock file that names host, pid and boot id.

``flock`` may be missing or silently local on a cluster's file system, so the lock is the existence of a file that was
created with ``O_EXCL``. A lock whose holder is provably dead (on this host: another boot, no such process, or a
process that started at another time) is taken over; a lock of another host cannot be judged from here.
"""

from __future__ import annotations

import os
import socket
import subprocess
import time
from pathlib import Path

import msgspec

from agentflow.errors import RunLockedError
from agentflow.store.files import LOCK, write_error


class Holder(msgspec.Struct, frozen=True):
    """The content of a lock file.

    Args:
        boot_id: differs after a reboot; empty where the system does not say.
        process_start: when the process started, in the kernel's own count, so that a reused pid is told apart;
            empty where the system does not say.
        since: local time, for a reader.
    """

    host: str
    pid: int
    boot_id: str = ""
    process_start: str = ""
    since: str = ""

    @classmethod
    def this_process(cls) -> Holder:
        """The holder that this process would be."""
        pid = os.getpid()
        return cls(socket.gethostname(), pid, _boot_id(), _process_start(pid) or "", time.strftime("%Y-%m-%d %H:%M:%S"))


def is_dead(holder: Holder, here: Holder) -> bool:
    """Whether a holder on this host is provably gone. Never true for another host."""
    if holder.host != here.host:
        return False
    if holder.boot_id and here.boot_id and holder.boot_id != here.boot_id:
        return True
    start = _process_start(holder.pid)
    if start is None:
        return True
    return bool(holder.process_start and start and holder.process_start != start)


class RunLock:
    """The lock of one run directory, held from :meth:`acquire` to :meth:`release`."""

    def __init__(self, path: Path, holder: Holder) -> None:
        self._path = path
        self._holder = holder

    @classmethod
    def acquire(cls, run_dir: Path) -> RunLock:
        """Take the lock, also from a dead holder.

        Raises:
            RunLockedError: somebody holds it; names host and pid, and what to do.
            StoreError: the lock file cannot be written.
        """
        path = run_dir / LOCK
        me = Holder.this_process()
        if not _create(path, me):
            _remove_if_dead(path, me)
            if not _create(path, me):
                raise _locked(path, _read(path), me)
        return cls(path, me)

    def release(self) -> None:
        """Give the lock back, if it is still ours."""
        if _read(self._path) == self._holder:
            self._path.unlink(missing_ok=True)


def _remove_if_dead(path: Path, me: Holder) -> None:
    """Remove the lock of a dead holder; only the process that created the take-over file may do so.

    Without that file two processes could judge the same dead lock, and the slower one remove the faster one's new lock.
    """
    holder = _read(path)
    if holder is None or not is_dead(holder, me):
        raise _locked(path, holder, me)
    takeover = path.with_name(f"{path.name}.takeover")
    if not _create(takeover, me):
        raise RunLockedError(
            f"Another process is taking over {path.parent} right now: try again; if {takeover} stays, remove it."
        )
    try:
        if _read(path) == holder:
            path.unlink(missing_ok=True)
    finally:
        takeover.unlink(missing_ok=True)


def _locked(path: Path, holder: Holder | None, me: Holder) -> RunLockedError:
    if holder is None:
        return RunLockedError(f"The lock {path} is not readable: if no controller writes {path.parent}, remove it.")
    who = f"pid {holder.pid} on host {holder.host} (since {holder.since})"
    if holder.host != me.host:
        return RunLockedError(
            f"{path.parent} is locked by {who}, which cannot be checked from {me.host}: "
            f"if you are sure that it is gone, remove {path} and try again."
        )
    return RunLockedError(f"{path.parent} is being written by {who}: wait until it ends, or stop it.")


def _create(path: Path, holder: Holder) -> bool:
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    except FileExistsError:
        return False
    except OSError as e:
        raise write_error(path, e) from e
    try:
        os.write(fd, msgspec.json.encode(holder) + b"\n")
        os.fsync(fd)
    except OSError as e:
        path.unlink(missing_ok=True)
        raise write_error(path, e) from e
    finally:
        os.close(fd)
    return True


def _read(path: Path) -> Holder | None:
    """None when it is not there or not readable."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Holder)
    except (OSError, msgspec.DecodeError):
        return None


def _process_start(pid: int) -> str | None:
    """When a process started; empty where the system does not say; None when there is no such process (any more)."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:  # not Linux, another user's process under hidepid, or really no such process
        return "" if _exists(pid) else None
    state, *rest = stat.rpartition(")")[2].split()  # the name before it may contain anything
    return None if state in "ZX" else rest[18]


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        pass
    try:
        command = ["sysctl", "-n", "kern.bootsessionuuid"]  # macOS
        return subprocess.run(command, capture_output=True, text=True, timeout=5, check=False).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        return ""
