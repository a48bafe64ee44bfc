"""The Slurm scheduler on a real Slurm."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest
from processes import alive, family, pids, wait_gone
from slurm_cluster import (
    copies_when,
    dead,
    fail_node,
    files_with,
    folders,
    job_of,
    jobs,
    nodes,
    running,
    slurm,
    wait_until,
)

from agentflow.errors import SchedulerError
from agentflow.schedulers import slurm as slurm_scheduler
from agentflow.schedulers import slurm_batch
from agentflow.schedulers.base import Job, Resources, Scheduler, State
from agentflow.schedulers.slurm import SlurmScheduler
from agentflow.schedulers.slurm_plan import Options, SlurmPlan

pytestmark = pytest.mark.slurm

TRAP = "trap 'echo told to end; exit 0' TERM"
LOOP = "while :; do sleep 0.1; done"
FOREVER = f"{TRAP}; {LOOP}"


@pytest.fixture
def name(tmp_path: Path) -> str:
    """Of this test's jobs."""
    assert len(nodes()) >= 2, "these tests need a Slurm of at least two nodes: see tests/clusters/start_slurm.sh"
    return f"test-{tmp_path.name}-{os.getpid()}"


def scheduler(name: str, **plan: Any) -> SlurmScheduler:
    return SlurmScheduler(SlurmPlan(name, **{"gpus_per_node": 4, **plan}))


def job(tmp_path: Path, *command: str, copies: int = 1, gpus: int = 0, **more: Any) -> Job:
    return Job("job", command, copies, tmp_path, Resources(1, gpus), **more)


@pytest.mark.asyncio
async def test_packed_copies_have_their_own_names_logs_and_gpus(tmp_path: Path, name: str) -> None:
    show = 'echo "$AGENTFLOW_NAME has $CUDA_VISIBLE_DEVICES in $SLURM_JOB_ID and says $X"'
    async with scheduler(name) as ours:
        checked: Scheduler = ours  # it is one
        await checked.start(job(tmp_path, "sh", "-c", show, copies=3, gpus=2, env={"X": "it's $HOME"}))
        copies = await dead(ours, "job-0", "job-1", "job-2")
        assert [(c.state, c.reason) for c in copies] == [(State.EXITED, f"{c.name} exited with code 0") for c in copies]
        assert {c.node for c in copies} <= set(nodes())
        assert all(c.started_at is not None for c in copies)
    words = [(tmp_path / f"job-{i}.log").read_text().split() for i in range(3)]
    assert [w[0] for w in words] == ["job-0", "job-1", "job-2"]
    assert words[0][2] != words[1][2], "two copies of a job have the same GPUs"
    assert all(len(w[2].split(",")) == 2 for w in words)
    assert words[0][4] == words[1][4] != words[2][4]
    assert all(" ".join(w[-2:]) == "it's $HOME" for w in words)


@pytest.mark.asyncio
async def test_odd_characters_in_the_run_directory_are_no_trouble(tmp_path: Path, name: str) -> None:
    folder = tmp_path / 'it\'s 100%j of "these" $HOME'
    async with scheduler(name) as ours:
        await ours.start(job(folder, "echo", "hello", secret_env={"A": "b"}))
        (copy,) = await dead(ours, "job-0")
        assert copy.state is State.EXITED, copy.reason
    assert (folder / "job-0.log").read_text() == "hello\n"


@pytest.mark.asyncio
async def test_a_secret_reaches_the_copy_and_nobody_else(tmp_path: Path, name: str) -> None:
    secret = "s3cr3t-of-" + name
    async with scheduler(name) as ours:
        await ours.start(job(tmp_path, "sh", "-c", f'echo "$TOKEN" | wc -c; {FOREVER}', secret_env={"TOKEN": secret}))
        await running(ours, "job-0")
        log = tmp_path / "job-0.log"
        wait_until(lambda: log.exists() and log.read_text() == f"{len(secret) + 1}\n", "the secret's arrival")
        job_id = job_of("job-0")
        shown = slurm("scontrol", "-dd", "show", "job", job_id) + slurm(
            "squeue", "-h", "-j", job_id, "-O", "comment:500"
        )
        shown += slurm("scontrol", "write", "batch_script", job_id, "-")
        shown += " ".join(a for p in psutil.process_iter(["cmdline"]) for a in p.info["cmdline"] or ())
        assert secret not in shown
        holders = files_with(secret, tmp_path)
        assert [p.name for p in holders] == ["job.env"]
        assert stat.S_IMODE(holders[0].stat().st_mode) == 0o600
        assert stat.S_IMODE(holders[0].parent.stat().st_mode) == 0o700
    assert folders(tmp_path) == []


