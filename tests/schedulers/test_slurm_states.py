"""What Slurm's words mean for a copy."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pytest

from agentflow.schedulers.base import Copy, State
from agentflow.schedulers.slurm_states import (
    Row,
    impossible,
    judge,
    parse_account,
    parse_exit_code,
    parse_queue,
    parse_steps,
    taken_away,
)

NOW = 1_000_000.0


def look(before: State, row: Row | None, age_s: float = 10.0, told_to_end_at: float = math.inf) -> Copy:
    known = {"worker-0": Copy("worker-0", before, node="n1" if before is State.RUNNING else "")}
    after = judge("7", known, row, now=NOW, submitted_at=NOW - age_s, told_to_end_at=told_to_end_at)
    return after["worker-0"]


def test_the_queue_is_read_with_times_reasons_and_the_exit_codes_in_the_comment() -> None:
    text = (
        "7|RUNNING|None|n1|1000|5000|worker-0=3 worker-10=143\n"
        "8|PENDING|ReqNodeNotAvail, UnavailableNodes:n2|(null)|N/A|N/A|(null)\n"
        "9|COMPLETED|None|n2|1000|2000|a | b\n"
        "slurm_load_jobs error: Unable to contact slurm controller\n"
    )
    assert parse_queue(text) == {
        "7": Row("RUNNING", "", "n1", 1000, 5000, {"worker-0": 3, "worker-10": 143}),
        "8": Row("PENDING", "ReqNodeNotAvail, UnavailableNodes:n2"),
        "9": Row("COMPLETED", "", "n2", 1000, 2000),
    }


def test_a_job_that_squeue_does_not_show_yet_is_pending_and_later_it_has_vanished() -> None:
    fresh = look(State.PENDING, None, age_s=59)
    assert (fresh.state, fresh.reason) == (State.PENDING, "Slurm job 7 was submitted, and squeue does not show it yet")
    assert look(State.PENDING, None, age_s=61).state is State.GONE
    vanished = look(State.RUNNING, None)
    assert (vanished.state, vanished.reason) == (State.GONE, "worker-0 is gone: Slurm does not know job 7 any more")


@pytest.mark.parametrize(
    ("reason", "said"), [("Resources", "waits for Resources"), ("", "waits for its turn"), ("Priority", "Priority")]
)
def test_a_pending_copy_says_what_it_waits_for(reason: str, said: str) -> None:
    copy = look(State.PENDING, Row("PENDING", reason))
    assert copy.state is State.PENDING
    assert said in copy.reason


@pytest.mark.parametrize(
    ("reason", "never"),
    [
        ("Resources", False),
        ("Priority", False),
        ("QOSMaxJobsPerUserLimit", False),
        ("ReqNodeNotAvail, UnavailableNodes:n2", False),
        ("JobHeldUser", False),
        ("PartitionTimeLimit", True),
        ("PartitionConfig", True),
        ("BadConstraints", True),
        ("QOSMaxGRESPerJob", True),
        ("AssocMaxWallDurationPerJobLimit", True),
        ("InvalidQOS", True),
    ],
)
def test_some_reasons_to_wait_never_pass(reason: str, never: bool) -> None:
    assert impossible(Row("PENDING", reason)) is never
    assert not impossible(Row("RUNNING", reason))


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("CANCELLED", "was cancelled, not by this run"),
        ("TIMEOUT", "reached its time limit"),
        ("PREEMPTED", "was preempted"),
        ("NODE_FAIL", "lost its node"),
        ("BOOT_FAIL", "got a node that did not boot"),
        ("DEADLINE", "reached its deadline"),
    ],
)
def test_a_job_that_was_taken_away_is_gone_whatever_its_copies_exit_codes(word: str, said: str) -> None:
    copy = look(State.RUNNING, Row(word, node="n1", exits={"worker-0": 143}))
    assert copy.state is State.GONE
    assert copy.reason == f"worker-0 is gone: Slurm job 7 on n1 {said}"


@pytest.mark.parametrize("word", ["PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT"])
def test_a_job_that_ran_and_waits_again_was_requeued(word: str) -> None:
    copy = look(State.RUNNING, Row(word, "BeginTime"))
    assert (copy.state, copy.reason) == (State.GONE, "worker-0 is gone: Slurm job 7 was requeued")


@pytest.mark.parametrize(
    ("row", "state", "said"),
    [
        (Row("RUNNING", node="n1"), State.RUNNING, ""),
        (Row("SUSPENDED", node="n1"), State.RUNNING, "Slurm job 7 is suspended"),
        (Row("RUNNING", node="n1", exits={"worker-1": 3}), State.RUNNING, ""),
        (Row("RUNNING", node="n1", exits={"worker-0": 3}), State.FAILED, "exited with code 3 in Slurm job 7 on n1"),
        (
            Row("RUNNING", node="n1", exits={"worker-0": 137}),
            State.FAILED,
            "was killed by SIGKILL in Slurm job 7 on n1",
        ),
        (Row("RUNNING", node="n1", exits={"worker-0": 0}), State.EXITED, "exited with code 0"),
        (Row("COMPLETED", node="n1", exits={"worker-0": 0}), State.EXITED, "exited with code 0"),
        (Row("FAILED", node="n1", exits={"worker-0": 0, "worker-1": 1}), State.EXITED, "exited with code 0"),
        (Row("FAILED", node="n1", exit_code=9), State.FAILED, "exited with code 9 in Slurm job 7 on n1"),
        (Row("FAILED", node="n1"), State.FAILED, "failed in Slurm job 7 on n1"),
        (Row("OUT_OF_MEMORY", node="n1"), State.FAILED, "used more memory than it has"),
    ],
)
def test_an_end_of_its_own_is_told_with_its_code(row: Row, state: State, said: str) -> None:
    copy = look(State.RUNNING, row)
    assert copy.state is state
    assert said in copy.reason


def test_why_a_job_completes_is_known_only_when_it_is_through() -> None:
    """scancel shows as COMPLETING first, while the copies' exit codes arrive."""
    copy = look(State.RUNNING, Row("COMPLETING", node="n1", exits={"worker-0": 143}))
    assert (copy.state, copy.reason) == (State.RUNNING, "Slurm job 7 is completing")


