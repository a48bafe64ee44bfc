"""Real runner processes and what becomes of their episodes."""

from __future__ import annotations

import json
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import cloudpickle
import psutil
import pytest
import pytest_asyncio
from player_rig import Controller, controller

from agentflow.channel.messages import (
    MAX_CHUNK_BYTES,
    CancelEpisode,
    DataRows,
    Drain,
    EpisodeEnded,
    LoadData,
    NotPlayed,
    Stalled,
    TraceChunk,
    WorkerInfo,
    Workers,
    WorkerUnreachable,
)
from agentflow.episode import Kind, Outcome
from tests.scripted import error, scripted


def alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest_asyncio.fixture
async def control(tmp_path: Path) -> AsyncIterator[Controller]:
    async with controller(tmp_path) as it:
        yield it


ASKS = """
import openai

class Agent:
    async def run(self, data, **extra_kwargs):
        client = openai.AsyncOpenAI(
            base_url=extra_kwargs["base_url"], api_key=extra_kwargs["api_key"],
            http_client=extra_kwargs["http_client"], max_retries=0,
        )
        reply = await client.chat.completions.create(model="default", messages=data["messages"])
        return float(reply.choices[0].message.content == data["answer"])
"""
HELLO = {"messages": [{"role": "user", "content": "hi"}], "answer": "hello"}


@pytest.mark.asyncio
async def test_an_episode_is_played_scored_and_recorded(control: Controller) -> None:
    async with scripted() as server:
        runner = await control.runner(server.url)
        agent = await runner.load(control.write(ASKS))
        assert agent.info.name == "agent:Agent"
        episode = await runner.play(agent, "item-7", HELLO, sample=3, attempt=2)
        result = await runner.result(episode)
    assert (result.outcome, result.reward, result.error) == (Outcome.SCORED, 1.0, "")
    assert (result.item_id, result.sample_index, result.attempt) == ("item-7", 3, 2)
    assert (result.runner, result.worker, result.warnings) == ("runner-0", "w0", ())
    assert result.usage["default"].calls == 1
    (line,) = runner.trace(episode).splitlines()
    assert json.loads(line)["call"]["id"] == result.calls[0].id
    kinds = [type(m).__name__ for m in runner.messages]
    assert kinds.index("TraceChunk") < kinds.index("EpisodeEnded")


@pytest.mark.asyncio
async def test_a_worker_that_cannot_be_reached_is_named_before_any_call_and_one_that_can_is_not(
    control: Controller,
) -> None:
    async with scripted() as server:
        runner = await control.runner("http://127.0.0.1:9")
        (told,) = await runner.see(WorkerUnreachable)
        assert (told.worker, told.address) == ("w0", "127.0.0.1:9")
        assert told.error == "Connection refused"
        reachable = WorkerInfo("w1", server.url, "scripted", apis=("chat",))
        await runner.say(Workers((reachable,)))
        await runner.say(Workers((reachable, WorkerInfo("w2", "http://127.0.0.1:9", "scripted", apis=("chat",)))))
        told = (await runner.see(WorkerUnreachable, count=2))[-1]
        assert told.worker == "w2"
        assert [m.worker for m in runner.messages if isinstance(m, WorkerUnreachable)] == ["w0", "w2"]