@pytest.mark.asyncio
@pytest.mark.parametrize(("arguments", "seen"), [((), "mine"), (("--export=NONE",), "nothing")])
async def test_the_shells_environment_goes_along_unless_sbatch_is_told_otherwise(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], seen: str
) -> None:
    monkeypatch.setenv("OF_THE_SHELL", "mine")
    show = 'echo "${OF_THE_SHELL:-nothing} $TOKEN $AGENTFLOW_NAME"'
    async with scheduler(name, workers=Options(sbatch=arguments)) as ours:
        await ours.start(job(tmp_path, "sh", "-c", show, secret_env={"TOKEN": "t"}))
        await dead(ours, "job-0")
    assert (tmp_path / "job-0.log").read_text() == f"{seen} t job-0\n"


@pytest.mark.asyncio
async def test_a_copy_that_fails_is_told_with_code_and_log_while_its_neighbour_runs_on(
    tmp_path: Path, name: str
) -> None:
    command = f"[ $AGENTFLOW_NAME = job-0 ] && echo out of memory && exit 3; {FOREVER}"
    async with scheduler(name) as ours:
        await ours.start(job(tmp_path, "sh", "-c", command, copies=2, gpus=1))
        (copy,) = await dead(ours, "job-0")
        (neighbour,) = await running(ours, "job-1")
    assert copy.state is State.FAILED
    assert "job-0 exited with code 3 in Slurm job " in copy.reason
    assert copy.reason.endswith(f"on {copy.node}; the end of {tmp_path}/job-0.log:\nout of memory")
    assert neighbour.node == copy.node


@pytest.mark.asyncio
async def test_a_command_of_the_configuration_that_fails_ends_the_job_with_its_code_and_words(
    tmp_path: Path, name: str
) -> None:
    options = Options(setup=("echo no such licence; sh -c 'exit 9'",))
    async with scheduler(name, workers=options) as ours:
        await ours.start(job(tmp_path, "true"))
        (copy,) = await dead(ours, "job-0")
    assert copy.state is State.FAILED
    assert "job-0 exited with code 9" in copy.reason
    assert copy.reason.endswith("no such licence")


@pytest.mark.asyncio
async def test_a_command_that_is_not_there_says_so(tmp_path: Path, name: str) -> None:
    async with scheduler(name) as ours:
        await ours.start(job(tmp_path, "/no/such/python"))
        (copy,) = await dead(ours, "job-0")
    assert copy.state is State.FAILED
    assert "/no/such/python cannot be run: No such file or directory." in copy.reason


@pytest.mark.asyncio
async def test_scancel_by_somebody_else_is_told_as_that(tmp_path: Path, name: str) -> None:
    async with scheduler(name) as ours:
        await ours.start(job(tmp_path, "sh", "-c", FOREVER, copies=2, gpus=1))
        await running(ours, "job-0", "job-1")
        job_id = job_of("job-0")
        slurm("scancel", job_id)
        for copy in await dead(ours, "job-0", "job-1"):
            assert copy.state is State.GONE
            assert (
                copy.reason == f"{copy.name} is gone: Slurm job {job_id} on {copy.node} was cancelled, not by this run"
            )


@pytest.mark.asyncio
async def test_a_node_that_fails_takes_its_copies_and_no_others(tmp_path: Path, name: str) -> None:
    async with scheduler(name) as ours:
        await ours.start(job(tmp_path, "sh", "-c", FOREVER, copies=2, gpus=4))
        one, other = await running(ours, "job-0", "job-1")
        assert one.node != other.node
        fail_node(one.node)
        (copy,) = await dead(ours, "job-0")
        assert copy.state is State.GONE
        assert copy.reason.endswith(f"on {one.node} lost its node")
        assert (await ours.copies())["job-1"].state is State.RUNNING
        await ours.start(job(tmp_path, "sh", "-c", FOREVER, gpus=4, first_index=2))
        await running(ours, "job-1", "job-2")


