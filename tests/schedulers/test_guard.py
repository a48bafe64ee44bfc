"""No descendant of a guarded command outlives it, its parent, or its guard."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import anyio
import pytest
from processes import alive, environment, family, guard_of, pids, wait_gone

from agentflow.processes import guard, guarded

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="needs a child subreaper")


@pytest.mark.asyncio
async def test_a_guarded_command_ends_with_its_own_exit_code(tmp_path: Path) -> None:
    process = await guarded.start(["sh", "-c", "echo hello; exit 7"], env=environment(), log=tmp_path / "log")
    assert await process.wait() == 7
    assert (tmp_path / "log").read_text() == "hello\n"


@pytest.mark.asyncio
@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGKILL, signal.SIGTERM])
async def test_a_guarded_command_that_a_signal_ends_is_reported_with_that_signal(
    tmp_path: Path, number: signal.Signals
) -> None:
    process = await guarded.start(["sleep", "600"], env=environment(), log=tmp_path / "log")
    os.kill(process.pid, number)
    assert await process.wait() == -number
    assert guarded.ending(-number) == f"was killed by {number.name}"


@linux_only
@pytest.mark.asyncio
async def test_a_command_whose_first_thread_has_ended_is_not_taken_for_dead(tmp_path: Path) -> None:
    code = (
        "import ctypes, os, signal, threading;"
        "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM]);"
        "end = lambda: (signal.sigwait([signal.SIGTERM]), os._exit(9));"
        "threading.Thread(target=end).start();"
        "ctypes.CDLL(None).pthread_exit(None)"
    )
    log = tmp_path / "log"
    process = await guarded.start([sys.executable, "-c", code], env=environment(), log=log)
    await anyio.to_thread.run_sync(wait_gone, [process.pid])  # so it looks from outside
    assert await process.stop(60.0) == 9, log.read_text()


@pytest.mark.asyncio
async def test_a_command_that_does_not_exist_says_so_in_its_log(tmp_path: Path) -> None:
    process = await guarded.start(["no-such-command"], env=environment(), log=tmp_path / "log")
    assert await process.wait() == 127
    assert (tmp_path / "log").read_text() == "no-such-command cannot be run: No such file or directory.\n"


@pytest.mark.asyncio
async def test_a_guarded_command_gets_default_signals_no_input_and_a_session_of_its_own(tmp_path: Path) -> None:
    code = (
        "import os, signal, sys;"
        "print(signal.getsignal(signal.SIGINT) is signal.default_int_handler, repr(sys.stdin.read()),"
        "os.getsid(0) == os.getpid(), sorted(os.listdir('/dev/fd'))[:3])"
    )
    process = await guarded.start([sys.executable, "-c", code], env=environment(), log=tmp_path / "log")
    assert await process.wait() == 0
    assert (tmp_path / "log").read_text().startswith("True '' True")


def without_a_socket(*command: str) -> list[str]:
    """As a step of a cluster's job runs it."""
    return [sys.executable, "-I", "-S", guard.__file__, "--parent", "0", "--grace", "1", "--", *command]


def test_without_a_socket_it_ends_with_the_commands_exit_code() -> None:
    assert subprocess.run(without_a_socket("sh", "-c", "exit 7"), stdin=subprocess.DEVNULL).returncode == 7


@linux_only
@pytest.mark.parametrize("ways", [(), ("stubborn",)])
def test_without_a_socket_the_end_of_whoever_started_it_ends_everything(tmp_path: Path, ways: tuple[str, ...]) -> None:
    start = "import subprocess, sys; subprocess.run(sys.argv[1:], stdin=subprocess.DEVNULL)"
    parent = subprocess.Popen([sys.executable, "-c", start, *without_a_socket(*family(tmp_path / "pids", *ways))])
    everyone = pids(tmp_path / "pids")
    parent.kill()
    parent.wait()
    wait_gone(everyone)


@linux_only
@pytest.mark.asyncio
async def test_stop_ends_children_and_daemons_too(tmp_path: Path) -> None:
    process = await guarded.start(family(tmp_path / "pids"), env=environment(), log=tmp_path / "log")
    everyone = await anyio.to_thread.run_sync(pids, tmp_path / "pids")
    assert process.pid in everyone
    await process.stop(grace_s=30)
    assert [p for p in everyone if alive(p)] == []


@linux_only
@pytest.mark.asyncio
async def test_stop_kills_what_ignores_term_after_the_grace(tmp_path: Path) -> None:
    process = await guarded.start(family(tmp_path / "pids", "stubborn"), env=environment(), log=tmp_path / "log")
    everyone = await anyio.to_thread.run_sync(pids, tmp_path / "pids")
    assert await process.stop(grace_s=0.2) == -signal.SIGKILL
    assert [p for p in everyone if alive(p)] == []


