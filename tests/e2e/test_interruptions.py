"""Ctrl-C, kill -9, a dying runner: nothing written is lost, nothing is counted twice, no process is left."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from agentflow.cli.signals import UNHEARD_S
from tests.e2e.conftest import AGENTS, DEADLINE_S, CommandLine, lines, ours, until

RowsFile = Callable[..., Path]
HANGS = """
import time

def hangs(results, run_dir):
    (run_dir / "hanging").touch()
    time.sleep(3600)
"""


def arguments(data: Path, url: str, *more: str, agent: str = "Slow") -> list[str]:
    here = ["run", f"{AGENTS}:{agent}", "--data", str(data), "--base-url", url, "--max-concurrent", "8"]
    return [*here, "trial_name=t", "rollout.runners=2", *more]


def episodes(agentflow: CommandLine) -> list[dict[str, object]]:
    return lines(agentflow.cwd / "runs" / "agentflow" / "t" / "episodes.jsonl")


def some_wait(rows: RowsFile, n: int, after: int) -> Path:
    """Rows of which all but the first ``after`` are played by ``Waits`` only until they are told to go on."""
    return rows(n, lambda i, row: row.update(waits=i >= after))


def playing(agentflow: CommandLine) -> Counter[int]:
    """How many have come to where they wait, by the pids of their runners."""
    return Counter(int(file.name.rpartition("-")[2]) for file in agentflow.cwd.glob("*.played-by-*"))


def test_kill_9_and_resume_give_every_episode_once_and_play_none_again(
    agentflow: CommandLine, endpoint: str, rows: RowsFile
) -> None:
    controller = agentflow.background(*arguments(rows(40), endpoint))
    until(lambda: len(episodes(agentflow)) >= 10, "ten results")
    os.kill(controller.pid, signal.SIGKILL)
    controller.wait()
    until(lambda: not ours(str(agentflow.cwd)), "the end of every process of the run")
    before = (agentflow.cwd / "runs/agentflow/t/episodes.jsonl").read_text()
    done = agentflow("resume", "runs/agentflow/t")
    assert done.code == 0, done.err
    after = (agentflow.cwd / "runs/agentflow/t/episodes.jsonl").read_text()
    assert after.startswith(before[: before.rfind("\n") + 1]), "written lines were changed"
    counts = Counter(e["item_id"] for e in episodes(agentflow))
    assert len(counts) == 40
    assert set(counts.values()) == {1}


def test_one_ctrl_c_saves_what_plays_prints_a_partial_table_and_exits_130(
    agentflow: CommandLine, endpoint: str, rows: RowsFile
) -> None:
    controller = agentflow.background(*arguments(some_wait(rows, 60, after=10), endpoint, agent="Waits"))
    until(lambda: (len(episodes(agentflow)), playing(agentflow).total()) == (10, 8), "ten results, and eight that play")
    controller.send_signal(signal.SIGINT)
    said(controller, "Stopping")
    (agentflow.cwd / "go").touch()
    out, _ = controller.communicate(timeout=DEADLINE_S)
    assert controller.returncode == 130
    assert "PARTIAL" in out
    assert "agentflow resume" in out
    ended = Counter(e["outcome"] for e in episodes(agentflow))
    assert ended == {"scored": 18}, "what was playing had the time to end, and nothing new was started"
    assert not ours(str(agentflow.cwd))
    done = agentflow("resume", "runs/agentflow/t")
    assert done.code == 0, done.err
    assert len({e["item_id"] for e in episodes(agentflow)}) == 60
    assert len(episodes(agentflow)) == 60


def test_a_second_ctrl_c_stops_now_and_leaves_nothing_behind(
    agentflow: CommandLine, endpoint: str, rows: RowsFile
) -> None:
    controller = agentflow.background(*arguments(rows(60), endpoint, "--agent-arg", "pause=30"))
    until(lambda: "60 episodes" in (controller.stdout.readline() if controller.stdout else ""), "the plan")
    controller.send_signal(signal.SIGINT)
    until(lambda: "Stopping" in (controller.stdout.readline() if controller.stdout else ""), "the first stop")
    controller.send_signal(signal.SIGINT)
    out, _ = controller.communicate(timeout=DEADLINE_S)
    assert controller.returncode == 130
    assert "Traceback" not in out
    assert not ours(str(agentflow.cwd))


def test_ctrl_c_marks_what_did_not_end_in_its_grace_as_cancelled_and_a_resume_owes_it(
    agentflow: CommandLine, endpoint: str, rows: RowsFile
) -> None:
    controller = agentflow.background(*arguments(rows(4), endpoint, "--agent-arg", "pause=60"))
    until(lambda: "4 episodes" in (controller.stdout.readline() if controller.stdout else ""), "the plan")
    controller.send_signal(signal.SIGTERM)
    out, _ = controller.communicate(timeout=DEADLINE_S)
    assert controller.returncode == 130
    assert Counter(e["outcome"] for e in episodes(agentflow)) == {"cancelled": 4}
    assert "4 episodes" in out


def test_a_killed_runner_loses_no_episode(agentflow: CommandLine, endpoint: str, rows: RowsFile) -> None:
    controller = agentflow.background(*arguments(some_wait(rows, 40, after=8), endpoint, agent="Waits"))
    until(lambda: playing(agentflow).total() == 8, "eight that play")
    runner, its_own = playing(agentflow).most_common()[0]
    os.kill(runner, signal.SIGKILL)
    until(lambda: any(not e.get("final", True) for e in episodes(agentflow)), "the end of what it played")
    (agentflow.cwd / "go").touch()
    out, _ = controller.communicate(timeout=DEADLINE_S)
    assert controller.returncode == 0, out
    final = [e for e in episodes(agentflow) if e.get("final", True)]
    again = [e for e in episodes(agentflow) if not e.get("final", True)]
    assert Counter(e["outcome"] for e in final) == {"scored": 40}
    assert Counter(e["kind"] for e in again) == {"runner_died": its_own}


def test_the_episode_that_kills_its_runner_fails_by_itself_and_takes_no_other_with_it(
    agentflow: CommandLine, endpoint: str, rows: RowsFile
) -> None:
    data = rows(12, lambda i, row: row.update(poison=i == 5))
    done = agentflow(*arguments(data, endpoint, agent="Poison"))
    assert done.code == 0, done.err
    final = {str(e["item_id"]): e for e in episodes(agentflow) if e.get("final", True)}
    assert len(final) == 12
    assert (final["row-5"]["outcome"], final["row-5"]["kind"]) == ("failed", "runner_crash")
    assert {e["outcome"] for i, e in final.items() if i != "row-5"} == {"scored"}


def test_an_agent_that_kills_every_runner_fails_every_episode_and_the_run_is_complete(
    agentflow: CommandLine, endpoint: str, rows: RowsFile
) -> None:
    done = agentflow(*arguments(rows(3), endpoint, "rollout.runners=1", agent="Exit"))
    assert done.code == 0, done.err
    final = [e for e in episodes(agentflow) if e.get("final", True)]
    assert [(e["outcome"], e["kind"]) for e in final] == [("failed", "runner_crash")] * 3


def test_a_run_that_was_killed_before_its_first_episode_can_be_resumed(
    agentflow: CommandLine, endpoint: str, rows: RowsFile
) -> None:
    (agentflow.cwd / "agent.py").write_text(
        "import pathlib, time\n"
        "time.sleep(0 if pathlib.Path('go').exists() else 600)\n"
        "class Slow:\n"
        "    async def run(self, data): return 1.0\n"
    )
    controller = agentflow.background("run", "agent.py", "--data", str(rows(2)), "--base-url", endpoint, "trial_name=t")
    until(lambda: (agentflow.cwd / "runs/agentflow/t/run.json").exists(), "the manifest")
    os.kill(controller.pid, signal.SIGKILL)
    controller.wait()
    (agentflow.cwd / "go").touch()
    done = agentflow("resume", "runs/agentflow/t")
    assert done.code == 0, done.err
    assert [e["outcome"] for e in episodes(agentflow)] == ["scored", "scored"]


def said(process: subprocess.Popen[str], word: str) -> None:
    """Wait until a line of its output has this word."""
    assert process.stdout is not None
    for line in process.stdout:
        if word in line:
            return
    raise AssertionError(f"it ended without saying {word!r}")


def test_a_third_ctrl_c_is_the_end_whatever_is_still_being_closed(
    agentflow: CommandLine, endpoint: str, rows: RowsFile
) -> None:
    controller = agentflow.background(*arguments(rows(8), endpoint, agent="Deaf"))
    said(controller, "8 episodes")
    controller.send_signal(signal.SIGINT)
    said(controller, "Stopping")
    controller.send_signal(signal.SIGINT)
    controller.send_signal(signal.SIGTERM)  # two of a kind may arrive as one
    out, _ = controller.communicate(timeout=DEADLINE_S)
    assert controller.returncode == 130
    assert "Stopped at once" in out
    until(lambda: not ours(str(agentflow.cwd)), "the end of every process of the run")


def test_an_inline_agent_that_holds_the_loop_cannot_hold_up_ctrl_c(
    agentflow: CommandLine, endpoint: str, rows: RowsFile
) -> None:
    here = ["run", f"{AGENTS}:Holds", "--data", str(rows(2)), "--base-url", endpoint, "--inline", "trial_name=t"]
    controller = agentflow.background(*here)
    said(controller, "holding")
    controller.send_signal(signal.SIGINT)
    time.sleep(2 * UNHEARD_S)  # as long as a user waits before the second
    controller.send_signal(signal.SIGINT)
    out, _ = controller.communicate(timeout=DEADLINE_S)
    assert controller.returncode == 130
    assert "Stopped at once" in out


def test_a_resume_from_another_directory_plays_where_the_run_was_begun(
    agentflow: CommandLine, endpoint: str, rows: RowsFile
) -> None:
    here = agentflow.cwd / "begun=here"  # not KEY=VALUE: there is a file
    here.mkdir()
    (here / "agent.py").write_text(
        "class Reader:\n    async def run(self, data): return float(open('beside.txt').read())\n"
    )
    (here / "beside.txt").write_text("0.5")
    data = rows(2)
    agentflow.cwd = here
    done = agentflow("run", str(here / "agent.py"), "--data", str(data), "--base-url", endpoint, "trial_name=t")
    assert done.code == 0, done.err
    agentflow.cwd = here.parent
    done = agentflow("resume", str(here / "runs/agentflow/t"), "--n-samples", "2")
    assert done.code == 0, done.err
    assert f"In {here}" in done.out
    written = lines(here / "runs/agentflow/t/episodes.jsonl")
    assert [(e["outcome"], e["reward"]) for e in written] == [("scored", 0.5)] * 4


def test_ctrl_c_while_a_metric_function_hangs_ends_it_and_saves_the_summary_without_it(
    agentflow: CommandLine, endpoint: str, rows: RowsFile
) -> None:
    (agentflow.cwd / "own.py").write_text(HANGS)
    controller = agentflow.background(*arguments(rows(2), endpoint, agent="Plain"), "--run-metric", "own.py:hangs")
    until((agentflow.cwd / "runs/agentflow/t/hanging").exists, "the call of the function")
    controller.send_signal(signal.SIGINT)
    out, _ = controller.communicate(timeout=DEADLINE_S)
    assert controller.returncode == 130, out
    assert "hangs         – it was stopped before it was done; agentflow show computes it." in out
    assert "2 scored" in out
    assert (agentflow.cwd / "runs/agentflow/t/summary.json").exists()
    until(lambda: not ours(str(agentflow.cwd)), "the end of every process of the run")


def test_a_second_ctrl_c_while_a_metric_function_hangs_ends_the_command_without_a_traceback(
    agentflow: CommandLine, endpoint: str, rows: RowsFile
) -> None:
    (agentflow.cwd / "own.py").write_text(HANGS)
    controller = agentflow.background(*arguments(rows(2), endpoint, agent="Plain"), "--run-metric", "own.py:hangs")
    until((agentflow.cwd / "runs/agentflow/t/hanging").exists, "the call of the function")
    controller.send_signal(signal.SIGINT)
    said(controller, "Stopping")
    controller.send_signal(signal.SIGINT)
    out, _ = controller.communicate(timeout=DEADLINE_S)
    assert controller.returncode == 130
    assert "Traceback" not in out
    until(lambda: not ours(str(agentflow.cwd)), "the end of every process of the run")
