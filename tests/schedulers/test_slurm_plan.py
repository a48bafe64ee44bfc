"""From the configuration to what jobs ask for."""

from __future__ import annotations

import pytest

from agentflow.config import load_config
from agentflow.schedulers.slurm_commands import plain_environment, submit_environment
from agentflow.schedulers.slurm_plan import SlurmPlan, slurm_plan


def plan(*overrides: str) -> SlurmPlan:
    return slurm_plan(load_config(None, ["scheduler.type=slurm", *overrides])[0], "1f")


def test_scheduler_slurm_is_passed_on() -> None:
    found = plan(
        "scheduler.slurm.partition=gpu",
        "scheduler.slurm.runner_partition=cpu",
        "scheduler.slurm.account=lab",
        "scheduler.slurm.qos=high",
        "scheduler.slurm.time=4:00:00",
        "scheduler.slurm.nodelist=n[1-4]",
        "scheduler.slurm.exclude=n3",
        "scheduler.slurm.reservation=r",
        "scheduler.slurm.constraint=a100",
        "scheduler.slurm.exclusive=true",
        "scheduler.slurm.sbatch_args=--mail-type=END --nice",
        "scheduler.slurm.srun_args=--mpi=none",
        "scheduler.slurm.container_args=--container-image=x.sqsh",
        "scheduler.slurm.modules=cuda",
        "scheduler.slurm.pre_commands=ulimit -n 100000",
        "scheduler.slurm.signal_before=60",
    )
    common = ("--account=lab", "--qos=high", "--time=4:00:00", "--mail-type=END", "--nice")
    assert found.workers.sbatch == (
        "--partition=gpu",
        "--nodelist=n[1-4]",
        "--exclude=n3",
        "--reservation=r",
        "--constraint=a100",
        *common,
    )
    assert found.workers.exclusive
    assert found.workers.srun == found.runners.srun == ("--mpi=none", "--container-image=x.sqsh")
    assert found.workers.setup == ("module load cuda", "ulimit -n 100000")
    assert found.runners.sbatch == ("--partition=cpu", *common)
    assert not found.runners.exclusive
    assert found.signal_before_s == 60


def test_scheduling_spec_wins_over_scheduler_slurm() -> None:
    spec = (
        "{nodelist: n2, exclude: n9, exclusive: false, srun_additional_args: '--mem=0', additional_bash_cmds: [date]}"
    )
    found = plan("scheduler.slurm.nodelist=n1", "scheduler.slurm.exclusive=true", f"rollout.scheduling_spec={spec}")
    assert found.workers.sbatch == ("--nodelist=n2", "--exclude=n9")
    assert not found.workers.exclusive
    assert found.workers.srun == ("--mem=0",)
    assert found.workers.setup == ("date",)


@pytest.mark.parametrize(
    ("overrides", "ride"),
    [
        (["rollout.backend=vllm:d2", "model=m"], True),
        (["rollout.backend=vllm:d2", "model=m", "scheduler.slurm.runner_partition=cpu"], False),
        (["base_url=http://127.0.0.1:1"], False),  # no workers of ours to ride along with
    ],
)
def test_runners_ride_along_unless_they_have_a_partition_or_there_are_no_workers(
    overrides: list[str], ride: bool
) -> None:
    assert plan(*overrides).ride is ride


def test_what_will_not_work_well_is_a_warning() -> None:
    assert plan("cluster.controller_host=10.0.0.1", "rollout.scheduling_spec={cpu: 8, mem: 32}").warnings == ()
    loud = plan("scheduler.slurm.exclusive=true").warnings
    assert len(loud) == 2
    assert "cluster.controller_host is not set" in loud[0]
    assert "cluster.n_gpus_per_node is not set" in loud[1]


def test_the_jobs_of_a_run_have_a_name_that_scancel_takes_for_one() -> None:
    assert plan("experiment_name='a, b & c'").name == "a--b---c-1f"


def test_the_shells_own_settings_for_slurm_do_not_bend_what_is_asked() -> None:
    environ = {
        "PATH": "/bin",
        "SLURM_CONF": "/etc/s.conf",
        "SLURM_MEM_PER_NODE": "1",
        "SQUEUE_NAMES": "x",
        "SBATCH_ACCOUNT": "lab",
        "SBATCH_PARTITION": "cpu",
        "SBATCH_REQUEUE": "1",
        "SBATCH_TIMELIMIT": "1",
    }
    kept = {"PATH", "SLURM_CONF", "SBATCH_ACCOUNT", "SBATCH_PARTITION", "SBATCH_REQUEUE", "SBATCH_TIMELIMIT"}
    assert plain_environment(environ).keys() == kept
    script = "#SBATCH --partition=gpu\n#SBATCH --no-requeue\n#SBATCH --time=4:00:00\n"
    assert submit_environment(environ, script).keys() == {"PATH", "SLURM_CONF", "SBATCH_ACCOUNT"}
