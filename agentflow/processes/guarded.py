"""Start a command under a guard (:mod:`agentflow.processes.guard`), wait for it, stop it with all descendants."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import anyio
from anyio.abc import Process

from agentflow.errors import SchedulerError
from agentflow.processes import guard

GUARD_START_S = 60.0  # it takes milliseconds; a machine that swaps takes its time
GRACE_S = 5.0  # between TERM and KILL where nobody said otherwise (the parent died, the command left children)
MARGIN_S = guard.KILL_LIMIT_S + 5.0  # beyond the grace, before the guard itself is killed


class GuardedProcess:
    """A running command. ``pid`` is the command's own, not the guard's."""

    def __init__(self, process: Process, control: socket.socket, pid: int) -> None:
        self._process = process
        self._control = control
        self.pid = pid

    @property
    def returncode(self) -> int | None:
        """As in :mod:`subprocess`: None while it or a descendant runs, negative for a signal."""
        return self._process.returncode

    async def wait(self) -> int:
        """Until the command and all its descendants are gone; its return code."""
        code = await self._process.wait()
        self._control.close()
        return code

    async def stop(self, grace_s: float = GRACE_S) -> int:
        """TERM, and KILL after the grace, for the command and all descendants; returns when they are gone."""
        with suppress(OSError):  # it has ended already
            self._control.send(b"stop %.3f\n" % grace_s)
        with anyio.move_on_after(grace_s + MARGIN_S):
            return await self.wait()
        self._process.kill()
        return await self.wait()


async def start(argv: Sequence[str], *, env: Mapping[str, str], log: Path) -> GuardedProcess:
    """Start ``argv`` in a session of its own (a terminal's Ctrl-C does not reach it); its output is added to ``log``.

    Args:
        env: the whole environment of the command.

    Raises:
        SchedulerError: the log cannot be opened or the guard does not come up. A command that does not exist is
            not an error here: it ends with code 127 and says so in its log.
    """
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    guarded = [sys.executable, "-I", "-S", guard.__file__, "--parent", str(os.getpid()), "--grace", str(GRACE_S), "--"]
    try:
        with theirs, log.open("ab") as output:
            process = await anyio.open_process(
                [*guarded, *argv],
                stdin=theirs.fileno(),
                stdout=output,
                stderr=subprocess.STDOUT,
                env=env,
                start_new_session=True,
            )
    except OSError as e:
        ours.close()
        raise SchedulerError(f"{argv[0]} cannot be started with its output in {log}: {e.strerror}.") from e
    try:
        with anyio.fail_after(GUARD_START_S):
            await anyio.wait_readable(ours)
        pid = int(ours.recv(64))
    except (TimeoutError, ValueError, OSError) as e:
        process.kill()
        ours.close()
        raise SchedulerError(f"The guard process of {argv[0]} did not come up; see {log}.") from e
    except BaseException:
        ours.close()  # the guard sees this and ends what it may have started
        raise
    return GuardedProcess(process, ours, pid)


def ending(returncode: int) -> str:
    """How a process ended, in words: ``exited with code 3``, ``was killed by SIGKILL``."""
    if returncode >= 0:
        return f"exited with code {returncode}"
    try:
        return f"was killed by {signal.Signals(-returncode).name}"
    except ValueError:
        return f"was killed by signal {-returncode}"
