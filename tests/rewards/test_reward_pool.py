"""Reward processes: ended when they overstep, replaced, and gone when their parent is."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from agentflow.rewards import AsyncRewardWrapper, GraderError
from agentflow.rewards.pool import RewardPool


@pytest.fixture
def pool() -> Iterator[RewardPool]:
    pool = RewardPool(processes=1)
    yield pool
    pool.close()


def process_id() -> int:
    return os.getpid()


def for_ever() -> None:
    while True:
        pass


def giant_power() -> int:
    return 9**9**9  # in C, holding the interpreter: no signal handler of Python's would run


def swallow_memory() -> None:
    held = []
    while True:
        held.append(bytearray(32 * 1024 * 1024))


def die() -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def fork_and_both_return() -> int:
    return os.fork()


class GivenUp(BaseException):
    pass


def give_up() -> None:
    raise GivenUp("too hard")


def leave() -> None:
    sys.exit(7)


def raises(text: str) -> None:
    raise KeyError(text)


def unpicklable() -> object:
    return threading.Lock()


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("fn", "said"),
    [
        (for_ever, "did not finish within 0.5 s"),
        (giant_power, "did not finish within 0.5 s"),
        (swallow_memory, "took more than 300 MiB of memory"),
        (die, "its process was ended by SIGSEGV"),
    ],
)
async def test_what_oversteps_is_ended_and_the_next_call_gets_a_fresh_process(
    pool: RewardPool, fn: object, said: str
) -> None:
    limit = 60.0 if fn is swallow_memory else 0.5
    before = await AsyncRewardWrapper(process_id, pool=pool)()
    with pytest.raises(GraderError, match=said):
        await AsyncRewardWrapper(fn, timeout=limit, memory_bytes=300 * 1024**2, pool=pool)()  # type: ignore[arg-type]
    after = await AsyncRewardWrapper(process_id, pool=pool)()
    assert after != before
    assert not psutil.pid_exists(before)


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("fn", "args", "said"),
    [
        (raises, ("x" * 5000,), "it raised KeyError"),
        (leave, (), "it raised SystemExit: 7"),
        (unpicklable, (), "it raised TypeError: cannot pickle"),
    ],
)
async def test_what_raises_is_an_error_with_its_input_and_the_process_lives_on(
    pool: RewardPool, fn: object, args: tuple[object, ...], said: str
) -> None:
    before = await AsyncRewardWrapper(process_id, pool=pool)()
    with pytest.raises(GraderError, match=said) as caught:
        await AsyncRewardWrapper(fn, pool=pool)(*args)  # type: ignore[arg-type]
    assert len(str(caught.value)) < 2000
    if fn is not unpicklable:
        assert f"in {fn.__name__}" in caught.value.__notes__[0]  # type: ignore[attr-defined]
    assert await AsyncRewardWrapper(process_id, pool=pool)() == before


@pytest.mark.asyncio
async def test_arguments_that_cannot_be_sent_fail_their_own_call_only(pool: RewardPool) -> None:
    with pytest.raises(GraderError, match="cannot be sent to another process"):
        await AsyncRewardWrapper(len, pool=pool)(threading.Lock())
    assert await AsyncRewardWrapper(len, pool=pool)("abc") == 3


@pytest.mark.asyncio
async def test_a_process_that_one_call_filled_is_not_used_for_the_next(pool: RewardPool) -> None:
    held = "held by the module"

    def keep(size: int) -> int:
        import builtins

        builtins.__dict__[held] = bytearray(b"x") * size
        return os.getpid()

    limits = {"memory_bytes": 400 * 1024**2, "pool": pool}
    small = await AsyncRewardWrapper(keep, **limits)(1)  # type: ignore[arg-type]
    large = await AsyncRewardWrapper(keep, **limits)(330 * 1024**2)  # type: ignore[arg-type]
    after = await AsyncRewardWrapper(keep, **limits)(1)  # type: ignore[arg-type]
    assert small == large != after


@pytest.mark.asyncio
async def test_a_large_parent_does_not_make_its_reward_processes_look_worn(pool: RewardPool) -> None:
    ballast = bytearray(b"x") * (500 * 1024**2)
    limits = {"memory_bytes": 300 * 1024**2, "pool": pool}
    first = await AsyncRewardWrapper(process_id, **limits)()  # type: ignore[arg-type]
    assert await AsyncRewardWrapper(process_id, **limits)() == first  # type: ignore[arg-type]
    del ballast


class Unreadable:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return int, ("not a number",)


@pytest.mark.asyncio
async def test_a_value_that_cannot_be_read_here_fails_its_own_call_only(pool: RewardPool) -> None:
    with pytest.raises(GraderError, match="what it returned cannot be read here"):
        await AsyncRewardWrapper(Unreadable, pool=pool)()
    assert await AsyncRewardWrapper(len, pool=pool)("abc") == 3


@pytest.mark.asyncio
async def test_children_of_a_reward_function_end_with_it(pool: RewardPool, tmp_path: Path) -> None:
    def start_child(note: str) -> None:
        child = subprocess.Popen(["sleep", "600"])
        Path(note).write_text(str(child.pid))
        swallow_memory()

    note = tmp_path / "pid"
    with pytest.raises(GraderError, match="took more than 300 MiB of memory"):
        await AsyncRewardWrapper(start_child, timeout=60.0, memory_bytes=300 * 1024**2, pool=pool)(str(note))
    await gone(int(note.read_text()))


@pytest.mark.asyncio
async def test_closures_and_lambdas_can_be_sent(pool: RewardPool) -> None:
    factor = 3

    def triple(x: int) -> int:
        return x * factor

    assert await AsyncRewardWrapper(triple, pool=pool)(2) == 6
    assert await AsyncRewardWrapper(lambda x: x + factor, pool=pool)(2) == 5


@pytest.mark.asyncio
async def test_calls_from_many_threads_and_a_loop_all_get_their_own_answer(pool: RewardPool) -> None:
    def square(x: int) -> int:
        return x * x

    wrapper = AsyncRewardWrapper(square, pool=pool)
    answers: dict[int, int] = {}
    threads = [threading.Thread(target=lambda i=i: answers.__setitem__(i, wrapper.call_sync(i))) for i in range(20)]
    for thread in threads:
        thread.start()
    awaited = await asyncio.gather(*(wrapper(i) for i in range(20, 40)))
    for thread in threads:
        await asyncio.to_thread(thread.join)
    assert answers == {i: i * i for i in range(20)}
    assert awaited == [i * i for i in range(20, 40)]


@pytest.mark.asyncio
async def test_a_call_given_up_while_it_waits_is_not_made(pool: RewardPool, tmp_path: Path) -> None:
    def touch(path: str) -> None:
        Path(path).touch()

    first = asyncio.create_task(AsyncRewardWrapper(for_ever, timeout=1.0, pool=pool)())
    waiting = asyncio.create_task(AsyncRewardWrapper(touch, pool=pool)(str(tmp_path / "made")))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(GraderError):
        await first
    await AsyncRewardWrapper(touch, pool=pool)(str(tmp_path / "after"))
    assert os.listdir(tmp_path) == ["after"]


@pytest.mark.parametrize(
    ("executable", "said"),
    [
        ("/bin/false", r"no reward process could be started \(its process exited \(1\)\)"),
        ("/nowhere/python", r"no reward process could be started \(.*No such file"),
    ],
)
def test_a_process_that_cannot_start_fails_the_call_and_is_not_tried_for_ever(
    pool: RewardPool, monkeypatch: pytest.MonkeyPatch, executable: str, said: str
) -> None:
    monkeypatch.setattr(sys, "executable", executable)
    with pytest.raises(GraderError, match=said):
        AsyncRewardWrapper(process_id, pool=pool).call_sync()
    monkeypatch.undo()
    assert AsyncRewardWrapper(process_id, pool=pool).call_sync() in pool.pids()


def test_an_asynchronous_function_is_refused() -> None:
    async def reward() -> float:
        return 1.0

    with pytest.raises(TypeError, match="await it as it is"):
        AsyncRewardWrapper(reward)


def test_a_closed_pool_leaves_no_process_and_fails_what_waits(tmp_path: Path) -> None:
    pool = RewardPool(processes=1)
    first = AsyncRewardWrapper(for_ever, timeout=60.0, pool=pool)._submit((), {})
    second = AsyncRewardWrapper(process_id, pool=pool)._submit((), {})
    while not pool.pids():
        time.sleep(0.01)
    pids = pool.pids()
    pool.close()
    for future in (first, second):
        with pytest.raises(GraderError, match="the pool was closed"):
            future.result(timeout=10)
    assert not any(psutil.pid_exists(pid) for pid in pids)


PARENT = """
    import sys
    from agentflow.rewards import AsyncRewardWrapper
    from agentflow.rewards.pool import shared_pool

    def busy(path):
        open(path, "w").close()
        {body}

    future = AsyncRewardWrapper(busy, timeout=600)._submit((sys.argv[1],), {{}})
    import os, time
    while not os.path.exists(sys.argv[1]):
        time.sleep(0.01)
    print(*shared_pool().pids(), flush=True)
    future.result()
