"""What a run has beside this process: a folder with its secrets, and a watchman.

The watchman cancels the run's jobs, waiting ones too, and removes the folder when this process dies, also by SIGKILL.

Secrets reach the copies in a 0600 file on the file system that the nodes share anyway for the logs. They are not in
the environment of sbatch: slurmctld would keep that in its spool, and accounting may keep it for good.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import anyio

from agentflow.errors import SchedulerError
from agentflow.processes import guarded
from agentflow.processes.guarded import GuardedProcess

# Its guard sends TERM to all of its children, and scancel must not hear it.
PROGRAM = 'trap \'trap "" TERM; scancel --name="$1"; rm -rf "$2"; exit 0\' TERM; while :; do sleep 86400 & wait; done'


class Watchman:
    """Started with the first job; :meth:`dismiss` it when the jobs have ended.

    Args:
        name: of the run's jobs.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._folder: Path | None = None
        self._process: GuardedProcess | None = None

    @property
    def on_duty(self) -> bool:
        """Whether there may be jobs."""
        return self._process is not None

    async def keep(self, path: Path, content: str) -> None:
        """Write a file with secrets into the run's own folder, and watch from now on.

        Raises:
            SchedulerError: it cannot be written.
        """
        self._folder = path.parent
        await anyio.to_thread.run_sync(_write, path, content)
        if self._process is None:
            argv = ["sh", "-c", PROGRAM, "watchman", self._name, str(self._folder)]
            self._process = await guarded.start(argv, env=os.environ, log=self._folder.parent / "slurm.log")

    async def dismiss(self) -> None:
        """Let it go, and the folder with it."""
        if self._process is not None:
            await self._process.stop()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)


def _write(path: Path, content: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.parent.chmod(0o700)
        path.touch(mode=0o600)
        path.write_text(content, encoding="utf-8")
    except OSError as e:
        raise SchedulerError(f"{path} cannot be written: {e.strerror}.") from e
