"""``agentflow status`` of a run that is over, and of one whose controller was killed."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from agentflow import Config, Controller, load_config
from agentflow.cli.status import STALE_S
from agentflow.store.files import LOCK
from agentflow.store.lock import Holder
from agentflow.store.status import read_status, write_status
from tests.e2e.conftest import AGENTS, DEADLINE_S, CommandLine, lines, ours, until
from tests.e2e.played_agents import Quick

RowsFile = Callable[..., Path]
WHEN = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"
RUN = "runs/agentflow/t"


def arguments(agent: str, data: Path, url: str) -> list[str]:
    here = ["run", f"{AGENTS}:{agent}", "--data", str(data), "--base-url", url, "--max-concurrent", "4"]
    return [*here, "trial_name=t", "rollout.runners=1"]


def some_results(agentflow: CommandLine, data: Path, url: str) -> subprocess.Popen[str]:
    """A run in the background that has written a result."""
    process = agentflow.background(*arguments("Slow", data, url))
    until(lambda: bool(lines(agentflow.cwd / RUN / "episodes.jsonl")), "the first result")
    return process


def test_a_run_that_was_played_has_ended_and_a_resume_ends_again(
    agentflow: CommandLine, endpoint: str, rows: RowsFile
) -> None:
    assert agentflow(*arguments("Quick", rows(1), endpoint)).code == 0
    said = agentflow("status", RUN)
    assert said.code == 0, said.err
    assert re.fullmatch(rf"Ended at {WHEN}; 1 of 1 episode\.\n", said.out)
    assert agentflow("resume", RUN, "--n-samples", "3").code == 0
    assert "; 3 of 3 episodes." in agentflow("status", RUN).out


@pytest.mark.parametrize(
    "change",
    [["gconfig.temperature=0.2"], ["--n-samples", "2", "base_url=http://127.0.0.1:9"]],
    ids=["other sampling", "no endpoint"],
)
def test_a_resume_that_is_refused_leaves_the_record_of_its_run_as_it_was(
    agentflow: CommandLine, endpoint: str, rows: RowsFile, change: list[str]
) -> None:
    assert agentflow(*arguments("Quick", rows(1), endpoint)).code == 0
    run = agentflow.cwd / RUN
    before = {file.name: file.read_bytes() for file in run.iterdir() if file.is_file()}
    assert agentflow("resume", RUN, *change).code == 2
    assert {file.name: file.read_bytes() for file in run.iterdir() if file.is_file()} == before
    assert re.fullmatch(rf"Ended at {WHEN}; 1 of 1 episode\.\n", agentflow("status", RUN).out)


def test_a_run_that_was_interrupted_says_by_whom(agentflow: CommandLine, endpoint: str, rows: RowsFile) -> None:
    process = some_results(agentflow, rows(60), endpoint)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=DEADLINE_S)
    ended = len(lines(agentflow.cwd / RUN / "episodes.jsonl"))
    said = agentflow("status", RUN).out
    assert re.fullmatch(rf"Ended at {WHEN}, stopped by the user; {ended} of 60 episodes\.\n", said)


def test_a_run_that_an_error_stopped_says_which(agentflow: CommandLine, endpoint: str, rows: RowsFile) -> None:
    data = rows(60)
    process = some_results(agentflow, data, endpoint)
    data.write_text('{"id": "row-0"}\n')
    process.communicate(timeout=DEADLINE_S)
    said = agentflow("status", RUN).out
    assert re.match(rf"Ended at {WHEN}, stopped by an error; \d+ of 60 episodes(, \d+ cancelled)?\.\n", said)
    assert f"{data} was changed while it was in use" in said


def killed(agentflow: CommandLine, data: Path, endpoint: str) -> int:
    """A run that was killed after some results, with all of its processes gone: the controller's pid."""
    process = some_results(agentflow, data, endpoint)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    until(lambda: not ours(str(agentflow.cwd)), "the end of every process of the run")
    return process.pid


def test_a_killed_controller_is_said_to_be_dead_at_once_and_nothing_of_it_to_be_up(
    agentflow: CommandLine, endpoint: str, rows: RowsFile
) -> None:
    pid = killed(agentflow, rows(60), endpoint)
    assert read_status(agentflow.cwd / RUN).processes
    said = agentflow("status", RUN).out
    resume = f"agentflow resume {RUN} plays the rest"
    assert re.fullmatch(rf"The controller {pid} is dead, with \d+ of 60 episodes: {resume}\.\n", said)


def test_of_a_controller_on_another_host_only_its_silence_is_known(
    agentflow: CommandLine, endpoint: str, rows: RowsFile
) -> None:
    killed(agentflow, rows(60), endpoint)
    run_dir = agentflow.cwd / RUN
    holder = msgspec.json.decode((run_dir / LOCK).read_bytes(), type=Holder)
    (run_dir / LOCK).write_bytes(msgspec.json.encode(msgspec.structs.replace(holder, host="another")))
    status = read_status(run_dir)
    write_status(run_dir, msgspec.structs.replace(status, at=status.at - 2 * STALE_S, in_flight=1))
    said = agentflow("status", RUN).out
    assert "Ended" not in said
    assert "1 episode playing" in said
    assert "The controller has not written for 1:" in said
    assert "the run is over, or its controller is dead" in said.replace("\n", " ")


def test_what_was_lost_is_told_beside_what_was_played(agentflow: CommandLine, endpoint: str, rows: RowsFile) -> None:
    assert agentflow(*arguments("Quick", rows(3), endpoint)).code == 0
    path = agentflow.cwd / RUN / "episodes.jsonl"
    path.write_text(path.read_text().replace('"scored"', '"lost"', 2))
    assert "; 1 of 3 episodes, 2 lost." in agentflow("status", RUN).out


@pytest.fixture
def config(tmp_path: Path, endpoint: str) -> Config:
    return load_config(None, [f"base_url={endpoint}", f"cluster.fileroot={tmp_path}", "rollout.runners=1"])[0]


@pytest.mark.asyncio
async def test_a_block_of_submits_has_no_number_of_episodes_to_come_to(config: Config, agentflow: CommandLine) -> None:
    async with Controller(config) as controller:
        controller.submit({"question": "one?"}, workflow=Quick)
        await controller.wait(timeout=DEADLINE_S)
        assert read_status(controller.run_dir).ended is None
    assert "; 1 episode." in agentflow("status", str(controller.run_dir)).out


@pytest.mark.asyncio
async def test_an_exception_in_the_block_is_what_stopped_it(config: Config) -> None:
    controller = Controller(config)
    with pytest.raises(ZeroDivisionError):
        async with controller:
            raise ZeroDivisionError("mine")
    ended = read_status(controller.run_dir).ended
    assert ended is not None
    assert (ended.stopped_by, ended.error) == ("error", "ZeroDivisionError: mine")