@pytest.mark.asyncio
async def test_every_way_to_end_has_its_outcome(control: Controller) -> None:
    path = control.write(
        """
        import asyncio, sys
        class Agent:
            async def run(self, data):
                match data["how"]:
                    case "raise": raise ValueError("no such tool")
                    case "exit": sys.exit(3)
                    case "interrupt": raise KeyboardInterrupt
                    case "cancel": raise asyncio.CancelledError
                    case "close": raise GeneratorExit
                    case "base": raise type("TimeoutException", (BaseException,), {})("Operation timed out!")
                    case "nan": return float("nan")
                    case "none": return None
                    case "metrics": return {"accuracy": 1, "f1": 1}
                    case "exit in a task":
                        async def leave(): sys.exit(4)
                        task = asyncio.create_task(leave())
                        await asyncio.wait({task})
                        return 0.5
        """
    )
    runner = await control.runner()
    agent = await runner.load(path)

    async def ends(how: str) -> tuple[Outcome, Kind | None, str]:
        result = await runner.played(agent, how, {"how": how})
        return result.outcome, result.kind, result.error

    failed = Outcome.FAILED
    assert await ends("raise") == (failed, Kind.EXCEPTION, "ValueError: no such tool")
    assert await ends("exit") == (failed, Kind.EXCEPTION, "SystemExit: 3")
    assert await ends("interrupt") == (failed, Kind.EXCEPTION, "KeyboardInterrupt")
    assert await ends("cancel") == (failed, Kind.EXCEPTION, "CancelledError")
    assert await ends("close") == (failed, Kind.EXCEPTION, "GeneratorExit")
    assert await ends("base") == (failed, Kind.EXCEPTION, "TimeoutException: Operation timed out!")
    assert (await ends("nan"))[:2] == (failed, Kind.INVALID_REWARD)
    assert (await ends("none"))[0] is Outcome.REJECTED
    assert (await ends("exit in a task"))[0] is Outcome.SCORED
    assert (await ends("metrics"))[1] is Kind.INVALID_REWARD
    (fatal,) = await runner.see(EpisodeEnded, lambda m: m.fatal)
    assert "rollout.reward_key" in fatal.result.error
    traced = await runner.played(agent, "again", {"how": "raise"})
    assert "agent.py:6 in run" in traced.traceback
    assert 'raise ValueError("no such tool")' in traced.traceback


@pytest.mark.asyncio
async def test_a_reward_without_a_single_call_is_warned_about(control: Controller) -> None:
    runner = await control.runner()
    agent = await runner.load(control.write("class A:\n    async def run(self, data): return 1"))
    (warning,) = (await runner.played(agent)).warnings
    assert "without a single call" in warning


@pytest.mark.asyncio
async def test_a_call_for_an_unknown_model_is_a_warning_of_its_episode(control: Controller) -> None:
    async with scripted() as server:
        runner = await control.runner(server.url)
        agent = await runner.load(control.write(ASKS.replace('"default"', '"gpt-4o"')))
        result = await runner.played(agent, data=HELLO)
    assert result.outcome is Outcome.SCORED
    (warning,) = result.warnings
    assert "asked for the model gpt-4o" in warning


@pytest.mark.asyncio
async def test_a_verdict_of_the_doors_wins_over_a_false_zero(control: Controller) -> None:
    runner = await control.runner("http://127.0.0.1:9", request_retries=0, retry_window_s=0.1)
    swallows = ASKS.replace("reply = await", "return 0.0\n        reply = await").replace(
        "return 0.0",
        "try: await client.chat.completions.create(model='default', messages=[])\n        except Exception: return 0.0",
        1,
    )
    agent = await runner.load(control.write(swallows))
    result = await runner.played(agent, data=HELLO)
    assert (result.outcome, result.kind, result.reward) == (Outcome.LOST, Kind.UNREACHABLE, None)


@pytest.mark.asyncio
async def test_a_timeout_cancels_once_and_a_late_reward_does_not_count(control: Controller) -> None:
    path = control.write(
        """
        import asyncio
        cancelled = []
        class Agent:
            async def run(self, data):
                if data.get("report"): return float(len(cancelled))
                try:
                    await asyncio.sleep(1000)
                except asyncio.CancelledError:
                    cancelled.append(1)
                    return 1.0
        """
    )
    runner = await control.runner(episode_timeout_s=1.0)
    agent = await runner.load(path)
    result = await runner.played(agent)
    assert (result.outcome, result.kind, result.reward) == (Outcome.FAILED, Kind.TIMEOUT, None)
    assert result.error == "The episode did not end in 1 s; it was at agent.py:8 in run."
    assert (await runner.played(agent, "report", {"report": True})).reward == 1.0