@pytest.mark.asyncio
async def test_a_requeued_jobs_copies_are_gone_and_do_not_come_back(tmp_path: Path, name: str) -> None:
    async with scheduler(name, workers=Options(sbatch=("--requeue",))) as ours:
        await ours.start(job(tmp_path, "sh", "-c", FOREVER))
        await running(ours, "job-0")
        job_id = job_of("job-0")
        slurm("scontrol", "requeue", job_id)
        (copy,) = await dead(ours, "job-0")
        assert (copy.state, copy.reason) == (State.GONE, f"job-0 is gone: Slurm job {job_id} was requeued")
        wait_until(lambda: not jobs(name), "the end of the requeued job")


@pytest.mark.asyncio
async def test_a_time_limit_is_told_as_the_reason(tmp_path: Path, name: str) -> None:
    async with scheduler(name, workers=Options(sbatch=("--time=1",))) as ours:
        await ours.start(job(tmp_path, "sh", "-c", FOREVER))
        (copy,) = await dead(ours, "job-0")
    assert copy.state is State.GONE
    assert "time limit" in copy.reason


@pytest.mark.asyncio
async def test_a_copy_that_waits_says_why_and_can_be_stopped(tmp_path: Path, name: str) -> None:
    async with scheduler(name, workers=Options(sbatch=("--begin=now+1hour",))) as ours:
        await ours.start(job(tmp_path, "true"))
        waits = await copies_when(ours, lambda c: "BeginTime" in c["job-0"].reason, "the reason to wait")
        assert waits["job-0"].state is State.PENDING
        await ours.stop(["job-0", "nobody"])
        (copy,) = await dead(ours, "job-0")
        assert copy.state is State.EXITED
        assert not jobs(name)


@pytest.mark.asyncio
async def test_what_slurm_refuses_is_refused_with_its_words(tmp_path: Path, name: str) -> None:
    async with scheduler(name, gpus_per_node=99) as ours:
        with pytest.raises(SchedulerError, match="Requested node configuration is not available"):
            await ours.start(job(tmp_path, "true", gpus=99))
    async with scheduler(name, workers=Options(sbatch=("--partition=nowhere",))) as ours:
        with pytest.raises(SchedulerError, match="partition"):
            await ours.start(job(tmp_path, "true"))
    assert not jobs(name)


@pytest.mark.asyncio
async def test_what_slurm_takes_but_can_never_start_is_an_error_too(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slurm_batch, "NEVER_S", 1.0)
    async with scheduler(name, workers=Options(sbatch=("--partition=short", "--time=60"))) as ours:
        await ours.start(job(tmp_path, "true"))
        with pytest.raises(SchedulerError, match=r"of job-0 can never start \(Partition\w+\)"):
            await dead(ours, "job-0")
    assert not jobs(name)


@pytest.mark.asyncio
async def test_more_gpus_than_the_nodes_asked_for_have_are_refused_before_anything_starts(
    tmp_path: Path, name: str
) -> None:
    async with scheduler(name, n_nodes=2) as ours:
        with pytest.raises(
            SchedulerError, match=r"needs 12 GPUs \(6 copies of 2\), but cluster.n_nodes = 2 nodes of 4"
        ):
            await ours.start(job(tmp_path, "true", copies=6, gpus=2))
        assert await ours.copies() == {}
    assert not jobs(name)


