"""What Slurm is asked for: sbatch scripts and srun commands, rendered. Pure.

A job packs as many copies as fit on one node. Each copy is a step of its own (``srun --overlap``), so that Slurm shows
it by name, signals it alone and has its exit code; it takes its share of the job's GPUs by position. All steps share
the job's cores and memory: an engine next to its runner must not be nailed to one core.

No secret is in a script, an argument or Slurm's own memory of a job: the script reads them from a 0600 file.
"""

from __future__ import annotations

import math
import re
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from agentflow.errors import ConfigError
from agentflow.processes import guard
from agentflow.processes.guarded import GRACE_S
from agentflow.schedulers.base import Job
from agentflow.schedulers.local import PACKAGE_ROOT
from agentflow.schedulers.slurm_plan import Options

# --whole: every step sees all cores of the job. --cpu-bind=none: or each would be bound to the same first core.
STEP = ("srun", "--overlap", "--whole", "--cpu-bind=none", "--nodes=1", "--ntasks=1", "--export=ALL", "--input=none")
# In a step, because srun sets CUDA_VISIBLE_DEVICES anew. $1 is the position of its first GPU, $2 their number.
TAKE_GPUS = (
    'IFS=,; all=($CUDA_VISIBLE_DEVICES); own=("${all[@]:$1:$2}"); '
    '[ ${#own[@]} -eq $2 ] || { echo "Slurm gave this job the GPUs ${all[*]:-(none)}, too few for $AGENTFLOW_NAME."; '
    'exit 1; }; export CUDA_VISIBLE_DEVICES="${own[*]}"; unset IFS; shift 2; exec "$@"'
)
COPY = """
ended=$(mktemp)
trap 'rm -f "$ended"' EXIT
trap : TERM  # the steps get it as well; wait for what they do then
copy() {  # NAME FIRST_GPU GPUS
  trap : TERM
  AGENTFLOW_NAME=$1 "${step[@]}" --job-name="$1" --output="$logs/$1.log" \\
    bash -c "$take_gpus" copy "$2" "$3" "${command[@]}"
  local code=$?
  {  # the controller reads the exit codes so far in the job's comment
    flock 9
    echo "$1=$code" >&9
    scontrol update jobid="$SLURM_JOB_ID" comment="$(paste -sd" " "$ended")"
  } 9>>"$ended"
}
"""
END = """\
until wait; [ -z "$(jobs -pr)" ]; do :; done  # a signal interrupts wait
exit "$(sed 's/.*=//' "$ended" | sort -n | tail -n 1)"
"""
EARLIEST_SIGNAL = 0.5  # of a short wall time: a job must not be told to drain as it starts

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TIME = re.compile(r"(?:(?P<days>\d+)-)?(?P<parts>\d+(?::\d+){0,2})")


def packs(job: Job, gpus_per_node: int | None, n_nodes: int, exclusive: bool) -> list[tuple[str, ...]]:
    """Names of the copies that share a job, each job on one node.

    Copies with GPUs fill a node. Copies without have a job each, which Slurm puts where there is room, unless nodes
    are exclusive: then they share ``n_nodes``.

    Raises:
        ConfigError: one copy does not fit on a node.
    """
    gpus, names = job.resources.gpus, job.copy_names
    if gpus and gpus_per_node is not None and gpus > gpus_per_node:
        raise ConfigError(
            f"A {job.name} needs {gpus} GPUs on one node, but cluster.n_gpus_per_node is {gpus_per_node}: ask for "
            "smaller replicas in rollout.backend."
        )
    size = 1
    if gpus:
        size = (gpus_per_node or gpus) // gpus
    elif exclusive:
        size = math.ceil(len(names) / n_nodes)
    return [names[i : i + size] for i in range(0, len(names), size)]


def batch_script(
    name: str,
    job: Job,
    pack: Sequence[str],
    options: Options,
    *,
    secrets: Path | None,
    spare_cpus: int = 0,
    signal_before_s: float,
) -> str:
    """The sbatch script of one job.

    Args:
        name: of the job in Slurm.
        pack: names of its copies.
        secrets: file that sets ``job.secret_env``, see :func:`secrets_file`.
        spare_cpus: cores beyond the copies' own.
        signal_before_s: how long before the wall time its copies get SIGTERM.

    Raises:
        ConfigError: something cannot be written into a script.
    """
    logs = job.log_dir.absolute()
    directives = [
        f"--job-name={name}",
        "--nodes=1",
        "--ntasks=1",
        *_resources(job, len(pack), options, spare_cpus),
        f"--output={_log_pattern(logs / 'slurm-')}%j.log",
        "--open-mode=append",
        "--no-requeue",
        f"--signal=TERM@{signal_seconds(options.sbatch, signal_before_s)}",
        *options.sbatch,
    ]
    login = any(line.startswith("module ") for line in options.setup)  # `module` is a function of login shells
    return "\n".join(
        [
            f"#!/bin/bash{' -l' * login}",
            *(f"#SBATCH {_directive(d)}" for d in directives),
            "",
            "# Requeued: its copies have been given up and replaced.",
            '[ "${SLURM_RESTART_COUNT:-0}" = 0 ] || exit 0',
            "set -e",
            *options.setup,
            *(f"export {assignment(k, v)}" for k, v in job.env.items()),
            *_own_package(job),
            *([f". {shlex.quote(str(secrets))}  # sets {', '.join(sorted(job.secret_env))}"] if secrets else []),
            "set +e",
            "",
            f"step=({shlex.join([*STEP, '--open-mode=append', *options.srun])})",
            f"command=({shlex.join(guarded_command(job.command))})",
            f"logs={shlex.quote(_log_pattern(logs))}",
            f"take_gpus={shlex.quote(TAKE_GPUS)}",
            COPY,
            *(f"copy {n} {i * job.resources.gpus} {job.resources.gpus} &" for i, n in enumerate(pack)),
            END,
        ]
    )