@pytest.mark.asyncio
async def test_an_agent_that_ignores_its_cancellation_costs_only_its_runner(control: Controller) -> None:
    path = control.write(
        """
        import asyncio
        class Agent:
            async def run(self, data):
                while data.get("stubborn"):
                    try: await asyncio.sleep(0.05)
                    except asyncio.CancelledError: pass
                await asyncio.sleep(data.get("wait", 0))
                return 1.0
        """
    )
    runner = await control.runner(episode_timeout_s=2.0, cancel_grace_s=0.5)
    agent = await runner.load(path)
    stubborn = await runner.play(agent, "stubborn", {"stubborn": True})
    first = await runner.result(stubborn)
    assert (first.outcome, first.kind) == (Outcome.FAILED, Kind.TIMEOUT)
    assert "stubborn/0 ignored its cancellation" in await runner.goodbye()
    assert await runner.exit_code() == 75


@pytest.mark.asyncio
async def test_others_still_end_and_new_episodes_are_handed_back_while_a_runner_leaves(control: Controller) -> None:
    path = control.write(
        """
        import asyncio, os
        class Agent:
            async def run(self, data):
                open("started", "w")
                while data.get("stubborn"):
                    try: await asyncio.sleep(0.05)
                    except asyncio.CancelledError: pass
                while not os.path.exists("go"): await asyncio.sleep(0.05)
                return 1.0
        """
    )
    runner = await control.runner(cancel_grace_s=0.2)
    agent = await runner.load(path)
    stubborn = await runner.play(agent, "stubborn", {"stubborn": True})
    await control.until((control.folder / "started").exists)
    other = await runner.play(agent, "other")
    await runner.say(CancelEpisode(stubborn))
    assert (await runner.result(stubborn)).outcome is Outcome.CANCELLED
    late = await runner.play(agent, "late")
    (handed_back,) = await runner.see(NotPlayed)
    assert handed_back.episode == late
    (control.folder / "go").touch()
    assert (await runner.result(other)).outcome is Outcome.SCORED
    assert "stubborn/0 ignored its cancellation" in await runner.goodbye()
    assert await runner.exit_code() == 75


@pytest.mark.asyncio
async def test_a_cancelled_episode_ends_cancelled(control: Controller) -> None:
    path = control.write("import asyncio\nclass A:\n    async def run(self, data): await asyncio.sleep(1000)")
    runner = await control.runner()
    agent = await runner.load(path)
    episode = await runner.play(agent)
    await runner.say(CancelEpisode(episode))
    assert (await runner.result(episode)).outcome is Outcome.CANCELLED


@pytest.mark.asyncio
@pytest.mark.parametrize(("grace_s", "outcome"), [(60.0, Outcome.SCORED), (0.0, Outcome.CANCELLED)])
async def test_a_drain_waits_its_grace_and_cancels_the_rest(
    control: Controller, grace_s: float, outcome: Outcome
) -> None:
    path = control.write(
        """
        import asyncio, os
        class A:
            async def run(self, data):
                open("started", "w")
                while not os.path.exists("go"): await asyncio.sleep(0.02)
                return 1
        """
    )
    runner = await control.runner()
    agent = await runner.load(path)
    episode = await runner.play(agent)
    await control.until((control.folder / "started").exists)
    await runner.say(Drain(grace_s))
    late = await runner.play(agent, "late")
    if grace_s:
        assert (await runner.see(NotPlayed))[0].episode == late
        (control.folder / "go").touch()
    assert (await runner.result(episode)).outcome is outcome
    assert await runner.goodbye() == "Drained."
    assert await runner.exit_code() == 0


