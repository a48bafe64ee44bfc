"""A whole run on a real Slurm: the math example on llama.cpp workers, a node that dies, a controller that is killed."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from tests.e2e.conftest import AGENTS, ROOT, CommandLine, lines, ours, until
from tests.e2e.conftest import agentflow as agentflow  # fixtures
from tests.e2e.conftest import endpoint as endpoint
from tests.e2e.conftest import rows as rows

pytestmark = [pytest.mark.slurm, pytest.mark.timeout(480)]

AGENT_SIDE = {"exception", "max_turns", "timeout", "context_overflow", "invalid_reward", "call_timeout", "grader"}


def documented() -> list[list[str]]:
    """Arguments of the commands that the page on Slurm shows."""
    page = (ROOT / "docs" / "clusters-slurm.md").read_text()
    commands = re.findall(r"^\$ agentflow (.*)$", page, re.MULTILINE)
    return [command.replace("examples/", f"{ROOT}/examples/").split() for command in commands]


# A node's 8 cores hold two workers, and the runners in their jobs.
MORE = ("rollout.scheduling_spec={cpu: 3}", "gconfig.max_new_tokens=48", "trial_name=t")
RUN = (*documented()[0], *MORE)


def slurm(*argv: str) -> str:
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, f"{' '.join(argv)}: {done.stderr}"
    return done.stdout


def jobs() -> dict[str, str]:
    """Node by job id of all jobs that run."""
    return dict(line.split("|") for line in slurm("squeue", "-h", "-t", "R", "-o", "%i|%N").splitlines())


def steps() -> dict[str, str]:
    """Job id by name of the copies that run."""
    rows = (line.split("|") for line in slurm("squeue", "-h", "-s", "-o", "%j|%i").splitlines())
    return {name: step.split(".")[0] for name, step in rows}


@pytest.fixture(autouse=True)
def _whole_cluster() -> Iterator[None]:
    """Three nodes before and after each test; no job."""
    assert slurm("sinfo", "-h", "-p", "main", "-t", "idle", "-o", "%D").split() == ["3"]
    yield
    alive = {match[1] for p in psutil.process_iter(["cmdline"]) if (match := slurmd_of(p.info["cmdline"]))}
    for node in {"n1", "n2", "n3"} - alive:
        subprocess.run(["slurmd", "-N", node], check=True)
    slurm("scancel", "--user=root")
    until(lambda: slurm("sinfo", "-h", "-p", "main", "-t", "idle", "-o", "%D").split() == ["3"], "three idle nodes")


def slurmd_of(argv: list[str] | None) -> re.Match[str] | None:
    return re.fullmatch(r".*slurmd -N (\w+)", " ".join(argv or ()))


def kill_node(node: str) -> None:
    """SIGKILL to a node's slurmd and to everything that runs there."""
    on_node = [p for p in psutil.process_iter(["cmdline"]) if (m := slurmd_of(p.info["cmdline"])) and m[1] == node]
    job_ids = [job_id for job_id, where in jobs().items() if where == node]
    stepds = [
        p
        for p in psutil.process_iter(["cmdline"])
        if any(f"slurmstepd: [{job_id}." in " ".join(p.info["cmdline"] or ()) for job_id in job_ids)
    ]
    assert on_node
    assert stepds
    for process in [*on_node, *(child for p in stepds for child in p.children(recursive=True)), *stepds]:
        try:
            process.kill()
        except psutil.NoSuchProcess:
            continue


def episodes(agentflow: CommandLine) -> list[dict[str, object]]:
    return lines(agentflow.cwd / "runs" / "agentflow" / "t" / "episodes.jsonl")


def logs(agentflow: CommandLine) -> set[str]:
    return {p.stem for p in (agentflow.cwd / "runs" / "agentflow" / "t" / "logs").glob("*.log")}


def test_a_node_that_dies_with_all_that_ran_there_costs_no_episode_and_all_is_replaced(agentflow: CommandLine) -> None:
    controller = agentflow.background(*RUN, "--max-concurrent", "4")
    until(lambda: len(episodes(agentflow)) >= 2, "two results")
    where, jobs_then = steps(), jobs()
    nodes = {jobs_then[where[name]] for name in ("worker-0", "worker-1", "runner-0", "runner-1")}
    assert len(nodes) == 1, "Slurm used to put both workers' jobs on one node"
    kill_node(nodes.pop())
    out, _ = controller.communicate(timeout=360)
    assert controller.returncode == 0, out
    last = {(e["item_id"], e["sample_index"]): e for e in episodes(agentflow)}
    assert len(last) == 8
    assert all(
        e["outcome"] == "scored" or (e["outcome"], e["kind"] in AGENT_SIDE) == ("failed", True) for e in last.values()
    )
    assert sum(bool(e.get("final", True)) for e in episodes(agentflow)) == 8, "an episode counts twice"
    assert {"worker-0", "worker-1", "worker-2", "worker-3", "worker-2-engine", "runner-2", "runner-3"} <= logs(
        agentflow
    )
    assert "worker-0" in out, "nobody was told what became of it"
    print(out)
    until(lambda: not ours(str(agentflow.cwd)), "the end of every process of the run")
    assert not jobs()


