"""One controller a run directory, and a dead one is no obstacle."""

from __future__ import annotations

import errno
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading

import pytest

from agentflow.errors import RunLockedError
from agentflow.store import RunLock

HOLD = """
import sys
from pathlib import Path
from agentflow.store import RunLock
RunLock.acquire(Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


def holder_in_another_process(run_dir):
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(run_dir)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "held\n"
    return process


def test_a_live_holder_is_named_by_host_and_pid(tmp_path):
    process = holder_in_another_process(tmp_path)
    try:
        with pytest.raises(RunLockedError, match=f"pid {process.pid} on host {socket.gethostname()}"):
            RunLock.acquire(tmp_path)
    finally:
        process.kill()
        process.communicate()


def test_a_killed_holder_is_taken_over_also_while_nobody_has_collected_it(tmp_path):
    process = holder_in_another_process(tmp_path)
    process.send_signal(signal.SIGKILL)
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # dead, and still a zombie
    lock = RunLock.acquire(tmp_path)
    assert json.loads((tmp_path / "run.lock").read_text())["pid"] == os.getpid()
    lock.release()
    process.communicate()
    assert list(tmp_path.iterdir()) == []


KILLED_WHILE = """
import os, signal, sys
from pathlib import Path
import agentflow.store.lock as lock
def die(*_): os.kill(os.getpid(), signal.SIGKILL)
setattr(lock.os, sys.argv[2], die)
lock.RunLock.acquire(Path(sys.argv[1]))
"""


@pytest.mark.parametrize("call", ["open", "write", "fsync", "link", "unlink"])
@pytest.mark.parametrize("dead", [False, True], ids=["free", "after a dead holder"])
def test_whoever_is_killed_while_it_takes_the_lock_is_in_nobodys_way(tmp_path, call, dead):
    if dead:
        RunLock.acquire(tmp_path)
        rewrite(tmp_path, process_start="1")
    done = subprocess.run([sys.executable, "-c", KILLED_WHILE, str(tmp_path), call], check=False)
    assert done.returncode == -signal.SIGKILL
    RunLock.acquire(tmp_path).release()


def test_without_hard_links_there_is_a_lock_all_the_same(tmp_path, monkeypatch):
    def no_links(*_):
        raise OSError(errno.EPERM, "no links here")

    monkeypatch.setattr("os.link", no_links)
    lock = RunLock.acquire(tmp_path)
    with pytest.raises(RunLockedError, match=str(os.getpid())):
        RunLock.acquire(tmp_path)
    lock.release()
    assert list(tmp_path.iterdir()) == []


def test_this_process_cannot_take_it_twice(tmp_path):
    lock = RunLock.acquire(tmp_path)
    with pytest.raises(RunLockedError):
        RunLock.acquire(tmp_path)
    lock.release()
    RunLock.acquire(tmp_path).release()


def rewrite(tmp_path, **changes):
    path = tmp_path / "run.lock"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    return path


def test_a_lock_from_before_a_reboot_is_taken_over(tmp_path):
    RunLock.acquire(tmp_path)
    rewrite(tmp_path, boot_id="another boot")
    RunLock.acquire(tmp_path).release()


def test_a_reused_pid_does_not_hold_the_lock(tmp_path):
    RunLock.acquire(tmp_path)
    rewrite(tmp_path, process_start="1")
    RunLock.acquire(tmp_path).release()


def test_a_lock_of_another_host_says_which_file_to_remove(tmp_path):
    RunLock.acquire(tmp_path)
    path = rewrite(tmp_path, host="node7", boot_id="another boot", pid=4)
    with pytest.raises(RunLockedError, match=rf"pid 4 on host node7.*remove {path}"):
        RunLock.acquire(tmp_path)
    path.unlink()
    RunLock.acquire(tmp_path).release()


@pytest.mark.parametrize("content", ["", "garbage"])
def test_an_unreadable_lock_is_refused_with_its_name(tmp_path, content):
    path = tmp_path / "run.lock"
    path.write_text(content)
    with pytest.raises(RunLockedError, match=rf"{path} is not readable"):
        RunLock.acquire(tmp_path)
    assert path.read_text() == content


def test_a_lock_that_somebody_else_has_by_now_is_not_released(tmp_path):
    lock = RunLock.acquire(tmp_path)
    path = rewrite(tmp_path, host="node7")
    lock.release()
    assert path.exists()


def test_of_many_that_find_a_dead_lock_exactly_one_gets_it_and_nothing_is_left_behind(
    tmp_path, tmp_path_factory, monkeypatch
):
    temporary = tmp_path_factory.mktemp("temporary")
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    for _ in range(30):
        lock = RunLock.acquire(tmp_path)
        rewrite(tmp_path, process_start="1")
        barrier, got = threading.Barrier(8), []

        def contend(barrier=barrier, got=got):
            barrier.wait()
            try:
                got.append(RunLock.acquire(tmp_path))
            except RunLockedError:
                got.append(None)

        threads = [threading.Thread(target=contend) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        held = [lock for lock in got if lock is not None]
        assert len(held) == 1
        held[0].release()
        assert [*tmp_path.iterdir(), *temporary.iterdir()] == []
        del lock