SYNC = """
import asyncio, httpx2, os, threading, time      # httpx2, so that its import takes no time of an episode
class Agent:
    def run(self, data, http_client, base_url, api_key):
        assert threading.current_thread() is threading.main_thread()
        async def a_loop_of_its_own(): return 0.25
        total = asyncio.run(a_loop_of_its_own())
        reply = http_client.post(base_url + "/chat/completions", headers={"authorization": "Bearer " + api_key},
                                 json={"model": "default", "messages": data["messages"]})
        reply.raise_for_status()
        with open("alone", "x"): pass      # fails if another plays at the same time
        time.sleep(0.05)
        os.remove("alone")
        while data.get("hang"): time.sleep(0.05)
        return total + 0.75
"""


@pytest.mark.asyncio
async def test_a_plain_run_plays_alone_on_the_main_thread_and_reaches_the_model(control: Controller) -> None:
    async with scripted() as server:
        runner = await control.runner(server.url)
        agent = await runner.load(control.write(SYNC))
        assert not agent.info.is_async
        episodes = [await runner.play(agent, f"item-{i}", HELLO) for i in range(4)]
        results = [await runner.result(e) for e in episodes]
    assert [(r.reward, len(r.calls), r.error) for r in results] == [(1.0, 1, "")] * 4
    assert not [m for m in runner.messages if isinstance(m, Stalled) and "agent.py" in m.where]


@pytest.mark.asyncio
async def test_a_plain_run_that_hangs_is_reported_in_time_and_its_queue_handed_back(control: Controller) -> None:
    async with scripted() as server:
        runner = await control.runner(server.url, episode_timeout_s=4.0)
        agent = await runner.load(control.write(SYNC))
        hanging = await runner.play(agent, "hanging", HELLO | {"hang": True})
        queued = await runner.play(agent, "queued", HELLO)
        result = await runner.result(hanging)
        (handed_back,) = await runner.see(NotPlayed)
    assert (result.outcome, result.kind, len(result.calls)) == (Outcome.FAILED, Kind.TIMEOUT, 1)
    assert "The episode did not end in 4 s" in result.error
    assert "agent.py:14 in run" in result.error
    assert runner.trace(hanging)
    assert handed_back.episode == queued
    assert "hanging/0" in await runner.goodbye()
    assert await runner.exit_code() == 75


@pytest.mark.asyncio
@pytest.mark.parametrize("code", [ASKS, SYNC], ids=["async", "plain"])
async def test_a_timeout_spent_on_a_worker_that_turns_every_call_away_is_no_failure(
    control: Controller, code: str
) -> None:
    async with scripted(lambda ask: error(429, "no quota left", Retry_After="60")) as server:
        runner = await control.runner(server.url, episode_timeout_s=4.0, cancel_grace_s=0.5)
        agent = await runner.load(control.write(code))
        result = await runner.result(await runner.play(agent, "throttled", HELLO))
    assert (result.outcome, result.kind) == (Outcome.LOST, Kind.UNREACHABLE)
    assert "no quota left" in result.error


@pytest.mark.asyncio
async def test_a_coroutine_that_blocks_the_loop_for_good_is_reported_by_name(control: Controller) -> None:
    path = control.write(
        """
        import asyncio, time
        class Agent:
            async def run(self, data):
                while data.get("block"): time.sleep(0.05)
                await asyncio.sleep(1000)
        """
    )
    runner = await control.runner(episode_timeout_s=2.0, cancel_grace_s=0.5, stall_s=0.2)
    agent = await runner.load(path)
    await runner.play(agent, "victim")
    blocker = await runner.play(agent, "blocker", {"block": True})
    result = await runner.result(blocker)
    assert (result.outcome, result.kind) == (Outcome.FAILED, Kind.TIMEOUT)
    assert "agent.py:5 in run" in result.error
    assert "held by blocker/0 at agent.py:5 in run" in await runner.goodbye()
    assert await runner.exit_code() == 75
    assert not [m for m in runner.messages if isinstance(m, EpisodeEnded) and m.episode.item_id == "victim"]