def step_command(job: Job, name: str, options: Options, *, job_id: str, node: str, first_gpu: int = 0) -> list[str]:
    """An srun that runs one copy as a step of a job that runs already; its output is the srun's own."""
    take = "\n".join(["set -e", *options.setup, "set +e", TAKE_GPUS]) if options.setup else TAKE_GPUS
    return [
        *STEP,
        f"--jobid={job_id}",
        f"--nodelist={node}",
        f"--job-name={name}",
        *options.srun,
        *("bash", "-c", take, "copy", str(first_gpu), str(job.resources.gpus)),
        *guarded_command(job.command),
    ]


def rendered_step(job: Job, name: str, options: Options, where: str) -> str:
    """The same for ``--dry-run``; ``where`` says of which job. Secrets by name only."""
    shown = [f"{k}={v}" for k, v in sorted({**job.env, "AGENTFLOW_NAME": name}.items())]
    notes = [f"# {name}: a step {where}; output in {job.log_dir / name}.log"]
    if job.secret_env:
        notes.append(f"# {name}: secrets in its environment: {', '.join(sorted(job.secret_env))}")
    command = step_command(job, name, options, job_id="JOB", node="NODE")
    return "\n".join([*notes, shlex.join(["env", *shown, *command])])


def guarded_command(command: Sequence[str]) -> list[str]:
    """The command under a guard: what leaves its process group would outlive scancel where Slurm has no cgroups."""
    return [sys.executable, "-I", "-S", guard.__file__, "--parent", "0", "--grace", str(GRACE_S), "--", *command]


def secrets_file(secret_env: Mapping[str, str]) -> str:
    """Text of the file that a script reads its secrets from."""
    return "".join(f"export {assignment(k, v)}\n" for k, v in secret_env.items())


def assignment(name: str, value: str) -> str:
    """``NAME='value'`` for a shell; raises ConfigError where that is impossible."""
    if not _VARIABLE.fullmatch(name):
        raise ConfigError(f"{name!r} cannot be the name of an environment variable of a Slurm job: rename it.")
    if "\0" in value:
        raise ConfigError(f"The value of the environment variable {name} holds a NUL byte: a shell cannot set it.")
    return f"{name}={shlex.quote(value)}"


def signal_seconds(sbatch: Sequence[str], before_s: float) -> int:
    """Seconds before the wall time at which the job is told, not in the first half of a short one."""
    limits = [seconds(a.partition("=")[2]) for a in sbatch if a.startswith("--time=")]
    limit = limits[-1] if limits else None
    return int(before_s if limit is None else min(before_s, limit * EARLIEST_SIGNAL))


def seconds(time: str) -> int | None:
    """A time limit as Slurm writes it (``90``, ``1:30:00``, ``2-12``), in seconds; None where it says no number."""
    match = _TIME.fullmatch(time.strip())
    if match is None:
        return None
    parts = [int(p) for p in match["parts"].split(":")]
    if match["days"] is not None:  # days-hours[:minutes[:seconds]]
        hours, minutes, rest = (*parts, 0, 0)[:3]
        return ((int(match["days"]) * 24 + hours) * 60 + minutes) * 60 + rest
    if len(parts) == 3:
        return (parts[0] * 60 + parts[1]) * 60 + parts[2]
    return parts[0] * 60 + (parts[1] if len(parts) == 2 else 0)  # minutes[:seconds]


def _own_package(job: Job) -> Iterator[str]:
    if PACKAGE_ROOT not in job.env.get("PYTHONPATH", "").split(":"):
        yield f"export PYTHONPATH={shlex.quote(PACKAGE_ROOT)}${{PYTHONPATH:+:$PYTHONPATH}}"


def _resources(job: Job, copies: int, options: Options, spare_cpus: int) -> Iterator[str]:
    each = job.resources
    if options.exclusive:
        yield "--exclusive"
    else:
        yield f"--cpus-per-task={math.ceil(each.cpus * copies) + spare_cpus}"
    if each.memory_gb is not None:
        yield f"--mem={math.ceil(each.memory_gb * copies * 1024)}M"
    elif options.exclusive:
        yield "--mem=0"  # all of the node's
    if each.gpus:
        yield f"--gres=gpu:{each.gpus * copies}"


def _directive(argument: str) -> str:
    if "\n" in argument:
        raise ConfigError(f"A line break cannot be in an argument of sbatch: {argument!r}.")
    name, equals, value = argument.partition("=")
    return f"{name}={shlex.quote(value)}" if equals else argument


def _log_pattern(path: Path) -> str:
    return str(path).replace("%", "%%")  # Slurm replaces %j and the like
