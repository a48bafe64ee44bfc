"""What Slurm is asked for is rendered purely: packs, resources, quoting, secrets by name only."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from agentflow.errors import ConfigError
from agentflow.schedulers.base import Job, Resources
from agentflow.schedulers.slurm_plan import Options
from agentflow.schedulers.slurm_script import (
    TAKE_GPUS,
    batch_script,
    packs,
    rendered_step,
    seconds,
    secrets_file,
    signal_seconds,
)

SECRETS = Path("/runs/.r/worker.env")


def job(copies: int = 1, gpus: int = 0, **more: Any) -> Job:
    given = {"log_dir": Path("/runs/logs"), "resources": Resources(cpus=4, gpus=gpus), **more}
    return Job("worker", ("serve", "a b"), copies, **given)


def script(a_job: Job, options: Options | None = None, **more: Any) -> str:
    given = {"secrets": SECRETS, "signal_before_s": 120.0, **more}
    return batch_script("math-1f", a_job, a_job.copy_names, options or Options(), **given)


def directives(text: str) -> list[str]:
    return re.findall(r"^#SBATCH (.*)$", text, re.MULTILINE)


@pytest.mark.parametrize(
    ("copies", "gpus", "per_node", "nodes", "exclusive", "sizes"),
    [
        (12, 1, 4, 3, False, [4, 4, 4]),
        (5, 2, 8, 2, False, [4, 1]),  # the second node is shared with others
        (3, 3, 8, 2, False, [2, 1]),
        (2, 8, 8, 2, True, [1, 1]),
        (2, 2, None, 1, False, [1, 1]),  # nobody said how many a node has
        (3, 0, 8, 3, False, [1, 1, 1]),  # CPU engines go where there is room
        (5, 0, 0, 2, True, [3, 2]),
    ],
)
def test_copies_share_a_job_as_far_as_a_node_holds_them(
    copies: int, gpus: int, per_node: int | None, nodes: int, exclusive: bool, sizes: list[int]
) -> None:
    found = packs(job(copies, gpus), per_node, nodes, exclusive)
    assert [len(pack) for pack in found] == sizes
    assert sum(found, ()) == job(copies, gpus).copy_names


def test_a_replica_larger_than_a_node_is_refused_with_both_numbers() -> None:
    with pytest.raises(ConfigError, match=r"needs 16 GPUs on one node, but cluster.n_gpus_per_node is 8"):
        packs(job(1, 16), 8, 2, False)


def test_a_job_asks_for_what_all_of_its_copies_need() -> None:
    asked = directives(script(job(4, 2, resources=Resources(cpus=4, gpus=2, memory_gb=30.5)), spare_cpus=1))
    assert asked == [
        "--job-name=math-1f",
        "--nodes=1",
        "--ntasks=1",
        "--cpus-per-task=17",
        "--mem=124928M",
        "--gres=gpu:8",
        "--output=/runs/logs/slurm-%j.log",
        "--open-mode=append",
        "--no-requeue",
        "--signal=TERM@120",
    ]


def test_an_exclusive_job_has_all_cores_and_memory_of_its_node() -> None:
    asked = directives(script(job(2, 4), Options(exclusive=True)))
    assert {"--exclusive", "--mem=0", "--gres=gpu:8"} <= set(asked)
    assert not any(a.startswith("--cpus-per-task") for a in asked)


def test_each_copy_has_its_own_gpus_by_position() -> None:
    assert re.findall(r"^copy (.*) &$", script(job(3, 2, first_index=5)), re.MULTILINE) == [
        "worker-5 0 2",
        "worker-6 2 2",
        "worker-7 4 2",
    ]


@pytest.mark.parametrize(
    ("visible", "first", "count", "own"),
    [("4,5,6,7", 2, 2, "6,7"), ("GPU-a,GPU-b", 0, 1, "GPU-a"), ("0,1", 0, 0, ""), ("", 0, 0, "")],
)
def test_a_step_narrows_the_gpus_that_srun_shows_it(visible: str, first: int, count: int, own: str) -> None:
    argv = ["bash", "-c", TAKE_GPUS, "copy", str(first), str(count), "sh", "-c", 'echo "$CUDA_VISIBLE_DEVICES"']
    done = subprocess.run(argv, env={"CUDA_VISIBLE_DEVICES": visible, "PATH": "/usr/bin:/bin"}, capture_output=True)
    assert (done.returncode, done.stdout.decode()) == (0, f"{own}\n")


def test_a_step_that_finds_too_few_gpus_says_so_and_does_not_start() -> None:
    argv = ["bash", "-c", TAKE_GPUS, "copy", "2", "2", "echo", "started"]
    env = {"CUDA_VISIBLE_DEVICES": "0,1,2", "AGENTFLOW_NAME": "worker-1", "PATH": "/usr/bin:/bin"}
    done = subprocess.run(argv, env=env, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, "Slurm gave this job the GPUs 0,1,2, too few for worker-1.\n")


def test_secrets_are_in_a_script_and_in_a_dry_run_by_name_only() -> None:
    asked = job(secret_env={"AGENTFLOW_TOKEN": "s3cr3t", "KEY": "k3y"}, rides_along=True)
    text = script(asked) + rendered_step(asked, "worker-0", Options(), "of a job")
    assert "s3cr3t" not in text
    assert "k3y" not in text
    assert ". /runs/.r/worker.env  # sets AGENTFLOW_TOKEN, KEY" in text


def test_what_a_shell_would_read_into_a_value_stays_as_it_is(tmp_path: Path) -> None:
    values = {"A": "a b", "B": 'it\'s $HOME `id` \\ "x"', "C": "two\nlines", "D": ""}
    (tmp_path / "env").write_text(secrets_file(values))
    show = f'. {tmp_path}/env; printf "%s\\0" "$A" "$B" "$C" "$D"'
    shown = subprocess.run(["bash", "-c", show], capture_output=True, text=True, check=True).stdout
    assert shown.split("\0")[:-1] == list(values.values())


@pytest.mark.parametrize("name", ["A B", "1A", "A;reboot", "A\n", "", "Ä"])
def test_a_name_that_is_no_variable_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="cannot be the name of an environment variable"):
        script(job(env={name: "x"}))
    with pytest.raises(ConfigError, match="cannot be the name of an environment variable"):
        secrets_file({name: "x"})


def test_a_line_break_in_an_argument_of_sbatch_is_refused() -> None:
    with pytest.raises(ConfigError, match="line break"):
        script(job(), Options(sbatch=("--comment=a\n#SBATCH --uid=0",)))


def test_percent_signs_in_a_path_are_not_slurms_patterns() -> None:
    text = script(job(log_dir=Path("/runs/100%j logs")))
    assert "--output='/runs/100%%j logs/slurm-%j.log'" in directives(text)
    assert "logs='/runs/100%%j logs'\n" in text


def test_arguments_modules_and_commands_of_the_configuration_come_in_order() -> None:
    options = Options(
        sbatch=("--partition=gpu", "--exclude=n1,n2", "--requeue"),
        srun=("--container-image=x y.sqsh",),
        setup=("module load cuda/12", "ulimit -l unlimited"),
    )
    text = script(job(), options)
    assert text.startswith("#!/bin/bash -l\n"), "modules are a login shell's"
    assert directives(text)[-3:] == ["--partition=gpu", "--exclude=n1,n2", "--requeue"]
    assert re.search(r"^step=\(srun --overlap .* '--container-image=x y.sqsh'\)$", text, re.MULTILINE)
    assert text.index("set -e\n") < text.index("module load") < text.index("ulimit") < text.index("export PYTHONPATH")


def test_every_script_is_a_script_that_bash_can_read() -> None:
    text = script(job(3, 2, env={"A": "it's"}), Options(srun=("--mpi=none",), setup=("module load a",)))
    assert subprocess.run(["bash", "-n"], input=text, text=True).returncode == 0


@pytest.mark.parametrize(
    ("time", "expected"),
    [
        ("90", 5400),
        ("10:30", 630),
        ("4:00:00", 14400),
        ("2-12", 216000),
        ("1-00:30", 88200),
        ("1-0:0:5", 86405),
        ("UNLIMITED", None),
        ("soon", None),
    ],
)
def test_a_time_limit_is_read_as_slurm_reads_it(time: str, expected: int | None) -> None:
    assert seconds(time) == expected


@pytest.mark.parametrize(
    ("arguments", "before"),
    [((), 120), (("--time=4:00:00",), 120), (("--time=2",), 60), (("--time=1", "--time=3"), 90)],
)
def test_a_short_job_is_not_told_to_end_in_its_first_half(arguments: tuple[str, ...], before: int) -> None:
    assert signal_seconds(arguments, 120.0) == before