@pytest.mark.asyncio
async def test_a_stall_is_named_and_not_charged_to_the_timeouts_of_others(control: Controller) -> None:
    path = control.write(
        """
        import asyncio, time
        plays, blocked = asyncio.Event(), asyncio.Event()
        class Agent:
            async def run(self, data):
                if data.get("block"):
                    await plays.wait()
                    time.sleep(data["block"])
                    blocked.set()
                    return 1.0
                plays.set()
                await blocked.wait()
                await asyncio.sleep(0.1)
                return 1.0
        """
    )
    runner = await control.runner(episode_timeout_s=4.0, cancel_grace_s=5.0, stall_s=0.2)
    agent = await runner.load(path)
    other = await runner.play(agent, "other")
    await runner.play(agent, "blocker", {"block": 6.0})
    result = await runner.result(other)
    assert (result.outcome, result.error) == (Outcome.SCORED, "")
    assert result.wall_s > 4.0
    (stall,) = await runner.see(Stalled, lambda m: m.where == "agent.py:8 in run")
    assert stall.seconds > 5.0


@pytest.mark.asyncio
async def test_a_blocked_runner_still_answers_a_drain_in_bounded_time(control: Controller) -> None:
    path = control.write(
        """
        import time
        class A:
            async def run(self, data):
                open("started", "w")
                time.sleep(1000)
        """
    )
    runner = await control.runner(cancel_grace_s=0.5)
    agent = await runner.load(path)
    episode = await runner.play(agent)
    await control.until((control.folder / "started").exists)
    await runner.say(Drain())
    assert (await runner.result(episode)).outcome is Outcome.CANCELLED
    await runner.goodbye()
    assert await runner.exit_code() == 0


@pytest.mark.asyncio
async def test_tasks_that_run_left_behind_are_cancelled_and_named(control: Controller) -> None:
    path = control.write(
        """
        import asyncio
        ended = []
        async def forgotten():
            try: await asyncio.sleep(1000)
            finally: ended.append(1)
        class Agent:
            async def run(self, data):
                if data: return float(len(ended))
                self.task = asyncio.create_task(forgotten())
                await asyncio.sleep(0)
                return 0.0
        """
    )
    runner = await control.runner()
    agent = await runner.load(path)
    result = await runner.played(agent)
    assert any("left 1 task(s) running (forgotten); they were cancelled." in w for w in result.warnings)
    assert (await runner.played(agent, "ended", {"ended": True})).reward == 1.0


@pytest.mark.asyncio
async def test_sigint_is_the_controllers_and_sigterm_loses_what_plays(control: Controller) -> None:
    path = control.write(
        """
        import asyncio
        class A:
            async def run(self, data):
                open("started", "w")
                await asyncio.sleep(1000)
        """
    )
    runner = await control.runner()
    assert runner.process is not None
    agent = await runner.load(path)
    runner.process.send_signal(signal.SIGINT)
    episode = await runner.play(agent)
    await control.until((control.folder / "started").exists)
    runner.process.send_signal(signal.SIGTERM)
    result = await runner.result(episode)
    assert (result.outcome, result.kind) == (Outcome.LOST, Kind.RUNNER_DIED)
    assert "SIGTERM" in await runner.goodbye()
    assert await runner.exit_code() == 0


@pytest.mark.asyncio
@pytest.mark.parametrize("blocked", [False, True])
@pytest.mark.parametrize("killed", [False, True])
async def test_without_its_controller_a_runner_ends_and_leaves_no_process(
    control: Controller, blocked: bool, killed: bool
) -> None:
    path = control.write(
        """
        import asyncio, subprocess, time
        class A:
            async def run(self, data):
                child = subprocess.Popen(["sleep", "1000"])
                with open("child", "w") as f: f.write(str(child.pid))
                import os; os.rename("child", "child.pid")
                if data["blocked"]: time.sleep(1000)
                await asyncio.sleep(1000)
        """
    )
    runner = await control.runner()
    agent = await runner.load(path)
    await runner.play(agent, data={"blocked": blocked})
    file = control.folder / "child.pid"
    await control.until(file.exists)
    if killed:
        runner.drop()
    else:
        await runner.socket.close()
    assert await runner.exit_code() == 74
    pid = int(file.read_text())
    await control.until(lambda: not alive(pid))