@pytest.mark.parametrize(("ways", "grace_s"), [((), 30), (("stubborn",), 0.5)])
@pytest.mark.asyncio
async def test_stop_ends_one_copy_of_a_job_with_children_and_daemons(
    tmp_path: Path, name: str, ways: tuple[str, ...], grace_s: float
) -> None:
    first, second = tmp_path / "job-0.pids", tmp_path / "job-1.pids"
    python, _, program, *_ = family(first)
    second.touch()
    line = f'exec {python} -c "$0" {tmp_path}/$AGENTFLOW_NAME.pids {" ".join(ways)}'
    async with scheduler(name) as ours:
        await ours.start(job(tmp_path, "sh", "-c", line, program, copies=2, gpus=1))
        await running(ours, "job-0", "job-1")
        everyone = await anyio.to_thread.run_sync(pids, first)
        neighbours = await anyio.to_thread.run_sync(pids, second)
        await ours.stop(["job-0"], grace_s=grace_s)
        (copy,) = await dead(ours, "job-0")
        assert (copy.state, copy.reason) == (State.EXITED, "job-0 ended after it was told to stop")
        wait_gone(everyone)
        assert all(alive(p) for p in neighbours)
        assert (await ours.copies())["job-1"].state is State.RUNNING
    wait_gone(neighbours)


@pytest.mark.asyncio
async def test_leaving_the_block_ends_jobs_that_run_and_jobs_that_wait(tmp_path: Path, name: str) -> None:
    with anyio.CancelScope() as scope:
        async with scheduler(name) as ours:
            await ours.start(job(tmp_path, *family(tmp_path / "pids")))
            everyone = await anyio.to_thread.run_sync(pids, tmp_path / "pids")
            await ours.start(job(tmp_path, "true", copies=9, gpus=4, first_index=1))
            assert len(jobs(name)) == 10
            scope.cancel()
            await anyio.sleep_forever()
    assert [p for p in everyone if alive(p)] == []
    assert not jobs(name)
    assert folders(tmp_path) == []


CONTROLLER = """
import sys, anyio
from pathlib import Path
from agentflow.schedulers.base import Job, Resources
from agentflow.schedulers.slurm import SlurmScheduler
from agentflow.schedulers.slurm_plan import SlurmPlan
async def main():
    folder, name, *command = sys.argv[1:]
    async with SlurmScheduler(SlurmPlan(name, gpus_per_node=4, ride=True)) as s:
        await s.start(Job("job", command, 1, Path(folder), secret_env={"TOKEN": "s3cr3t"}))
        await s.start(Job("waits", command, 9, Path(folder), Resources(gpus=4)))
        await s.start(Job("rider", ["sleep", "600"], 1, Path(folder), rides_along=True))
        while not (await s.copies())["rider-0"].node: await anyio.sleep(0.1)
        print("started", flush=True)
        await anyio.sleep_forever()
anyio.run(main)
"""


def test_sigkill_of_the_controller_leaves_no_process_no_job_and_no_secret(tmp_path: Path, name: str) -> None:
    argv = [sys.executable, "-c", textwrap.dedent(CONTROLLER), str(tmp_path), name, *family(tmp_path / "pids")]
    controller = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    assert controller.stdout is not None
    assert controller.stdout.readline() == "started\n"
    everyone = pids(tmp_path / "pids")
    controller.send_signal(signal.SIGKILL)
    controller.wait()
    wait_gone(everyone)
    wait_until(lambda: not jobs(name), "the end of all jobs")
    wait_until(lambda: not folders(tmp_path), "the end of the folder with secrets")


@pytest.mark.asyncio
async def test_a_rider_waits_for_a_job_runs_in_it_and_is_stopped_alone(tmp_path: Path, name: str) -> None:
    rider = Job(
        "rider",
        ("sh", "-c", f"{TRAP}; echo in $SLURM_JOB_ID with $X; {LOOP}"),
        2,
        tmp_path,
        env={"X": "y"},
        rides_along=True,
    )
    async with scheduler(name, ride=True) as ours:
        await ours.start(rider)
        copies = await ours.copies()
        assert copies["rider-0"].state is State.PENDING
        assert copies["rider-0"].reason == "rider-0 waits for a worker's job to start"
        await ours.start(job(tmp_path, "sh", "-c", FOREVER, copies=2))
        await running(ours, "job-0", "job-1", "rider-0", "rider-1")
        logs = [tmp_path / f"rider-{i}.log" for i in range(2)]
        wait_until(
            lambda: all(log.exists() and "with y\n" in log.read_text() for log in logs), "the riders' first words"
        )
        hosts = {job_of("job-0"), job_of("job-1")}
        wait_until(lambda: {job_of("rider-0"), job_of("rider-1")} == hosts, "a rider in each job")
        await ours.stop(["rider-0"], grace_s=30)
        (copy,) = await dead(ours, "rider-0")
        assert copy.state is State.EXITED
        assert "told to end" in (tmp_path / "rider-0.log").read_text(), "it was not asked to end, but killed"
        assert f"in {job_of('rider-1')} with y" in (tmp_path / "rider-1.log").read_text()
        assert [c.state for c in await running(ours, "rider-1", "job-0", "job-1")]


