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
from agentflow.config.rollout import SchedulingSpec
from agentflow.config.secrets import is_secret_name
from agentflow.controller.admission import MAX_A_WORKER
from agentflow.controller.control import LOOPBACK
from agentflow.episode import DEFAULT_ROLE
from agentflow.errors import ConfigError
from agentflow.schedulers.base import Job, Resources
from agentflow.workers.smollm2 import FILE_NAME, embedded_model

CPUS_A_GPU = 4  # an engine's processes: scheduler, tokenizer, HTTP server, and one to drive the GPU
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
        roles[name] = RoleSettings(role.names or (name,), role.gconfig.sampling(), role.is_shared)
    rollout = config.rollout
    return RunnerSettings(
        run_seed=config.seed,
        roles=roles,
        model_names=_names_of_model(config),
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


def _names_of_model(config: Config) -> tuple[str, ...]:
    """The checkpoint, its last part, and that without ``.gguf``: an agent that asks for one of these means it."""
    model = config.checkpoint or ("" if config.base_url else FILE_NAME)
    last = Path(model).name
    return tuple(dict.fromkeys(name for name in (model, last, last.removesuffix(".gguf")) if name))


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
    """The engine's own section, without what is not set, and what other sections say of how it serves the model."""
    section: dict[str, Any] = getattr(config, engine).model_dump(mode="json", exclude_none=True)
    if engine == "llamacpp":
        if config.allocation is not None:
            section.setdefault("n_threads", max(1, (os.cpu_count() or 1) // config.allocation.replicas))
        return section
    agent = config.rollout.agent
    elsewhere = {
        "dtype": config.actor.dtype,
        "tokenizer_path": config.tokenizer_path if config.tokenizer_path != config.checkpoint else None,
        "tool_call_parser": agent.tool_call_parser,
        "reasoning_parser": agent.reasoning_parser,
        "chat_template_kwargs": agent.chat_template_kwargs,
    }
    return {**{k: v for k, v in elsewhere.items() if v}, **section}


def nodes_a_replica(config: Config, workers: Allocation) -> int:
    """Nodes that one replica needs; 1 where the GPUs of a node are not said, or none are used."""
    return math.ceil(workers.gpus_per_replica / (config.cluster.n_gpus_per_node or workers.gpus_per_replica))


def check_nodes(spec: StartEngine) -> None:
    """Raises ConfigError for a replica that spreads over several nodes: its commands are rendered, not started."""
    if spec.nodes > 1:
        gpus = spec.tensor_parallel * spec.pipeline_parallel
        raise ConfigError(
            f"A replica of {gpus} GPUs needs {spec.nodes} nodes (cluster.n_gpus_per_node), which agentflow does not "
            "start itself: --dry-run prints the command of each node; start them and name the first by --base-url."
        )


def container_options(config: Config, engine: str) -> dict[str, Any]:
    """``command`` for an engine in the container image of ``scheduling_spec``, where its own section names none."""
    specs = config.rollout.scheduling_spec
    program = {"vllm": "vllm", "sglang": "python3"}.get(engine)
    if not specs or not specs[0].image or specs[0].container_type == "none" or program is None:
        return {}
    mounts = ("--bind", specs[0].mount) if specs[0].mount else ()
    return {"command": ["apptainer", "exec", "--nv", *mounts, specs[0].image, program]}


def engine_spec(config: Config, workers: Allocation, model: str, api_key: str) -> StartEngine:
    """What every supervisor is told; ``log_path`` is filled in for each."""
    options = engine_options(config, workers.engine)
    return StartEngine(
        engine=workers.engine,
        model=model,
        served_name=DEFAULT_ROLE,
        api_key=api_key,
        log_path="",
        options=options if options.get("command") else {**options, **container_options(config, workers.engine)},
        tensor_parallel=workers.tensor_parallel,
        pipeline_parallel=workers.pipeline_parallel,
        adapter=config.rollout.lora_name or config.generation.lora_name or "",
        nodes=nodes_a_replica(config, workers),
        seed=config.seed,
        host="" if config.cluster.controller_host or config.cluster.interface else LOOPBACK,
        interface=config.cluster.interface or "",
        deadline_s=config.rollout.setup_timeout,
    )


def worker_job(workers: Allocation, config: Config, log_dir: Path, secret_env: Mapping[str, str]) -> Job:
    """The supervisors, one a replica; the GPUs are the engine's, which the supervisor starts as its child."""
    on_cpu = config.cluster.n_gpus_per_node == 0 or workers.engine == "llamacpp"  # the embedded wheel is CPU only
    gpus = 0 if on_cpu else workers.gpus_per_replica
    spec = config.rollout.scheduling_spec[0] if config.rollout.scheduling_spec else SchedulingSpec()
    secret = {name: value for name, value in spec.env_vars.items() if is_secret_name(name)}
    return Job(
        name="worker",
        command=(sys.executable, "-m", "agentflow.workers.supervisor"),
        copies=workers.replicas,
        resources=worker_resources(spec, gpus),
        env={**{k: v for k, v in spec.env_vars.items() if k not in secret}, **python_path()},
        secret_env={**secret, **secret_env},
        log_dir=log_dir,
    )


def worker_resources(spec: SchedulingSpec, gpus: int) -> Resources:
    """What a worker takes of its node: ``cpu`` and ``mem`` are for each GPU, where there are GPUs."""
    times = max(1, gpus)
    cpus = spec.cpu if spec.cpu is not None else CPUS_A_GPU if gpus else 1
    return Resources(cpus=cpus * times, gpus=gpus, memory_gb=None if spec.mem is None else spec.mem * times)


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
        rides_along=True,
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