@pytest.mark.asyncio
async def test_a_thread_that_never_ends_does_not_keep_the_process(control: Controller) -> None:
    path = control.write(
        """
        import threading, time
        class A:
            async def run(self, data):
                threading.Thread(target=time.sleep, args=(1000,)).start()
                return 1
        """
    )
    runner = await control.runner()
    assert (await runner.played(await runner.load(path))).outcome is Outcome.SCORED
    await runner.say(Drain())
    assert await runner.exit_code() == 0


@pytest.mark.asyncio
async def test_a_controller_that_cannot_be_reached_is_named_with_both_ends(control: Controller) -> None:
    process = await control.start_process({"AGENTFLOW_CONTROL_URL": "http://127.0.0.1:9/control"})
    assert await process.wait() == 74
    text = control.log.read_text()
    assert "runner runner-0 on" in text
    assert "http://127.0.0.1:9/control" in text
    assert "Traceback" not in text


@pytest.mark.asyncio
async def test_the_environment_of_user_code(control: Controller) -> None:
    path = control.write(
        """
        import asyncio, json, os, subprocess, sys
        import agentflow

        CHILD = '''
        import json, os, urllib.request
        body = json.dumps({"model": "default", "messages": [{"role": "user", "content": "hi"}]}).encode()
        request = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + "/chat/completions", body,
            {"content-type": "application/json", "authorization": "Bearer " + os.environ["OPENAI_API_KEY"]})
        urllib.request.urlopen(request).read()
        '''.replace("\\n        ", "\\n")

        class Async:
            async def run(self, data):
                env = agentflow.episode_env()
                child = await asyncio.create_subprocess_exec(sys.executable, "-c", CHILD, env=env)
                assert await child.wait() == 0
                return {"reward": 1, "leaks": sum("real-secret" in v or "run-token" in v for v in os.environ.values())}

        class Plain:
            def run(self, data):
                subprocess.run([sys.executable, "-c", CHILD], env=agentflow.episode_env(), check=True)
                return 1

        class Tripped:
            async def run(self, data):
                import openai
                await openai.AsyncOpenAI(max_retries=0).chat.completions.create(model="default", messages=[])
        """
    )
    async with scripted() as server:
        runner = await control.runner(server.url, {"OPENAI_API_KEY": "real-secret-1", "HF_TOKEN": "real-secret-2"})
        asynchronous = await runner.played(await runner.load(f"{path}:Async"))
        plain = await runner.played(await runner.load(f"{path}:Plain"), "plain")
        tripped = await runner.played(await runner.load(f"{path}:Tripped"), "tripped")
    assert (asynchronous.reward, asynchronous.metrics, len(asynchronous.calls)) == (1.0, {"leaks": 0.0}, 1)
    assert (plain.reward, len(plain.calls), plain.error) == (1.0, 1, "")
    assert "does not say which episode it belongs to" in tripped.error
    assert "HF_TOKEN, OPENAI_API_KEY" in runner.log_text()


@pytest.mark.asyncio
async def test_no_key_gets_into_error_texts(control: Controller) -> None:
    path = control.write(
        """
        class A:
            async def run(self, data, api_key, base_url):
                raise ValueError(f'{api_key} {base_url} real-secret-1')
        """
    )
    runner = await control.runner(environ={"MY_API_KEY": "real-secret-1"}, passed_env=("MY_API_KEY",))
    result = await runner.played(await runner.load(path))
    assert result.error.count("***") == 3
    assert "real-secret" not in result.traceback