def test_runners_for_an_existing_endpoint_are_jobs_of_their_own_in_their_own_partition(
    agentflow: CommandLine, endpoint: str, rows: Callable[..., Path]
) -> None:
    where = ("scheduler.type=slurm", "scheduler.slurm.runner_partition=short", "rollout.runners=2")
    arguments = ("--data", str(rows(6)), "--base-url", endpoint, "--agent-arg", "pause=5", "trial_name=t")
    controller = agentflow.background("run", f"{AGENTS}:Slow", *arguments, *where)
    until(lambda: {"runner-0", "runner-1"} <= steps().keys(), "both runners")
    assert len({steps()["runner-0"], steps()["runner-1"]}) == 2
    assert set(slurm("squeue", "-h", "-t", "R", "-o", "%P").split()) == {"short"}
    out, _ = controller.communicate(timeout=120)
    assert controller.returncode == 0, out
    assert "6 of 6 episodes" in out
    assert not jobs()


def test_kill_9_of_the_controller_leaves_no_job_and_a_run_that_can_be_resumed(agentflow: CommandLine) -> None:
    controller = agentflow.background(*RUN, "--limit", "3", "--max-concurrent", "1")
    until(lambda: len(episodes(agentflow)) >= 1, "a result")
    os.kill(controller.pid, signal.SIGKILL)
    controller.wait()
    until(lambda: not ours(str(agentflow.cwd)), "the end of every process of the run")
    until(lambda: not slurm("squeue", "-h", "-o", "%i"), "the end of all jobs")
    resumed = agentflow.background("resume", "runs/agentflow/t")
    out, _ = resumed.communicate(timeout=240)
    assert resumed.returncode == 0, out
    ids = [e["item_id"] for e in episodes(agentflow) if e.get("final", True)]
    assert len(ids) == len(set(ids)) == 3


def test_the_dry_run_that_the_docs_show_prints_the_scripts(agentflow: CommandLine) -> None:
    run, dry_run, gpus = documented()
    assert dry_run == [*run, "--dry-run"]
    done = agentflow(*dry_run)
    assert done.code == 0, done.out + done.err
    assert "# the same for worker-1" in done.out
    assert "copy worker-0 0 0 &" in done.out
    assert "# runner-1: a step of a worker's job, when one runs" in done.out
    packed = agentflow(*gpus)
    assert packed.code == 0, packed.out + packed.err
    assert "#SBATCH --gres=gpu:8" in packed.out
    assert "copy worker-1 4 4 &" in packed.out
    assert "# the same for worker-4 worker-5" in packed.out


SCRIPT = """#!/bin/bash
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=8
#SBATCH --time=130
#SBATCH --output=out
export PYTHONPATH={root}
{command} scheduler.slurm.signal_before=$((130 * 60 - 45))  # so after 45 seconds instead of two hours
echo "exit code $?"
"""


def test_a_batch_job_can_hold_a_whole_run_and_ends_it_resumably_before_its_wall_time(agentflow: CommandLine) -> None:
    command = shlex.join(
        [sys.executable, "-m", "agentflow", *RUN, "--n-samples", "500"]
    )  # more than any machine plays until then
    (agentflow.cwd / "job.sh").write_text(SCRIPT.format(root=ROOT, command=command))
    job_id = slurm("sbatch", "--parsable", f"--chdir={agentflow.cwd}", str(agentflow.cwd / "job.sh")).strip()
    copies = {"worker-0", "worker-1", "runner-0", "runner-1"}
    until(lambda: copies <= steps().keys(), "all copies")
    assert {steps()[name] for name in copies} == {job_id}
    out = agentflow.cwd / "out"
    until(lambda: out.exists() and "exit code" in out.read_text(), "the end of the job")
    said = out.read_text()
    assert "exit code 130" in said
    assert f"The time limit of Slurm job {job_id} is near" in said
    assert "agentflow resume" in said
    assert {e["outcome"] for e in episodes(agentflow)} <= {"scored", "failed", "cancelled"}
    until(lambda: not ours(str(agentflow.cwd)), "the end of every process of the run")
