"""What runs on a node of a Ray cluster: an actor that is the parent of one copy.

The class travels to the node by value and needs nothing but Ray and the standard library there, so that the cluster's
own Python need not have agentflow; the copy's Python has.
"""

from __future__ import annotations

import importlib.util
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from agentflow.processes.logtail import MAX_BYTES, tail

GRACE_S = 5.0  # between TERM and KILL when this actor's process dies
RAY_DEBUGGER = "ray.util.rpdb.set_trace"  # what a breakpoint() in an actor opens; a copy is none


class Host:
    """Starts a command, says how it ended, stops it. The guard ends the command when this process dies in any way."""

    def start(
        self,
        command: Sequence[str],
        env: Mapping[str, str],
        secret_env: Mapping[str, str],
        log: str,
        folder: str,
        python: str,
        own_python: bool,
        guard: str,
    ) -> tuple[str, str, int, float, str]:
        """Start the command.

        Args:
            env: added to what Ray gives this process.
            log: file that the output is added to.
            folder: working directory, where it exists here.
            python: where the command's first word is this, it means the interpreter.
            own_python: the interpreter is to be this process's; else only where ``python`` does not exist here.
            guard: path of the guard's program; where it does not exist, agentflow's in this environment is taken.

        Returns:
            Id and address of the node, pid of the command, time of its start, and why the log cannot be written here.

        Raises:
            OSError: it cannot be started.
        """
        import ray

        self._log, self._tail = Path(log), bytearray()
        here = ray.get_runtime_context()
        gpus = here.get_accelerator_ids().get("GPU", [])
        environ = {**os.environ, **env, **secret_env, "CUDA_VISIBLE_DEVICES": ",".join(gpus)}
        paths = [env.get("PYTHONPATH", ""), os.environ.get("PYTHONPATH", "")]
        environ["PYTHONPATH"] = os.pathsep.join(p for p in paths if p)
        if environ.get("PYTHONBREAKPOINT") == RAY_DEBUGGER:
            del environ["PYTHONBREAKPOINT"]
        if command[0] == python and (own_python or not os.path.exists(python)):
            command = [sys.executable, *command[1:]]
        guarded = [sys.executable, "-I", "-S", _found(guard), "--parent", str(os.getpid()), "--grace", str(GRACE_S)]
        self._control, theirs = socket.socketpair()
        output, complaint = self._output()
        with theirs:
            self._process = subprocess.Popen(
                # Ray kills the children of an actor that it ends; what is behind the shield survives to clean up.
                [*guarded, "--shielded", "--", *command],
                stdin=theirs.fileno(),
                stdout=output or subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=environ,
                cwd=folder if os.path.isdir(folder) else None,
                start_new_session=True,
            )
        if output is not None:
            output.close()
        else:
            threading.Thread(target=self._keep_tail, daemon=True).start()
        pid = int(self._control.recv(64))
        return here.get_node_id(), ray.util.get_node_ip_address(), pid, time.time(), complaint

    def wait(self) -> tuple[int, str]:
        """Until the command and its descendants are gone: its return code, and its last lines."""
        code = self._process.wait()
        return code, tail(self._log) or "\n".join(self._tail.decode("utf-8", "replace").splitlines()[-20:])

    def stop(self, grace_s: float) -> None:
        """TERM now and KILL after the grace, for the command and its descendants; returns at once."""
        self._control.send(b"stop %.3f\n" % grace_s)

    def _output(self) -> tuple[BinaryIO | None, str]:
        try:
            return self._log.open("ab"), ""
        except OSError as e:
            return None, e.strerror or str(e)

    def _keep_tail(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._tail += line
            del self._tail[:-MAX_BYTES]


def _found(guard: str) -> str:
    if os.path.exists(guard):
        return guard
    spec = importlib.util.find_spec("agentflow")
    if spec is None or not spec.submodule_search_locations:
        raise OSError(
            f"agentflow is neither at {guard} nor in the environment of the cluster's Python: put it where all nodes "
            "see it, or into scheduler.ray.runtime_env"
        )
    return os.path.join(spec.submodule_search_locations[0], "processes", "guard.py")
