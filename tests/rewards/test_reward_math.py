"""The math reward as an agent calls it: awaited, blocking, from a thread, from inside another reward function."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import pytest

pytest.importorskip("math_verify")

from agentflow.errors import MissingExtraError
from agentflow.rewards import AsyncRewardWrapper, GraderError, math, math_reward, math_reward_sync


@pytest.mark.asyncio
async def test_right_wrong_and_towers_each_get_their_grade() -> None:
    completions = ["\\boxed{\\frac{14}{3}}", "\\boxed{5}", "9^9^9^9", "\\boxed{(10^8)!}", "", None]
    assert await asyncio.gather(*(math_reward(c, "$\\frac{14}{3}$") for c in completions)) == [
        1.0,
        0.0,
        0.0,
        0.0,
        0.0,
        0.0,
    ]


@pytest.mark.asyncio
async def test_it_works_off_the_main_thread_where_math_verify_does_not() -> None:
    assert await asyncio.to_thread(math_reward_sync, "\\boxed{\\sqrt{8}}", "2\\sqrt{2}") == 1.0


@pytest.mark.asyncio
async def test_a_gold_that_cannot_be_compared_is_an_error_with_its_input() -> None:
    with pytest.raises(GraderError, match=r"TooLargeError.*9\^9\^9\^9"):
        await math_reward("\\boxed{7}", "9^9^9^9")
    for gold in ("", None):
        with pytest.raises(GraderError, match="the gold answer is empty"):
            await math_reward("\\boxed{7}", gold)


@pytest.mark.asyncio
async def test_a_reward_function_in_a_process_may_grade_too() -> None:
    def twice(completion: str, answer: str) -> float:
        from agentflow.rewards import math_reward_sync

        return 2 * math_reward_sync(completion, answer)

    assert await AsyncRewardWrapper(twice)("\\boxed{1/2}", "0.5") == 2.0


@pytest.mark.asyncio
async def test_the_loop_stays_free_while_grades_are_made() -> None:
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    await math_reward("\\boxed{\\sqrt{x^2+1}-\\frac{1}{x}}", "\\frac{1}{x}")
    counting.cancel()
    assert turns > 10


def test_sympy_is_not_imported_into_the_process_that_asks() -> None:
    import subprocess

    code = (
        "import sys\nfrom agentflow.rewards import math_reward_sync\n"
        "assert math_reward_sync('\\\\boxed{1}', '1') == 1.0\nprint('sympy' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=200)
    assert run.stdout == "False\n"


def test_without_math_verify_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(name: str) -> Any:
        return None

    math._grader.cache_clear()
    monkeypatch.setattr("importlib.util.find_spec", nothing)
    with pytest.raises(MissingExtraError, match="extra 'math'"):
        math_reward_sync("1", "1")
    math._grader.cache_clear()
