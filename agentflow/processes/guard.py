"""A small process around one command that leaves no descendant behind, whatever happens to its parent.

Started as ``python -I -S guard.py --parent PID --grace SECONDS [--shielded] -- COMMAND...`` with a socket as standard
input, so that it costs a few milliseconds; it imports nothing of agentflow. Where nobody can hand it a socket (a step
of a cluster's job) it does without, and ``--parent 0`` is whoever started it. On Linux it is a child subreaper:
processes that setsid or double-fork away from the command become its children and are found all the same. It ends
everything (TERM, a bounded grace, KILL) when

- the command ends by itself, whatever it left behind;
- the other end of the socket closes or its parent process ends, also by SIGKILL;
- it reads ``stop SECONDS`` from the socket, or gets SIGTERM or SIGHUP. A second order may shorten the grace.

It then ends as the command did: with its exit code, or by its signal. If the guard itself is killed, the command dies
by its parent-death signal. The command's pid is the first thing that the guard writes into the socket. A shielded
guard is a grandchild of its parent, for parents that kill their children on the way out (Ray's workers).

On macOS there are no subreapers and no parent-death signals: there the command's process group is killed.
"""

from __future__ import annotations

import contextlib
import os
import resource
import select
import signal
import stat
import sys
import time

LINUX = sys.platform == "linux"
PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
POLL_S = 0.05  # between looks at processes that are not our own children, while they are being ended
KILL_LIMIT_S = 10.0  # a process in uninterruptible sleep outlives SIGKILL; then we go without it
COMMAND_NOT_RUN = 127  # what a shell says
RESTORED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE, signal.SIGCHLD)


def prctl(option: int, value: int) -> None:
    import ctypes

    if ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl({option}) failed")


def descendants(root: int) -> list[int]:
    """Pids of all live descendants of a process, zombies left out."""
    children: dict[int, list[tuple[int, bool]]] = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as f:
                stat = f.read().rpartition(b")")[2].split()
        except OSError:
            continue  # ended while we looked
        state, parent, threads = stat[0], int(stat[1]), int(stat[17])
        # A process whose first thread has ended looks like a zombie, but lives on in its others.
        children.setdefault(parent, []).append((int(name), state != b"Z" or threads > 1))
    found, todo = [], [root]
    while todo:
        for pid, alive in children.get(todo.pop(), []):
            todo.append(pid)
            if alive:
                found.append(pid)
    return found


def send(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):  # ended since we looked, or became another user's
        os.kill(pid, number)


class Guard:
    """The command, and what is known of it."""

    def __init__(self, command: list[str], grace_s: float) -> None:
        self.grace_s = grace_s
        self.stopping = False
        self.connected = stat.S_ISSOCK(os.fstat(0).st_mode)
        self.status: int | None = None  # the command's wait status
        self.signals = self.watch_signals()
        self.pid = self.spawn(command)

    def watch_signals(self) -> int:
        reader, writer = os.pipe()
        os.set_blocking(reader, False)
        os.set_blocking(writer, False)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self.on_stop_signal)
        return reader

    def on_stop_signal(self, *_: object) -> None:
        self.stopping = True

    def spawn(self, command: list[str]) -> int:
        guard = os.getpid()
        # Blocked until the child has its own handlers back: a signal in between would be taken for one to the guard.
        unblocked = signal.pthread_sigmask(signal.SIG_BLOCK, RESTORED)
        pid = os.fork()
        if pid:
            signal.pthread_sigmask(signal.SIG_SETMASK, unblocked)
            return pid
        try:
            os.setsid()
            signal.set_wakeup_fd(-1)
            for number in RESTORED:
                signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_SETMASK, unblocked)
            if LINUX:
                prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
                if os.getppid() != guard:  # it died before the line above
                    os._exit(COMMAND_NOT_RUN)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.execvp(command[0], command)
        except OSError as e:
            print(f"{command[0]} cannot be run: {e.strerror}.", file=sys.stderr, flush=True)
        finally:
            os._exit(COMMAND_NOT_RUN)

    def reap(self) -> None:
        """Collect every child that has ended: the command, and orphans that came to us."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self.pid:
                self.status = status

    def listen(self, parent: int | None, timeout_s: float | None) -> None:
        """Wait for a signal, an order, or the parent's end, and take note of it."""
        watched = [self.signals] + ([0] if self.connected else []) + ([parent] if parent is not None else [])
        ready, _, _ = select.select(watched, [], [], timeout_s)
        if self.signals in ready:
            os.read(self.signals, 4096)
        if parent in ready:
            self.stopping = True
        if 0 in ready:
            self.stopping = True
            try:
                order = os.read(0, 64).split()
            except OSError:
                order = []
            if order[:1] == [b"stop"]:
                self.grace_s = float(order[1])
            else:
                self.connected = False

    def left(self) -> list[int]:
        """Pids (negative: of process groups) that still live."""
        if LINUX:
            return descendants(os.getpid())
        try:
            os.killpg(self.pid, 0)
        except (ProcessLookupError, PermissionError):
            return []
        return [-self.pid]

    def end_all(self) -> None:
        told: set[int] = set()
        start = time.monotonic()
        while True:
            self.reap()
            left = self.left()
            waited = time.monotonic() - start
            # It may have ended since it was reaped for: its status is still to come.
            if (not left and self.status is not None) or waited > self.grace_s + KILL_LIMIT_S:
                return
            for pid in left:
                if waited >= self.grace_s:
                    send(pid, signal.SIGKILL)
                elif pid not in told:
                    told.add(pid)
                    send(pid, signal.SIGTERM)
            self.listen(None, POLL_S)


def leave(status: int | None) -> None:
    """End as a process with this wait status did."""
    if status is None:
        os._exit(COMMAND_NOT_RUN)
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # the core file, if any, is the command's
        if number != signal.SIGKILL:
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    os._exit(os.waitstatus_to_exitcode(status))


def shield() -> None:
    """Go on in a child; what stays behind as the parent's child holds nothing and ends as we do."""
    pid = os.fork()
    if pid:
        os.close(0)
        leave(os.waitpid(pid, 0)[1])


def main(argv: list[str]) -> int:
    parent, grace_s, start = int(argv[2]) or os.getppid(), float(argv[4]), argv.index("--")
    command = argv[start + 1 :]
    parent_end = None
    if LINUX:
        # The socket alone would not do: a fork of the parent that lives on holds the other end open.
        with contextlib.suppress(OSError):  # a kernel before 5.3
            parent_end = os.pidfd_open(parent)
    if os.getppid() != parent:
        return COMMAND_NOT_RUN  # it died before we looked
    if "--shielded" in argv[:start]:
        shield()
    if LINUX:
        prctl(PR_SET_CHILD_SUBREAPER, 1)
    guard = Guard(command, grace_s)
    try:
        if guard.connected:
            os.write(0, b"%d\n" % guard.pid)
    except OSError:
        guard.stopping = True
    while guard.status is None and not guard.stopping:
        guard.listen(parent_end, None)
        guard.reap()
    guard.end_all()
    leave(guard.status)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
