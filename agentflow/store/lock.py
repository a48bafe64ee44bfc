"""One controller a run directory: a lock file that names host, pid and boot id.

``flock`` may be missing or silently local on a cluster's file system, so the lock is the existence of a file, which
appears whole. A lock whose holder is provably dead (on this host: another boot, no such process, or a process that
started at another time) is taken over; a lock of another host cannot be judged from here. So whoever takes over is on
one host, where a ``flock`` in its temporary directory keeps them apart, and is gone with the process that held it.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from agentflow.errors import RunLockedError
from agentflow.store.files import LOCK, write_error

TAKEOVER_S = 10.0  # it takes milliseconds; longer, and its process is stopped
NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK)


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


def dead_holder(run_dir: Path) -> Holder | None:
    """Who holds the lock of this run directory, where that is a process of this host that is provably gone."""
    holder = _read(run_dir / LOCK)
    return holder if holder is not None and is_dead(holder, Holder.this_process()) else None


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
    """Remove the lock of a dead holder; one process at a time, else a slow one might remove a fast one's new lock."""
    with _alone_on_this_host(path):
        holder = _read(path)
        if holder is None and not path.exists():  # released meanwhile
            return
        if holder is None or not is_dead(holder, me):
            raise _locked(path, holder, me)
        path.unlink(missing_ok=True)


@contextmanager
def _alone_on_this_host(path: Path) -> Iterator[None]:
    name = hashlib.sha256(os.fsencode(path.resolve())).hexdigest()[:16]
    guard = Path(tempfile.gettempdir(), f"agentflow-{os.getuid()}-{name}.lock")
    end = time.monotonic() + TAKEOVER_S
    while (fd := _locked_file(guard)) is None:
        if time.monotonic() > end:
            raise RunLockedError(f"Another process has been taking over {path.parent} for long: see who.")
        time.sleep(0.01)
    try:
        yield
    finally:
        guard.unlink(missing_ok=True)
        os.close(fd)


def _locked_file(path: Path) -> int | None:
    """A file descriptor that holds the ``flock`` of the file of this name; None while another process does."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(fd), os.stat(path)):  # else its last holder removed it: a nameless file is locked
            return fd
    except (BlockingIOError, FileNotFoundError):
        pass
    os.close(fd)
    return None


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
    """Make the lock, whole: a process that is killed in here leaves either the lock or none."""
    draft = path.with_name(f".{path.name}.{holder.pid}.{threading.get_ident()}")
    try:
        fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        try:
            os.write(fd, msgspec.json.encode(holder) + b"\n")
            os.fsync(fd)
        finally:
            os.close(fd)
        return _link(draft, path)
    except OSError as e:
        raise write_error(path, e) from e
    finally:
        with suppress(OSError):
            draft.unlink()


def _link(draft: Path, path: Path) -> bool:
    """Give the draft its name; False where there is a lock already."""
    try:
        os.link(draft, path)
    except FileExistsError:
        return False
    except OSError as e:
        if e.errno not in NO_LINKS:
            raise
        try:  # the second best, for file systems without hard links
            with open(path, "xb") as f:
                f.write(draft.read_bytes())
                os.fsync(f.fileno())
        except FileExistsError:
            return False
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
