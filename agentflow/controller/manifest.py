"""From the configuration to the manifest: what a run is, and what decides its score."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agentflow.channel.messages import AgentInfo, AgentSpec
from agentflow.config import Config
from agentflow.config.secrets import without_secrets
from agentflow.controller.launch import engine_options
from agentflow.store import DataInfo, Manifest, Rules, git_state, package_versions

# Settings of an engine that change how fast it answers, not what: free to differ when a run is resumed.
FREE_ENGINE_SETTINGS = frozenset(
    {
        "command",
        "n_parallel",
        "n_threads",
        "cache_mib",
        "max_running_requests",
        "max_num_seqs",
        "mem_fraction_static",
        "gpu_memory_utilization",
        "log_level",
        "log_level_http",
        "uvicorn_log_level",
    }
)


def manifest_of(
    config: Config, agent: AgentSpec | None = None, source: str = "", command: Sequence[str] = ()
) -> Manifest:
    """A manifest for a run that begins now; the agent's fingerprint and the data are filled in once they are known.

    Args:
        source: the data set as the user named it; empty where it is the agent's own, or rows.
        command: the command line, which may hold secrets.
    """
    return Manifest(
        run_id=secrets.token_hex(8),
        created_at=time.time(),
        versions=package_versions(),
        config=config.public(),
        agent=AgentInfo(agent.path if agent else "", True),
        agent_path=agent.path if agent else "",
        agent_kwargs=without_secrets(agent.kwargs) if agent else {},
        command=tuple(without_secrets(list(command))),
        cwd=os.getcwd(),
        git=git_state(Path.cwd()),
        rules=rules_of(config),
        data=DataInfo(source),
    )


def rules_of(config: Config) -> Rules:
    """What decides the score, beside the agent and the data. Pure."""
    engine: dict[str, Any] = {}
    if config.allocation is not None:
        options = engine_options(config, config.allocation.engine)
        engine = {k: v for k, v in options.items() if k not in FREE_ENGINE_SETTINGS}
        engine["name"] = config.allocation.engine
    rollout = config.rollout
    return Rules(
        model=config.checkpoint or "",
        sampling=config.sampling(),
        engine=engine,
        roles={name: role.model_dump(mode="json", exclude={"api_key_env"}) for name, role in config.roles.items()},
        seed=config.seed,
        n_samples=config.n_samples,
        failed_reward=rollout.failed_reward,
        reward_range=rollout.reward_range,
        reward_key=rollout.reward_key,
        reward_fn=config.reward_fn or "",
        episode_timeout_s=rollout.episode_timeout,
        request_timeout_s=rollout.request_timeout,
    )


def configured_source(config: Config) -> str | None:
    """The data set that the configuration names: a file or function as it is, a hub name with its split."""
    data = config.valid_dataset
    source = data.path or data.name
    if source is None or ":" in source or Path(source).exists() or "/" not in source or Path(source).suffix:
        return source
    return f"{source}:{data.split}"