@pytest.mark.asyncio
async def test_an_agent_that_cannot_be_loaded_is_refused_and_the_runner_goes_on(control: Controller) -> None:
    control.write("import sys\nsys.exit('bye')", "bad.py")
    runner = await control.runner()
    refused = await runner.refused("bad.py")
    assert refused.error == "bad.py cannot be imported (at bad.py:2): SystemExit: bye."
    assert "sys.exit('bye')" in refused.traceback
    assert (await runner.load(control.write(ASKS))).info.is_async


@pytest.mark.asyncio
async def test_an_instance_given_from_python_is_played(control: Controller) -> None:
    class Agent:
        def __init__(self) -> None:
            self.played = 0

        async def run(self, data: dict[str, int]) -> float:
            self.played += 1
            return self.played

    runner = await control.runner()
    agent = await runner.load(pickled=cloudpickle.dumps(Agent()))
    assert [(await runner.played(agent, f"item-{i}")).reward for i in range(3)] == [1.0, 1.0, 1.0]


@pytest.mark.asyncio
async def test_the_executor_and_the_file_limit_are_sized_from_the_concurrency(control: Controller) -> None:
    path = control.write(
        """
        import asyncio, resource, threading
        barrier = threading.Barrier(100)
        class A:
            async def run(self, data):
                await asyncio.to_thread(barrier.wait, 100)    # needs 100 threads at once
                soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
                return float(soft == hard)
        """
    )
    runner = await control.runner(concurrency=100)
    agent = await runner.load(path)
    episodes = [await runner.play(agent, f"item-{i}") for i in range(100)]
    assert {(await runner.result(e)).reward for e in episodes} == {1.0}


@pytest.mark.asyncio
async def test_rows_of_a_function_are_streamed(control: Controller) -> None:
    control.write(
        """
        import asyncio, datetime
        def listed(n=3): return [{"id": i, "day": datetime.date(2024, 1, 2)} for i in range(n)]
        def generated(): yield from ({"id": i, "text": "x" * 1000} for i in range(3000))
        async def awaited():
            for i in range(2):
                await asyncio.sleep(0)
                yield {"id": i}
        def broken():
            yield {"id": 0}
            raise ValueError("disk gone")
        def no_rows(): return 3
        def strings(): return ["a"]
        def odd(): return [{"id": 0, "thing": object()}]
        """,
        "rows.py",
    )
    runner = await control.runner()

    async def rows(path: str, **kwargs: object) -> tuple[list[dict[str, object]], str]:
        before = len(runner.messages)
        await runner.say(LoadData(path, kwargs))
        await runner.see(DataRows, lambda m: m.last and m in runner.messages[before:])
        said = [m for m in runner.messages[before:] if isinstance(m, DataRows)]
        return [json.loads(line) for m in said for line in m.rows.splitlines()], said[-1].error

    assert await rows("rows.py:listed", n=2) == ([{"id": i, "day": "2024-01-02"} for i in range(2)], "")
    many, error = await rows("rows:generated")
    assert (len(many), error) == (3000, "")
    assert len([m for m in runner.messages if isinstance(m, DataRows) and m.rows]) >= 4
    assert await rows("rows.py:awaited") == ([{"id": 0}, {"id": 1}], "")
    assert (await rows("rows.py:broken"))[1] == "rows.py:broken raised at rows.py:11 in broken: ValueError: disk gone."
    assert "it has to return rows" in (await rows("rows.py:no_rows"))[1]
    assert "Row 0 of rows.py:strings is a str; rows have to be mappings" in (await rows("rows.py:strings"))[1]
    assert "column 'thing' cannot be written as JSON" in (await rows("rows.py:odd"))[1]
    assert "has no function 'lsted' (did you mean 'listed'?)" in (await rows("rows.py:lsted"))[1]
    assert "unexpected keyword argument 'm'" in (await rows("rows.py:listed", m=1))[1]


