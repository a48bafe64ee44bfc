"""From the configuration to what is started: pure functions, so that ``--dry-run`` shows exactly what a run does."""

from __future__ import annotations

import math
import os
import secrets
import site
import sys
import sysconfig
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from agentflow.allocation import Allocation
from agentflow.channel.messages import RoleSettings, RunnerSettings, StartEngine
from agentflow.config import Config
from agentflow.controller.admission import MAX_A_WORKER
from agentflow.controller.control import LOOPBACK
from agentflow.episode import DEFAULT_ROLE
from agentflow.errors import ConfigError
from agentflow.schedulers.base import Job, Resources
from agentflow.workers.smollm2 import embedded_model

EPISODES_A_RUNNER = 32  # an SDK costs 5 to 15 ms of CPU a call: more episodes than this keep a core busy


def concurrency(config: Config) -> int | None:
    """Most episodes in flight; None for auto."""
    limit = config.rollout.max_concurrent_rollouts
    return None if limit == "auto" else limit


def runner_count(config: Config) -> int:
    """Runner processes: as asked for, else one for every EPISODES_A_RUNNER episodes, up to the cores of this machine.

    Where the number of episodes is auto, the embedded engine's slots stand for it. 0 means inline.
    """
    asked = config.rollout.runners
    if asked == "inline":
        return 0
    if asked != "auto":
        return asked
    workers = config.allocation
    embedded = workers is not None and workers.engine == "llamacpp"
    slots = workers.replicas * config.llamacpp.n_parallel if workers and embedded else None
    most = concurrency(config) or slots or EPISODES_A_RUNNER * (os.cpu_count() or 1)
    return max(1, min(os.cpu_count() or 1, math.ceil(most / EPISODES_A_RUNNER)))


def runner_settings(config: Config) -> RunnerSettings:
    """What every runner is told."""
    inline = config.rollout.runners == "inline"
    most = concurrency(config)
    if most is None:
        workers = config.allocation
        most = MAX_A_WORKER * (workers.replicas if workers else len(config.base_url))
    roles = {DEFAULT_ROLE: RoleSettings(names=(DEFAULT_ROLE,), sampling=config.sampling())}
    for name, role in config.roles.items():
        roles[name] = RoleSettings(names=role.names or (name,), sampling=role.gconfig.sampling())
    rollout = config.rollout
    return RunnerSettings(
        run_seed=config.seed,
        roles=roles,
        concurrency=1 if inline else most,
        worker_calls=math.ceil(rollout.worker_calls / max(1, runner_count(config))),
        episode_timeout_s=None if inline else rollout.episode_timeout,
        cancel_grace_s=rollout.cancel_grace,
        request_timeout_s=rollout.request_timeout,
        request_retries=rollout.request_retries,
        seed_requests=rollout.seed_requests,
        http_client=rollout.http_client,
        reward_key=rollout.reward_key,
        passed_env=rollout.pass_env,
    )


def model_of(config: Config, workers: Allocation) -> str:
    """The model that workers of ours serve; the embedded one for llama.cpp where none is named.

    Blocks while the embedded model is fetched for the first time.

    Raises:
        ConfigError: no model is named for another engine.
    """
    if config.checkpoint:
        return config.checkpoint
    if workers.engine != "llamacpp":
        raise ConfigError(f"{config.rollout.backend} needs a model: give --model PATH or actor.path=PATH.")
    return str(embedded_model())


def run_directory(config: Config) -> Path:
    """``<fileroot>/<experiment_name>/<trial_name>``; a trial name is made from the time where none is given."""
    trial = config.trial_name or f"{datetime.now():%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
    return Path(config.cluster.fileroot) / config.experiment_name / trial


def engine_options(config: Config, engine: str) -> dict[str, Any]:
    """The engine's own section, without what is not set."""
    section: dict[str, Any] = getattr(config, engine).model_dump(mode="json", exclude_none=True)
    if engine == "llamacpp" and config.allocation is not None:
        section.setdefault("n_threads", max(1, (os.cpu_count() or 1) // config.allocation.replicas))
    return section


def engine_spec(config: Config, workers: Allocation, model: str, api_key: str) -> StartEngine:
    """What every supervisor is told; ``log_path`` is filled in for each."""
    return StartEngine(
        engine=workers.engine,
        model=model,
        served_name=DEFAULT_ROLE,
        api_key=api_key,
        log_path="",
        options=engine_options(config, workers.engine),
        tensor_parallel=workers.tensor_parallel,
        pipeline_parallel=workers.pipeline_parallel,
        seed=config.seed,
        host="" if config.cluster.controller_host or config.cluster.interface else LOOPBACK,
        interface=config.cluster.interface or "",
        deadline_s=config.rollout.setup_timeout,
    )


def worker_job(workers: Allocation, config: Config, log_dir: Path, secret_env: Mapping[str, str]) -> Job:
    """The supervisors, one a replica; the GPUs are the engine's, which the supervisor starts as its child."""
    on_cpu = config.cluster.n_gpus_per_node == 0 or workers.engine == "llamacpp"  # the embedded wheel is CPU only
    gpus = 0 if on_cpu else workers.gpus_per_replica
    return Job(
        name="worker",
        command=(sys.executable, "-m", "agentflow.workers.supervisor"),
        copies=workers.replicas,
        resources=Resources(cpus=1, gpus=gpus),
        env=python_path(),
        secret_env=secret_env,
        log_dir=log_dir,
    )


def runner_job(config: Config, log_dir: Path, secret_env: Mapping[str, str]) -> Job:
    """The runner processes. On another node they have only what is handed to them of this process's environment."""
    passed = {name: os.environ[name] for name in config.rollout.pass_env if name in os.environ}
    return Job(
        name="runner",
        command=(sys.executable, "-m", "agentflow.runner.main"),
        copies=runner_count(config),
        resources=Resources(cpus=1),
        env=python_path(),
        secret_env={**passed, **secret_env},
        log_dir=log_dir,
    )


def python_path() -> dict[str, str]:
    """``PYTHONPATH`` for our processes: the folders of ``sys.path`` that no interpreter finds by itself.

    So an agent that imports here also imports there, however this process was started.
    """
    own = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    own |= {*site.getsitepackages(), site.getusersitepackages()}
    extra = [os.path.abspath(p) for p in sys.path if os.path.isdir(p or ".")]
    kept = [p for p in dict.fromkeys(extra) if p not in own and not p.endswith("lib-dynload")]
    return {"PYTHONPATH": os.pathsep.join(kept)} if kept else {}
