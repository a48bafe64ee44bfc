"""What ``scheduling_spec`` makes of a worker."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentflow.config import load_config
from agentflow.controller.launch import engine_spec, worker_job
from agentflow.schedulers.base import Job, Resources


def job(*overrides: str) -> Job:
    config, _ = load_config(None, ["model=m", *overrides])
    assert config.allocation is not None
    return worker_job(config.allocation, config, Path("/logs"), {"AGENTFLOW_TOKEN": "t"})


@pytest.mark.parametrize(
    ("overrides", "resources"),
    [
        (["rollout.backend=vllm:d2t2"], Resources(cpus=8, gpus=2)),
        (["rollout.backend=vllm:d2t2", "rollout.scheduling_spec={cpu: 6, mem: 32}"], Resources(12, 2, 64)),
        (["rollout.backend=llamacpp:d2"], Resources(cpus=1)),
        (["rollout.backend=llamacpp:d2", "rollout.scheduling_spec={cpu: 6, mem: 32}"], Resources(6, 0, 32)),
        (["rollout.backend=vllm:d1", "cluster.n_gpus_per_node=0", "rollout.scheduling_spec={cpu: 2}"], Resources(2)),
    ],
)
def test_cores_and_memory_are_for_each_gpu_where_there_are_gpus(overrides: list[str], resources: Resources) -> None:
    assert job(*overrides).resources == resources


def test_environment_variables_reach_the_workers_and_what_is_named_like_a_secret_is_kept_one() -> None:
    found = job("rollout.scheduling_spec={env_vars: {NCCL_DEBUG: WARN, HF_TOKEN: abc}}")
    assert found.env["NCCL_DEBUG"] == "WARN"
    assert "HF_TOKEN" not in found.env
    assert found.secret_env == {"HF_TOKEN": "abc", "AGENTFLOW_TOKEN": "t"}


@pytest.mark.parametrize(
    ("backend", "more", "command"),
    [
        ("vllm:d1", [], ["apptainer", "exec", "--nv", "--bind", "/data:/data", "x.sif", "vllm"]),
        ("sglang:d1", [], ["apptainer", "exec", "--nv", "--bind", "/data:/data", "x.sif", "python3"]),
        ("vllm:d1", ["vllm.command=/opt/vllm/bin/vllm"], ["/opt/vllm/bin/vllm"]),
    ],
)
def test_an_engine_runs_in_the_container_image_unless_its_own_section_says_how(
    backend: str, more: list[str], command: list[str]
) -> None:
    spec = "rollout.scheduling_spec={image: x.sif, mount: '/data:/data'}"
    config, _ = load_config(None, ["model=m", f"rollout.backend={backend}", spec, *more])
    assert config.allocation is not None
    assert engine_spec(config, config.allocation, "m", api_key="").options["command"] == command
