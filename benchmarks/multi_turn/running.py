"""One measured run: the rows become a file, and ``agentflow run`` plays it with as many episodes at once as clients."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from secrets import token_hex
from typing import Any

import msgspec

from agentflow.cli import run
from agentflow.config import load_config
from agentflow.controller.launch import run_directory
from agentflow.errors import UsageError
from agentflow.store.files import MANIFEST, write_atomically

AGENT = "multi_turn"
FOLDER = "workloads"  # beside the runs of the same experiment


def arguments_of(clients: int, seed: int, given: Sequence[str], trial: str) -> list[str]:
    """What ``agentflow run`` is told beside the data.

    What the user gave stays. Every client may have a request in flight, also where runners have different numbers of
    them: a limit below would measure the limit.
    """
    needed = {"trial_name": trial, "seed": str(seed), "rollout.worker_calls": str(2 * clients)}
    keys = {argument.partition("=")[0] for argument in given}
    filled = [f"{key}={value}" for key, value in needed.items() if key not in keys]
    return [AGENT, "--max-concurrent", str(clients), *given, *filled]


def hold(
    rows: Sequence[dict[str, Any]], name: str, clients: int, seed: int, given: Sequence[str]
) -> tuple[int, Path | None]:
    """Play the rows.

    Returns:
        The exit code, and the run's directory; None where there is none (``--dry-run``).

    Raises:
        AgentflowError: the run could not begin, or stopped.
    """
    trial = f"{datetime.now():%Y%m%d-%H%M%S}-{token_hex(2)}"
    arguments = arguments_of(clients, seed, given, trial)
    run_dir = _directory(arguments)
    file = run_dir.parent / FOLDER / f"{name}.jsonl"
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise UsageError(
            f"The folder {file.parent} cannot be made ({e.strerror or e}): set cluster.fileroot to a folder that can "
            "be written."
        ) from e
    write_atomically(file, b"".join(msgspec.json.encode(row) + b"\n" for row in rows))
    code: int = run.command.main([*arguments, "--data", str(file)], prog_name="agentflow run", standalone_mode=False)
    return code, run_dir if (run_dir / MANIFEST).exists() else None


def _directory(arguments: list[str]) -> Path:
    """Where the run will lie."""
    with run.command.make_context("agentflow run", list(arguments)) as context:
        file, pairs = context.params["config"], [one for one in context.params["arguments"] if "=" in one]
    return run_directory(load_config(file, pairs)[0])
