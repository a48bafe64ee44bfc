"""The overhead benchmark measures what it says; how fast anything is, is not asked here."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.overhead import ROWS, Cost, Load, Used, cost, table, with_runners

ROOT = Path(__file__).parents[2]


def overhead(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "benchmarks/overhead.py", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240)


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_the_cost_of_a_call_is_the_slope_between_two_sizes_so_start_up_cancels_out() -> None:
    load = Load(small=10, large=110, at_once=4)  # 100 episodes more are 300 calls more
    small, large = Used(own_s=1.0, children_s=7.0), Used(own_s=1.3, children_s=7.6)
    found = cost(small, large, load)
    assert found.own == pytest.approx(1.0)
    assert found.children == pytest.approx(2.0)
    assert found.total == pytest.approx(3.0)


def test_the_table_compares_within_a_round_and_shows_the_spread() -> None:
    bare, aiohttp, ours = ROWS
    found = {
        bare: [Cost(4.0, 0.0), Cost(2.0, 0.0), Cost(8.0, 0.0)],
        aiohttp: [Cost(2.0, 0.0), Cost(1.0, 0.0), Cost(4.0, 0.0)],
        ours: [Cost(1.0, 2.0), Cost(0.2, 0.8), Cost(1.0, 5.0)],
    }
    lines = table(found).splitlines()[2:]
    assert cells(lines[0]) == [bare.name, "4.00", "2.00 - 8.00", "", "", "1"]
    assert cells(lines[1])[-1] == "**0.50** (0.50 - 0.50)"
    assert cells(lines[2]) == [ours.name, "3.00", "1.00 - 6.00", "1.00", "2.00", "**0.75** (0.50 - 0.75)"]


def test_one_command_plays_every_side_and_prints_the_table() -> None:
    done = overhead("--rounds", "1", "--at-once", "4", "--small", "4", "--large", "44", "--runners", "1")
    assert done.returncode == 0, done.stderr
    rows = {cells(line)[0]: cells(line)[1:] for line in done.stdout.splitlines()[2:]}
    assert list(rows) == [row.name for row in with_runners(ROWS, ["1"])]
    for name, (median, spread, controller, runners, _) in rows.items():
        assert spread == f"{median} - {median}", name
        if controller:
            assert float(controller) + float(runners) == pytest.approx(float(median), abs=0.011)
        else:
            assert float(median) > 0, name  # 120 calls of an SDK cost more than the difference between two starts


def test_each_number_of_runners_has_a_row_of_its_own() -> None:
    rows = with_runners(ROWS, ["auto", "1"])
    assert [row.side for row in rows] == ["httpx2", "aiohttp", "agentflow", "agentflow"]
    assert [row.runners for row in rows[2:]] == ["auto", "1"]


def test_sizes_that_leave_nothing_between_them_are_refused() -> None:
    done = overhead("--small", "8", "--large", "8")
    assert done.returncode == 2
    assert "--large has to be more than --small" in done.stderr
