"""What docs/results.md says of the interval is what is computed."""

from __future__ import annotations

import re
from math import sqrt
from pathlib import Path

import pytest

from agentflow.metrics import item_mean

PAGE = (Path(__file__).parents[2] / "docs" / "results.md").read_text()
SECTION = PAGE.partition("### The interval\n")[2].partition("\n## ")[0]


def wilson(passed: int, of: int) -> tuple[float, float]:
    """The textbook's: the normal quantile, every episode independent."""
    p, q = passed / of, 1.959964**2 / of
    middle, half = (p + q / 2) / (1 + q), sqrt(p * (1 - p) * q + q * q / 4) / (1 + q)
    return middle - half, middle + half


def test_the_numbers_that_it_shows_are_ours_and_the_textbooks() -> None:
    text = " ".join(SECTION.split())
    shown = re.findall(r"(\d+) of (\d+) is (\S+) to (\S+) \((?:Wilson's with 1.96: )?(\S+) to (\S+)\)", text)
    assert len(shown) == 3
    for passed, of, *numbers in shown:
        rewards = [[1.0]] * int(passed) + [[0.0]] * (int(of) - int(passed))
        ours = item_mean(rewards, (0.0, 1.0)).ci95
        assert ours is not None
        assert [f"{x:.3f}" for x in (ours.low, ours.high, *wilson(int(passed), int(of)))] == numbers


def test_its_recipe_gives_the_same_interval() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", SECTION, re.DOTALL)
    names: dict[str, object] = {}
    exec(code, names)
    for rewards in (
        [[0], [0]],
        [[1]] * 4 + [[0]] * 12,
        [[1, 0], [1, 1], [0, 0, 1]],
        [[0, 1], [1, 0]],
        [[1]] * 16,
    ):
        ours = item_mean(rewards, (0.0, 1.0)).ci95
        assert ours is not None
        assert names["interval"](rewards) == pytest.approx((ours.low, ours.high), abs=1e-9)  # type: ignore[operator]