@pytest.mark.parametrize("word", ["RUNNING", "COMPLETED"])
def test_an_end_when_the_time_limit_was_near_is_the_time_limits(word: str) -> None:
    row = Row(word, node="n1", exits={"worker-0": 0})
    copy = look(State.RUNNING, row, told_to_end_at=NOW + 50)
    assert (copy.state, copy.reason) == (State.GONE, "worker-0 ended because the time limit of Slurm job 7 is near")
    assert look(State.RUNNING, row, told_to_end_at=NOW + 70).state is State.EXITED


def test_the_dead_stay_dead() -> None:
    known: Mapping[str, Copy] = {
        "a": Copy("a", State.FAILED, "a exited with code 3"),
        "b": Copy("b", State.RUNNING, node="n1"),
    }
    after = judge("7", known, Row("CANCELLED", node="n1"), now=NOW, submitted_at=NOW, told_to_end_at=math.inf)
    assert after["a"] == known["a"]
    assert after["b"].state is State.GONE


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("JobId=7 ExitCode=3:0 RunTime=1", 3),
        ("ExitCode=0:9 x", 137),
        ("1:0", 1),
        ("DerivedExitCode=4:0", None),
        ("", None),
    ],
)
def test_exit_codes_are_read_as_a_shell_has_them(text: str, code: int | None) -> None:
    assert parse_exit_code(text) == code


def test_accounting_is_read_where_there_is_any() -> None:
    assert parse_account("CANCELLED by 1000|0:15|n2\n") == Row("CANCELLED", node="n2", exit_code=143)
    assert parse_account("") is None
    assert parse_account("sacct: error: no accounting\n") is None


def test_steps_are_found_by_name() -> None:
    assert parse_steps("7.0|worker-0\n7.1|runner-3\n7.batch|batch\n") == {
        "worker-0": "7.0",
        "runner-3": "7.1",
        "batch": "7.batch",
    }


@pytest.mark.parametrize(
    ("tail", "said"),
    [
        (
            "working\nslurmstepd-n1: error: *** STEP 2.0 ON n1 CANCELLED AT 2026-01-01T00:00:00 ***\n",
            "STEP 2.0 ON n1 CAN",
        ),
        ("srun: error: Node failure on n2\nsrun: error: n2: task 0: Killed", "Node failure on n2"),
        ("an agent says: CANCELLED AT noon\nsrun: error: n1: task 0: Exited with exit code 3", ""),
        ("", ""),
    ],
)
def test_an_srun_says_who_ended_its_step(tail: str, said: str) -> None:
    assert taken_away(tail).startswith(said)
    assert bool(taken_away(tail)) is bool(said)
