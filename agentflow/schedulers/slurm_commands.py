"""Slurm's own commands, each with a time limit and off the event loop."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping, Sequence

import anyio

from agentflow.errors import SchedulerError
from agentflow.schedulers import slurm_states as states
from agentflow.schedulers.slurm_states import Row

COMMAND_S = 60.0  # with slurmctld down they give up by themselves after 10 s; a busy one may take longer
SUBMIT_RETRY_S = 5.0
UNREACHABLE = re.compile(
    r"Unable to contact slurm controller|Socket timed out|Connection (?:refused|reset|timed out)|Zero Bytes"
    r"|temporarily|Communication connection failure|Transport endpoint",
    re.IGNORECASE,
)
# Settings of the shell that we are called from would bend what we ask for: SQUEUE_NAMES, SLURM_JOB_ID, SBATCH_SIGNAL.
FOREIGN = re.compile(r"SQUEUE_.*|SACCT_.*|SCANCEL_.*|SLURM_.*")
KEPT = {"SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_CLUSTERS", "SLURM_JWT"}


class SlurmDownError(SchedulerError):
    """Slurm does not answer now; it may later."""


def plain_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment without what Slurm's commands would take for options of theirs."""
    return {k: v for k, v in environ.items() if k in KEPT or not FOREIGN.fullmatch(k)}


def submit_environment(environ: Mapping[str, str], script: str) -> dict[str, str]:
    """The same for sbatch, where a script's own line must win over a ``SBATCH_*`` variable of the same option."""
    said = {name.replace("-", "_").upper() for name in re.findall(r"^#SBATCH --(?:no-)?([\w-]+)", script, re.MULTILINE)}
    said |= {f"NO_{name}" for name in said} | ({"TIMELIMIT"} if "TIME" in said else set())
    kept = plain_environment(environ)
    return {k: v for k, v in kept.items() if k.removeprefix("SBATCH_") not in said or not k.startswith("SBATCH_")}


async def submit(script: str, give_up_after_s: float) -> str:
    """Submit a script; its job id. Tries again for so long while Slurm does not answer.

    Raises:
        SchedulerError: Slurm refuses it.
        SlurmDownError: Slurm does not answer.
    """
    env = submit_environment(os.environ, script)
    end = time.monotonic() + give_up_after_s
    while True:
        try:
            answer = await _run("sbatch", "--parsable", env=env, stdin=script)
            return answer.strip().split("\n")[-1].split(";")[0]
        except SlurmDownError:
            if time.monotonic() > end:
                raise
        await anyio.sleep(SUBMIT_RETRY_S)


async def queue(name: str) -> dict[str, Row]:
    """Every job of this name that Slurm still knows, by id."""
    return await _rows(f"--name={name}")


async def job_row(job_id: str) -> Row | None:
    """One job of anybody's."""
    return (await _rows(f"--jobs={job_id}")).get(job_id)


async def _rows(which: str) -> dict[str, Row]:
    env = {**plain_environment(os.environ), **states.TIME_FORMAT}
    return states.parse_queue(await _run("squeue", "-h", "-t", "all", which, "-o", states.QUEUE_FORMAT, env=env))


async def steps(job_ids: Sequence[str]) -> dict[str, str]:
    """Step ids of these jobs by step name."""
    if not job_ids:
        return {}
    return states.parse_steps(await _run("squeue", "-h", "-s", "-j", ",".join(job_ids), "-o", "%i|%j"))


async def exit_code(job_id: str) -> int | None:
    """Exit code of a job that has ended; None where Slurm does not tell any more."""
    try:
        return states.parse_exit_code(await _run("scontrol", "-o", "show", "job", job_id))
    except SchedulerError:
        return None


async def accounted(job_id: str) -> Row | None:
    """What accounting knows of a job that squeue has forgotten; None where a site keeps no accounts."""
    try:
        return states.parse_account(
            await _run("sacct", "-n", "-P", "-X", "-j", job_id, "-o", "State,ExitCode,NodeList")
        )
    except SchedulerError:
        return None


async def hosts(nodelist: str) -> list[str]:
    """``n[1-3]`` as single names."""
    return (await _run("scontrol", "show", "hostnames", nodelist)).split()


async def node_is_up(node: str) -> bool:
    """Whether Slurm thinks that a node is there."""
    states_of_node = (await _run("sinfo", "-h", "-N", "-n", node, "-o", "%T")).split()
    return not any(re.match("down|fail|not_responding|unknown|power", s) or s.endswith("*") for s in states_of_node)


async def cancel(*arguments: str) -> None:
    """scancel. What has ended already is no error; without arguments nothing is cancelled."""
    if all(a.startswith("--signal") for a in arguments):
        return
    try:
        await _run("scancel", *arguments)
    except SlurmDownError:
        raise
    except SchedulerError:
        return


async def _run(*argv: str, env: Mapping[str, str] | None = None, stdin: str = "") -> str:
    env = plain_environment(os.environ) if env is None else env
    try:
        with anyio.fail_after(COMMAND_S):
            done = await anyio.run_process(argv, input=stdin.encode(), check=False, env=env)
    except FileNotFoundError as e:
        raise SchedulerError(
            f"{argv[0]} is not on this machine: run agentflow where Slurm's commands are, on a login node for instance."
        ) from e
    except TimeoutError as e:
        raise SlurmDownError(f"{argv[0]} did not answer in {COMMAND_S:.0f} s.") from e
    if done.returncode == 0:
        return done.stdout.decode(errors="replace")
    said = " ".join(done.stderr.decode(errors="replace").split()) or f"exit code {done.returncode}"
    error = SlurmDownError if UNREACHABLE.search(said) else SchedulerError
    raise error(f"{' '.join(argv[:2])} failed: {said}")
