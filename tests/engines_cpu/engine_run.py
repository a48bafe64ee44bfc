"""What the tests of real engines share: a run of the command line, and the engine's processes seen from outside."""

from __future__ import annotations

import subprocess
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path

import psutil

from tests.e2e.conftest import CommandLine, ours, until

START_S = 400.0  # of an engine on two cores that others use, too


def run_of(agentflow: CommandLine, trial: str) -> Path:
    return agentflow.cwd / "runs" / "agentflow" / trial


def play(agentflow: CommandLine, trial: str, arguments: Sequence[str]) -> tuple[Path, str]:
    """Play a run to its end; its directory, and what was printed."""
    process = agentflow.background("run", *arguments)
    out, _ = process.communicate(timeout=2 * START_S)
    assert process.returncode == 0, out
    assert not ours(str(agentflow.cwd)), "processes are left"
    return run_of(agentflow, trial), out


def engine_log(run: Path) -> str:
    log = run / "logs" / "worker-0-engine.log"
    return log.read_text(errors="replace") if log.exists() else ""


def engine_processes(agentflow: CommandLine) -> list[psutil.Process]:
    """All of the engine's; it rewrites its own titles and environments, so they are known by their parent."""
    supervisor = next(p for p in ours(str(agentflow.cwd)) if "agentflow.workers.supervisor" in command_of(p))
    return supervisor.children(recursive=True)


def command_of(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def all_gone(processes: Sequence[psutil.Process]) -> bool:
    return not any(map(lives, processes))


def lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:  # it ended between the two
        return False


def status(url: str, key: str = "") -> int:
    """The HTTP status of a GET; 0 where nobody listens."""
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {key}"} if key else {})
    try:
        with urllib.request.urlopen(request, timeout=30) as reply:
            return int(reply.status)
    except urllib.error.HTTPError as e:
        return e.code
    except OSError:
        return 0


def served_url(run: Path) -> str:
    """The engine's, as the first line of its log has it."""
    return f"http://127.0.0.1:{engine_log(run).partition('--port ')[2].split()[0]}"


def key_is_nobodys(run: Path, key: str) -> None:
    """The key of the run was written into no file, and no process shows it in its command line."""
    assert not [p.pid for p in psutil.process_iter() if key in command_of(p)]
    assert not [p for p in run.rglob("*") if p.is_file() and key in p.read_text(errors="replace")]


def wait_for_engine(run: Path, controller: subprocess.Popen[str]) -> None:
    """Until the engine takes calls, or the run is over before that."""

    def serves() -> bool:
        return "--port " in engine_log(run) and status(served_url(run) + "/health") == 200

    until(lambda: serves() or controller.poll() is not None, "the engine's start", START_S)
    assert controller.poll() is None, controller.communicate()[0]
