"""The Python interface: evaluate, Controller, the blocking facade; from a script, a thread, a running loop."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from agentflow import BlockingController, Config, Controller, evaluate, evaluate_sync, load_config, tabulate_stats
from agentflow.errors import AgentLoadError, UsageError, WaitTimeoutError
from agentflow.store import read_attempts
from tests.e2e.conftest import DEADLINE_S, ROOT
from tests.e2e.played_agents import Quick, Slow

ROWS = [{"id": f"r{i}", "question": f"What is {i}?", "reward": i % 2} for i in range(6)]


@pytest.fixture
def config(tmp_path: Path, endpoint: str) -> Config:
    overrides = [f"base_url={endpoint}", f"cluster.fileroot={tmp_path}", "rollout.runners=1"]
    return load_config(None, overrides)[0]


@pytest.mark.asyncio
async def test_evaluate_takes_a_class_and_rows(config: Config) -> None:
    evaluation = await evaluate(Quick, ROWS, config=config, n_samples=2)
    assert evaluation.complete
    assert len(evaluation.results) == 12
    assert evaluation.stats["reward"] == 0.5
    assert "reward" in tabulate_stats(evaluation.stats)


@pytest.mark.asyncio
async def test_wait_counts_submits_and_gives_them_back_in_submission_order(config: Config) -> None:
    async with Controller(config) as controller:
        ids = [controller.submit(row, workflow=Quick, group_size=3) for row in ROWS]
        first = await controller.wait(2, timeout=DEADLINE_S)
        rest = await controller.wait(timeout=DEADLINE_S)
        assert [s.index for s in first] == sorted(s.index for s in first)
        assert [s.index for s in rest] == sorted(s.index for s in rest)
        assert sorted([*first, *rest], key=lambda s: s.index) == sorted([*first, *rest], key=lambda s: ids.index(s.id))
        assert {s.id for s in [*first, *rest]} == set(ids)
        assert all(len(s.episodes) == 3 and len(set(s.rewards)) == 1 for s in [*first, *rest])
        assert (await controller.export_stats())["episodes/scored"] == 18


@pytest.mark.asyncio
async def test_a_wait_that_times_out_raises_and_loses_nothing(config: Config) -> None:
    async with Controller(config) as controller:
        controller.submit(ROWS[0], workflow=Slow(pause=0.3))
        with pytest.raises(WaitTimeoutError):
            await controller.wait(1, timeout=0.01)
        (result,) = await controller.wait(1, timeout=DEADLINE_S)
        assert result.rewards == [1.0]


@pytest.mark.asyncio
async def test_identical_rows_are_two_submits_with_ids_of_their_own(config: Config) -> None:
    async with Controller(config) as controller:
        row = {"question": "the same"}
        ids = [controller.submit(row, workflow=Quick) for _ in range(2)]
        assert len(set(ids)) == 2
        assert {s.id for s in await controller.wait(timeout=DEADLINE_S)} == set(ids)


@pytest.mark.asyncio
async def test_waiting_for_more_than_was_submitted_is_refused(config: Config) -> None:
    async with Controller(config) as controller:
        controller.submit(ROWS[0], workflow=Quick)
        with pytest.raises(ValueError, match="outstanding"):
            await controller.wait(2)


@pytest.mark.asyncio
async def test_two_waits_for_the_same_submit_do_not_both_wait_for_ever(config: Config) -> None:
    async with Controller(config) as controller:
        controller.submit(ROWS[0], workflow=Quick)
        waits = [controller.wait(1, timeout=DEADLINE_S) for _ in range(2)]
        results = await asyncio.gather(*waits, return_exceptions=True)
        assert {type(r) for r in results} == {list, ValueError}


@pytest.mark.asyncio
async def test_numbers_that_make_no_sense_are_refused(config: Config) -> None:
    async with Controller(config) as controller:
        assert await controller.wait(0) == []
        with pytest.raises(ValueError, match="-1"):
            await controller.wait(-1)
        with pytest.raises(ValueError, match="group_size=0"):
            controller.submit(ROWS[0], workflow=Quick, group_size=0)


@pytest.mark.asyncio
async def test_outside_of_its_block_a_controller_says_so(config: Config) -> None:
    controller = Controller(config)
    with pytest.raises(RuntimeError, match="not begun"):
        controller.submit(ROWS[0], workflow=Quick)
    async with controller:
        controller.submit(ROWS[0], workflow=Slow(pause=60))
        waiting = asyncio.create_task(controller.wait(1))
        await asyncio.sleep(0)
    with pytest.raises(RuntimeError, match="is over"):
        await waiting
    with pytest.raises(RuntimeError, match="is over"):
        controller.submit(ROWS[0], workflow=Quick)


@pytest.mark.asyncio
async def test_submits_to_a_run_that_goes_on_play_only_what_is_owed(config: Config, tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    async with Controller(config, run_dir=run_dir) as controller:
        controller.submit(ROWS[0], workflow=Quick, group_size=2)
        await controller.wait(timeout=DEADLINE_S)
    async with Controller(config, run_dir=run_dir, resume=True) as controller:
        for row in ROWS[:2]:
            controller.submit(row, workflow=Quick, group_size=2)
        results = await controller.wait(timeout=DEADLINE_S)
    assert [len(r.episodes) for r in results] == [2, 2]
    played = [(r.item_id, r.sample_index, r.attempt) for r in read_attempts(run_dir)]
    assert sorted(played) == [("r0", 0, 0), ("r0", 1, 0), ("r1", 0, 0), ("r1", 1, 0)]


@pytest.mark.asyncio
async def test_an_agent_that_cannot_be_loaded_is_told_by_wait(config: Config) -> None:
    async with Controller(config) as controller:
        controller.submit(ROWS[0], workflow="tests.e2e.played_agents.Nobody")
        with pytest.raises(AgentLoadError, match="Nobody"):
            await controller.wait(1, timeout=DEADLINE_S)


@pytest.mark.asyncio
async def test_a_dotted_path_and_constructor_arguments(config: Config) -> None:
    async with Controller(config) as controller:
        controller.submit(ROWS[0], workflow="tests.e2e.played_agents.Slow", workflow_kwargs={"pause": 0})
        (result,) = await controller.wait(1, timeout=DEADLINE_S)
        assert result.rewards == [1.0]


@pytest.mark.asyncio
async def test_an_exception_in_the_block_comes_out_as_it_is(config: Config) -> None:
    with pytest.raises(KeyError):
        async with Controller(config):
            raise KeyError("mine")


def test_the_blocking_facade_has_the_same_verbs(config: Config) -> None:
    controller = BlockingController(config).initialize()
    try:
        for row in ROWS:
            controller.submit(row, workflow=Quick)
        results = controller.wait(len(ROWS), timeout=DEADLINE_S)
        assert [r.id for r in results] == [row["id"] for row in ROWS]
        assert controller.export_stats()["reward"] == 0.5
    finally:
        controller.destroy()


@pytest.mark.asyncio
async def test_evaluate_sync_works_while_a_loop_is_running_and_off_the_main_thread(config: Config) -> None:
    def play() -> Any:
        return evaluate_sync(Quick, ROWS, config=config)

    beside = await asyncio.to_thread(play)
    assert beside.complete
    inside = play()  # blocks this loop, as a notebook's cell does
    assert inside.complete


def test_evaluate_sync_off_the_main_thread_without_any_loop(config: Config) -> None:
    out: list[Any] = []
    thread = threading.Thread(target=lambda: out.append(evaluate_sync(Quick, ROWS[:2], config=config)))
    thread.start()
    thread.join(DEADLINE_S)
    assert out
    assert out[0].complete


def test_a_script_without_a_main_guard_that_defines_its_own_class(tmp_path: Path, endpoint: str) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import agentflow\n"
        "LEVEL = 0.25\n"
        "class Mine:\n"
        "    async def run(self, data, **kw):\n"
        "        r = await kw['http_client'].post(kw['base_url'] + '/chat/completions', json={'messages': []})\n"
        "        r.raise_for_status()\n"
        "        return LEVEL\n"
        f"e = agentflow.evaluate_sync(Mine, [{{'q': 1}}, {{'q': 2}}], base_url=[{endpoint!r}])\n"
        "print('reward', e.stats['reward'], e.complete)\n"
    )
    done = subprocess.run(
        [sys.executable, str(script)],
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )
    assert "reward 0.25 True" in done.stdout, done.stderr


@pytest.mark.asyncio
async def test_a_function_in_place_of_a_path_is_one_sentence_and_nothing_is_played(config: Config) -> None:
    with pytest.raises(UsageError, match=r"^run_metric=.* cannot be kept with the run: give a function by its path"):
        await evaluate(Quick, ROWS, config=config, run_metric=[len])