@pytest.mark.asyncio
async def test_a_rider_that_fails_is_told_with_its_code_and_one_whose_job_went_is_gone(
    tmp_path: Path, name: str
) -> None:
    async with scheduler(name, ride=True) as ours:
        await ours.start(job(tmp_path, "sh", "-c", FOREVER))
        await ours.start(Job("bad", ("sh", "-c", "echo oh; exit 5"), 1, tmp_path, rides_along=True))
        await ours.start(Job("good", ("sh", "-c", FOREVER), 1, tmp_path, rides_along=True))
        (bad,) = await dead(ours, "bad-0")
        assert bad.state is State.FAILED
        assert "bad-0 exited with code 5" in bad.reason
        assert "oh" in bad.reason
        await running(ours, "good-0")
        slurm("scancel", job_of("good-0"))
        (good,) = await dead(ours, "good-0")
        assert good.state is State.GONE
        assert good.reason.startswith("good-0 is gone: ")


@pytest.mark.asyncio
async def test_a_rider_whose_node_fails_is_gone(tmp_path: Path, name: str) -> None:
    async with scheduler(name, ride=True) as ours:
        await ours.start(job(tmp_path, "sh", "-c", FOREVER))
        await ours.start(Job("rider", ("sh", "-c", FOREVER), 1, tmp_path, rides_along=True))
        (rider,) = await running(ours, "rider-0")
        fail_node(rider.node)
        (copy,) = await dead(ours, "rider-0")
        assert copy.state is State.GONE


def deaf_configuration(tmp_path: Path) -> Path:
    """The cluster's own, but for the port: nobody answers."""
    deaf = tmp_path / "slurm.conf"
    text = Path(os.environ["SLURM_CONF"]).read_text()
    deaf.write_text(text.replace("SlurmctldPort=", "SlurmctldPort=1"))
    return deaf


@pytest.mark.asyncio
async def test_while_slurm_does_not_answer_the_last_known_states_stand_for_a_bounded_time(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, deaf = os.environ["SLURM_CONF"], deaf_configuration(tmp_path)
    async with scheduler(name) as ours:
        await ours.start(job(tmp_path, "sh", "-c", FOREVER))
        await running(ours, "job-0")
        monkeypatch.setenv("SLURM_CONF", str(deaf))
        try:
            with anyio.fail_after(60):
                while ours.trouble is None:  # noqa: ASYNC110 - Slurm sends no events
                    await anyio.sleep(0.1)
            assert (await ours.copies())["job-0"].state is State.RUNNING
            monkeypatch.setattr(slurm_scheduler, "OUTAGE_S", 0.0)
            with pytest.raises(SchedulerError, match=r"Slurm has not answered .*Unable to contact slurm controller"):
                await ours.copies()
        finally:
            monkeypatch.setenv("SLURM_CONF", real)
    assert not jobs(name)


@pytest.mark.asyncio
async def test_without_slurm_entering_says_where_to_run(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(SchedulerError, match=r"squeue is not on this machine: run agentflow where"):
        async with scheduler(name):
            raise AssertionError("entered")


@pytest.mark.asyncio
async def test_a_name_is_used_once(tmp_path: Path, name: str) -> None:
    async with scheduler(name) as ours:
        await ours.start(job(tmp_path, "true"))
        with pytest.raises(SchedulerError, match="job-0 has been started before"):
            await ours.start(job(tmp_path, "true"))
