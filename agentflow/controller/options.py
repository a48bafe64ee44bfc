"""The short options of the command line and of ``evaluate``, and the configuration keys that they stand for."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from agentflow.errors import UsageError

KEYS = {
    "limit": "valid_dataset.limit",
    "shuffle": "valid_dataset.shuffle",
    "seed": "seed",
    "n_samples": "gconfig.n_samples",
    "max_concurrent": "rollout.max_concurrent_rollouts",
    "timeout": "rollout.episode_timeout",
    "base_url": "base_url",
    "model": "model",
    "api_key_env": "api_key_env",
    "backend": "rollout.backend",
    "runners": "rollout.runners",
    "reward": "reward_fn",
    "group_by": "valid_dataset.group_by",
    "item_metric": "item_metrics",
    "run_metric": "run_metrics",
    "prompt_column": "valid_dataset.prompt_column",
    "answer_column": "valid_dataset.answer_column",
    "template": "valid_dataset.template",
}


def overrides_of(options: Mapping[str, Any]) -> list[str]:
    """``key=value`` overrides for the options that are set (not None, not an empty tuple).

    Raises:
        UsageError: an option that does not exist, or a value that no file can hold.
    """
    unknown = options.keys() - KEYS.keys()
    if unknown:
        raise UsageError(f"No such option: {', '.join(sorted(unknown))}; there are {', '.join(KEYS)}.")
    given = {name: value for name, value in options.items() if value is not None and value != ()}
    return [f"{KEYS[name]}={_json(name, value)}" for name, value in given.items()]


def flags_of(options: Mapping[str, Any]) -> dict[str, str]:
    """How the command line spells the options that are set, by the keys that they stand for."""
    return {KEYS[name]: f"--{name.replace('_', '-')}" for name, value in options.items() if value not in (None, ())}


def _json(name: str, value: object) -> str:
    try:
        return json.dumps(value)
    except (TypeError, ValueError) as e:
        hint = " a function by its path (file.py:function)," if name in ("item_metric", "run_metric", "reward") else ""
        raise UsageError(
            f"{name}={value!r} cannot be kept with the run: give{hint} numbers, texts, or lists of them."
        ) from e