"""


@pytest.mark.asyncio
@pytest.mark.parametrize("body", ["9**9**9", "import time; time.sleep(600)"])
async def test_busy_reward_processes_end_when_their_parent_is_killed(tmp_path: Path, body: str) -> None:
    parent = script(tmp_path, PARENT.format(body=body), str(tmp_path / "started"))
    assert parent.stdout is not None
    pids = [int(pid) for pid in (await asyncio.to_thread(parent.stdout.readline)).split()]
    assert pids
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    for pid in pids:
        await gone(pid)


def test_a_script_without_a_main_guard_grades_and_ends(tmp_path: Path) -> None:
    pytest.importorskip("math_verify")
    parent = script(
        tmp_path,
        """
        from agentflow.rewards import math_reward_sync
        print(math_reward_sync("so \\\\boxed{\\\\frac12}", "0.5"))
        """,
    )
    out, _ = parent.communicate(timeout=200)
    assert (out, parent.returncode) == ("1.0\n", 0)


def script(folder: Path, text: str, *arguments: str) -> subprocess.Popen[str]:
    file = folder / "script.py"
    file.write_text(textwrap.dedent(text))
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    return subprocess.Popen([sys.executable, str(file), *arguments], stdout=subprocess.PIPE, text=True, env=env)


async def gone(pid: int) -> None:
    """Wait until a process has ended (a zombie has); fails after a minute."""
    for _ in range(6000):
        try:
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                return
        except psutil.NoSuchProcess:
            return
        await asyncio.sleep(0.01)
    pytest.fail(f"process {pid} is still there")


@pytest.mark.asyncio
async def test_a_function_that_forks_and_returns_twice_answers_once(pool: RewardPool) -> None:
    forks = AsyncRewardWrapper(fork_and_both_return, pool=pool)
    for _ in range(20):
        assert await forks() > 0  # a copy's answer, 0, would be taken for the reward of the next call
        assert await AsyncRewardWrapper(process_id, pool=pool)() in pool.pids()


@pytest.mark.asyncio
async def test_an_exception_that_is_none_of_the_usual_is_reported_and_the_process_lives(pool: RewardPool) -> None:
    before = await AsyncRewardWrapper(process_id, pool=pool)()
    with pytest.raises(GraderError, match="it raised GivenUp: too hard"):
        await AsyncRewardWrapper(give_up, pool=pool)()
    assert await AsyncRewardWrapper(process_id, pool=pool)() == before
