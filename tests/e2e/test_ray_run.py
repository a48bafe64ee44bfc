"""The example on a real Ray of several nodes, with the embedded engine, while a node dies."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agentflow.store import read_results
from tests.e2e.conftest import ROOT, CommandLine, lines, ours, until
from tests.schedulers.ray_nodes import another_node, base

pytestmark = [pytest.mark.ray, pytest.mark.engine, pytest.mark.timeout(600)]

EXAMPLE = ROOT / "examples" / "math" / "agent.py"
AGENT_SIDE = {"exception", "timeout", "max_turns", "context_overflow", "invalid_reward", "call_timeout", "server_error"}
DOOMED = "127.0.0.16"


def processes(run_dir: Path) -> list[dict[str, Any]]:
    """Workers and runners, as ``agentflow status`` shows them."""
    status = run_dir / "status.json"
    found: list[dict[str, Any]] = json.loads(status.read_text())["processes"] if status.exists() else []
    return found


def up(run_dir: Path, node: str | None = None) -> list[str]:
    """Names of those that serve and play, on one node or all."""
    return [p["name"] for p in processes(run_dir) if p["state"] == "up" and node in (None, p["node"])]


def test_a_node_that_dies_in_the_middle_costs_no_episode_and_is_replaced(agentflow: CommandLine) -> None:
    base()
    run_dir = agentflow.cwd / "runs" / "agentflow" / "t"
    # Most is free on this node, so Ray puts two or three of the four processes there.
    with another_node("n6", 6, cpus=6) as raylet:
        run = agentflow.background(
            "run", str(EXAMPLE), "--limit", "8", "--backend", "llamacpp:d2", "scheduler.type=ray", "rollout.runners=2",
            "trial_name=t", "gconfig.max_new_tokens=64",
        )  # fmt: skip
        until(lambda: len(up(run_dir)) == 4 or run.poll() is not None, "the start of all workers and runners")
        until(lambda: len(lines(run_dir / "episodes.jsonl")) >= 1 or run.poll() is not None, "a result")
        assert run.poll() is None, run.stdout and run.stdout.read()
        doomed = up(run_dir, DOOMED)
        assert 0 < len(doomed) < 4
        raylet.kill()
        out, _ = run.communicate(timeout=300)
    assert run.returncode == 0, out
    results = read_results(run_dir)
    assert len(results) == len({r.id for r in results}) == 8
    assert all(r.outcome == "scored" or (r.outcome == "failed" and r.kind in AGENT_SIDE) for r in results), out
    for name in doomed:
        assert f"{name} is gone with its node {DOOMED}" in out
    started = {p.stem for p in (run_dir / "logs").glob("*.log") if not p.stem.endswith("-engine")}
    assert len(started) == 4 + len(doomed), started
    until(lambda: not ours(str(agentflow.cwd)), "the end of all its processes")