@linux_only
@pytest.mark.asyncio
async def test_a_second_stop_shortens_the_grace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guarded, "MARGIN_S", 3600.0)  # the guard itself obeys; it is not killed for being late
    deaf = "trap 'echo heard' TERM; echo ready; while :; do sleep 0.1; done"
    process = await guarded.start(["sh", "-c", deaf], env=environment(), log=tmp_path / "log")

    async def says(word: str) -> None:
        while word not in (tmp_path / "log").read_text():  # noqa: ASYNC110 - another process does it
            await anyio.sleep(0.02)

    with anyio.fail_after(60):
        await says("ready")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(process.stop, 300)
            await says("heard")  # so the guard has read the first order
            assert await process.stop(0) == -signal.SIGKILL


@linux_only
@pytest.mark.asyncio
async def test_what_a_command_leaves_behind_is_ended_and_its_exit_code_kept(tmp_path: Path) -> None:
    process = await guarded.start(family(tmp_path / "pids", "leave"), env=environment(), log=tmp_path / "log")
    assert await process.wait() == 3
    left_behind = pids(tmp_path / "pids", expected=2)
    assert [p for p in left_behind if alive(p)] == []


@linux_only
@pytest.mark.parametrize("ways", [(), ("stubborn",)])
def test_sigkill_of_the_parent_ends_everything(tmp_path: Path, ways: tuple[str, ...]) -> None:
    parent, everyone = start_under_another_parent(tmp_path, *ways)
    parent.kill()
    parent.wait()
    wait_gone(everyone)


@linux_only
def test_sigkill_of_the_parent_ends_everything_even_when_a_fork_of_it_lives_on(tmp_path: Path) -> None:
    parent, everyone = start_under_another_parent(tmp_path, fork=True)
    (heir,) = pids(tmp_path / "heir", expected=1)
    parent.kill()
    parent.wait()
    wait_gone(everyone)
    assert alive(heir)
    os.kill(heir, signal.SIGKILL)


@linux_only
def test_term_to_the_guard_ends_everything(tmp_path: Path) -> None:
    parent, everyone = start_under_another_parent(tmp_path)
    os.kill(guard_of(command(parent)), signal.SIGTERM)
    wait_gone(everyone)
    parent.kill()
    parent.wait()


@linux_only
def test_sigkill_of_the_guard_ends_the_command(tmp_path: Path) -> None:
    parent, everyone = start_under_another_parent(tmp_path)
    the_command = command(parent)
    os.kill(guard_of(the_command), signal.SIGKILL)
    wait_gone([the_command])
    parent.kill()
    parent.wait()
    for pid in everyone:
        if alive(pid):
            os.kill(pid, signal.SIGKILL)


@linux_only
def test_a_guard_within_a_guard_ends_with_it(tmp_path: Path) -> None:
    """As an engine under its supervisor under the scheduler: SIGKILL of the middle one leaves nothing."""
    parent, everyone = start_under_another_parent(tmp_path, nested=True)
    os.kill(command(parent), signal.SIGKILL)
    wait_gone(everyone)
    parent.kill()
    parent.wait()


PARENT = """
import os, signal, sys, time
from pathlib import Path
import anyio
from agentflow.processes import guard, guarded
async def main():
    process = await guarded.start(sys.argv[2:], env=dict(os.environ), log=Path(sys.argv[1]))
    print(process.pid, flush=True)
    if os.environ.get("HEIR") and os.fork() == 0:
        Path(os.environ["HEIR"]).write_text(f"{os.getpid()}\\n")
        while True: time.sleep(60)
    await process.wait()
    while True: await anyio.sleep(60)
anyio.run(main)
"""


def start_under_another_parent(
    tmp_path: Path, *ways: str, nested: bool = False, fork: bool = False
) -> tuple[subprocess.Popen[str], list[int]]:
    """A process that starts a guarded family (in another such process, if nested); pids of the family."""
    log = str(tmp_path / "log")
    program = [sys.executable, "-c", textwrap.dedent(PARENT), log]
    family_command = family(tmp_path / "pids", *ways)
    argv = [*program, *program, *family_command] if nested else [*program, *family_command]
    env = environment()
    if fork:
        (tmp_path / "heir").touch()
        env["HEIR"] = str(tmp_path / "heir")
    parent = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=env, start_new_session=True)
    return parent, pids(tmp_path / "pids")


def command(parent: subprocess.Popen[str]) -> int:
    assert parent.stdout is not None
    return int(parent.stdout.readline())