@pytest.mark.asyncio
async def test_nothing_that_an_agent_does_to_its_process_stops_the_other_episodes(control: Controller) -> None:
    path = control.write(
        """
        import asyncio, os, signal, sys

        class Bad(Exception):
            def __str__(self): raise KeyError("no text")

        class Agent:
            async def run(self, data):
                loop = asyncio.get_running_loop()
                match data["how"]:
                    case "stop the loop": loop.stop()
                    case "exit in a callback": loop.call_soon(sys.exit, 3)
                    case "surrogates": raise ValueError("\\udcff", sys.argv)
                    case "bad text": raise Bad
                    case "many names": return {f"m{i}" * 1000: 1.0 for i in range(100_000)}
                    case "interrupt": signal.raise_signal(signal.SIGINT)
                    case "close the output": os.close(1), os.close(2)
                    case "lose the folder":
                        os.mkdir("gone"); os.chdir("gone"); os.rmdir("../gone")
                        raise ValueError("no folder")
                await asyncio.sleep(0.05)
                return 1
        """
    )
    runner = await control.runner()
    agent = await runner.load(path)
    hows = ["stop the loop", "exit in a callback", "surrogates", "bad text", "many names", "interrupt"]
    failing = {"surrogates", "bad text", "many names", "lose the folder"}
    for how in [*hows, "close the output", "lose the folder", "nothing"]:
        result = await runner.played(agent, how, {"how": how})
        assert result.outcome is (Outcome.FAILED if how in failing else Outcome.SCORED), (how, result)
    await runner.say(Drain())
    assert await runner.exit_code() == 0


@pytest.mark.asyncio
async def test_a_constructor_may_want_the_running_loop(control: Controller) -> None:
    path = control.write(
        """
        import asyncio
        ready = asyncio.run(asyncio.sleep(0, "imported"))    # and an import may run a loop of its own
        class Agent:
            def __init__(self):
                self.loop = asyncio.get_running_loop()
            async def run(self, data):
                return float(self.loop is asyncio.get_running_loop())
        """
    )
    runner = await control.runner()
    assert (await runner.played(await runner.load(path))).reward == 1.0


@pytest.mark.asyncio
async def test_a_cancelled_plain_run_that_waits_for_its_turn_was_never_started(control: Controller) -> None:
    path = control.write(
        """
        import os, time
        class A:
            def run(self, data):
                open(data["item"], "x")
                while not os.path.exists("go"): time.sleep(0.02)
                return 1
        """
    )
    runner = await control.runner()
    agent = await runner.load(path)
    first = await runner.play(agent, "first", {"item": "first"})
    await control.until((control.folder / "first").exists)
    second = await runner.play(agent, "second", {"item": "second"})
    await runner.say(CancelEpisode(second))
    # The thread that reads the channel answers this one itself, so the cancellation before it has been read.
    await runner.say(Workers((WorkerInfo("w9", "http://127.0.0.1:9", "scripted"),)))
    await runner.see(WorkerUnreachable, lambda m: m.worker == "w9")
    (control.folder / "go").touch()
    assert (await runner.result(first)).outcome is Outcome.SCORED
    assert (await runner.result(second)).outcome is Outcome.CANCELLED
    assert not (control.folder / "second").exists()


@pytest.mark.asyncio
async def test_a_result_follows_its_whole_trace_however_large(control: Controller) -> None:
    async with scripted() as server:
        runner = await control.runner(server.url)
        agent = await runner.load(control.write(ASKS))
        long = {"messages": [{"role": "user", "content": "x" * 3_000_000}], "answer": "hello"}
        episode = await runner.play(agent, "long", long)
        assert (await runner.result(episode)).reward == 1.0
    chunks = [m for m in runner.messages if isinstance(m, TraceChunk)]
    assert len(chunks) >= 3
    assert max(len(m.data) for m in chunks) <= MAX_CHUNK_BYTES
    (line,) = runner.trace(episode).splitlines()
    assert len(json.dumps(json.loads(line)["messages"])) > 3_000_000
