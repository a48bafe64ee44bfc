"""The example on a real Ray of several nodes, with the embedded engine, while a node dies."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from agentflow.store import read_results
from tests.e2e.conftest import ROOT, CommandLine, lines, ours, until
from tests.schedulers.ray_nodes import another_node, base

pytestmark = [pytest.mark.ray, pytest.mark.engine, pytest.mark.timeout(600)]

AGENT_SIDE = {"exception", "timeout", "max_turns", "context_overflow", "invalid_reward", "call_timeout", "server_error"}
DOOMED = "127.0.0.16"


def documented() -> list[list[str]]:
    """Arguments of the commands that the page on Ray shows."""
    page = (ROOT / "docs" / "clusters-ray.md").read_text()
    commands = re.findall(r"^\$ agentflow (.*)$", page, re.MULTILINE)
    return [command.replace("examples/", f"{ROOT}/examples/").split() for command in commands]


def processes(run_dir: Path) -> list[dict[str, Any]]:
    """Workers and runners, as ``agentflow status`` shows them."""
    status = run_dir / "status.json"
    found: list[dict[str, Any]] = json.loads(status.read_text())["processes"] if status.exists() else []
    return found


def up(run_dir: Path, node: str | None = None) -> list[str]:
    """Names of those that serve and play, on one node or all."""
    return [p["name"] for p in processes(run_dir) if p["state"] == "up" and node in (None, p["node"])]


def test_the_dry_run_that_the_docs_show_prints_what_would_be_started(agentflow: CommandLine) -> None:
    run, dry_run = documented()
    assert dry_run == [*run, "--dry-run"]
    done = agentflow(*dry_run)
    assert done.code == 0, done.out + done.err
    assert "# worker-1: child of an actor on a node with 1 CPU free" in done.out
    assert "agentflow.runner.main" in done.out


def test_a_node_that_dies_in_the_middle_costs_no_episode_and_is_replaced(agentflow: CommandLine) -> None:
    base()
    run_dir = agentflow.cwd / "runs" / "agentflow" / "t"
    # Most is free on this node, so Ray puts all four processes there: only their replacements can finish the run.
    with another_node("n6", 6, cpus=12) as raylet:
        more = ("trial_name=t", "gconfig.max_new_tokens=64", "cluster.controller_host=127.0.0.10")
        run = agentflow.background(*documented()[0], *more)
        until(lambda: len(up(run_dir)) == 4 or run.poll() is not None, "the start of all workers and runners")
        until(lambda: len(lines(run_dir / "episodes.jsonl")) >= 1 or run.poll() is not None, "a result")
        assert run.poll() is None, run.stdout and run.stdout.read()
        doomed = up(run_dir, DOOMED)
        assert sorted(doomed) == ["runner-0", "runner-1", "worker-0", "worker-1"]
        raylet.kill()
        out, _ = run.communicate(timeout=300)
    assert run.returncode == 0, out
    results = read_results(run_dir)
    assert len(results) == len({r.id for r in results}) == 8
    assert all(r.outcome == "scored" or (r.outcome == "failed" and r.kind in AGENT_SIDE) for r in results), out
    for name in doomed:  # whatever is noticed first: what it says as it is ended, its socket, or Ray's word
        assert re.search(rf"\b{name} .*; starting another {name[:-2]}", out), out
    started = {p.stem for p in (run_dir / "logs").glob("*.log") if not p.stem.endswith("-engine")}
    assert {"worker-2", "worker-3"} & started
    assert {"runner-2", "runner-3"} & started
    until(lambda: not ours(str(agentflow.cwd)), "the end of all its processes")
