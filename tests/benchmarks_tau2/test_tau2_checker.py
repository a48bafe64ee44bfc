"""The authors' evaluators, on golden actions and on what is left of them."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from agentflow.rewards import GraderError
from benchmarks.tau2.checker import Verdict, judge, verdict_on
from benchmarks.tau2.data import base, mock, rows, telecom_full
from benchmarks.tau2.golden import changes_something, golden_actions, golden_trajectory
from benchmarks.tau2.package import task_of
from benchmarks.tau2.task import Task
from benchmarks.tau2.world import World

pytestmark = [pytest.mark.tau2, pytest.mark.asyncio]

Tasks = Callable[[str], dict[str, Task]]


async def passing(tasks: Iterable[Task], drop: str = "") -> int:
    """How many of them the golden actions, or what is left of them, pass."""
    return sum([verdict_on(task, await golden_trajectory(task, drop)).reward == 1.0 for task in tasks])


def changing(tasks: dict[str, Task]) -> list[Task]:
    """Those in which something has to be changed."""
    return [
        task
        for task in tasks.values()
        if any(changes_something(task.domain, action) for action in golden_actions(task))
    ]


@pytest.mark.parametrize(("domain", "number"), [("airline", 50), ("retail", 114), ("telecom", 114)])
async def test_the_golden_actions_pass_every_task(tasks: Tasks, domain: str, number: int) -> None:
    assert len(tasks(domain)) == number
    assert await passing(tasks(domain).values()) == number


@pytest.mark.parametrize(("domain", "floor"), [("airline", 19), ("retail", 7), ("telecom", 0)])
async def test_an_agent_that_does_nothing_passes_so_many(tasks: Tasks, domain: str, floor: int) -> None:
    assert await passing(tasks(domain).values(), "all") == floor


@pytest.mark.parametrize("drop", ["first", "last"])
@pytest.mark.parametrize(("domain", "number"), [("airline", 30), ("telecom", 94)])
async def test_without_one_of_its_changes_no_task_passes(tasks: Tasks, domain: str, number: int, drop: str) -> None:
    to_change = changing(tasks(domain))
    assert len(to_change) == number
    assert await passing(to_change, drop) == 0


@pytest.mark.parametrize(("drop", "idle"), [("first", {12, 13, 22, 64, 105}), ("last", {12, 105})])
async def test_in_five_tasks_of_retail_a_golden_change_is_without_effect(
    tasks: Tasks, drop: str, idle: set[int]
) -> None:
    """A fault of the data, which docs/benchmarks.md tells of. Every tenth of the other tasks stands for them."""
    of_retail = tasks("retail")
    without = {f"retail_{number}": of_retail.pop(f"retail_{number}") for number in idle}
    assert await passing(without.values(), drop) == len(idle)
    assert await passing(changing(of_retail)[::10], drop) == 0


async def test_one_task_of_mock_wants_a_change_and_names_no_action_that_makes_it(tasks: Tasks) -> None:
    """A gap of the data, which docs/benchmarks.md tells of: the golden actions pass 8 of 9."""
    of_mock = tasks("mock")
    assert await passing(of_mock.values()) == 8
    task = of_mock["mock_update_task_with_history_and_env_assertions"]
    assert not golden_actions(task)
    change = {"id": "call_9", "name": "update_task_status", "arguments": {"task_id": "task_2", "status": "completed"}}
    world = World("mock", task_of(task.task))
    result = await world.call("assistant", "call_9", "update_task_status", change["arguments"])
    *history, words, stop = await golden_trajectory(task)
    called = {"role": "assistant", "tool_calls": [change]}
    answered = {"role": "tool", "id": "call_9", "content": result.told}
    assert verdict_on(task, [*history, called, answered, words, stop]) == Verdict(1.0, {"env_assertion": 1.0})


async def test_words_count_where_the_task_wants_some(tasks: Tasks) -> None:
    task = tasks("airline")["airline_3"]
    *calls, words, stop = await golden_trajectory(task)
    assert verdict_on(task, [*calls, words, stop]) == Verdict(1.0, {"db": 1.0, "communicate": 1.0})
    silent = {**words, "content": "That is done."}
    assert verdict_on(task, [*calls, silent, stop]) == Verdict(0.0, {"db": 1.0, "communicate": 0.0})


async def test_the_parts_of_a_reward_are_those_that_the_task_is_made_of(tasks: Tasks) -> None:
    wanted = {row["id"]: set(row["basis"].lower().split(" + ")) for row in rows("telecom")}
    for id, task in list(tasks("telecom").items())[::10]:
        assert set(verdict_on(task, await golden_trajectory(task)).parts) == wanted[id]
    assert Counter(row["basis"] for row in rows("telecom")) == {"ENV_ASSERTION": 94, "ACTION + ENV_ASSERTION": 20}


async def test_no_task_of_the_package_is_rewarded_for_what_only_a_model_could_judge() -> None:
    everything = base() + telecom_full() + mock()
    assert len(everything) == 278 + 2285 + 9
    assert not any("NL_ASSERTION" in row["basis"] for row in everything)


async def test_a_task_that_is_would_not_be_judged_in_silence(tasks: Tasks) -> None:
    task = tasks("mock")["mock_create_task_1"]
    criteria = {**task.task["evaluation_criteria"], "reward_basis": ["DB", "NL_ASSERTION"]}
    judged_by_a_model = Task(task.domain, {**task.task, "evaluation_criteria": criteria})
    with pytest.raises(GraderError, match="NL assertions are part of the reward basis"):
        await judge(judged_by_a_model, await golden_trajectory(task))


async def test_verdicts_are_made_in_reward_processes_many_at_once_and_do_not_see_each_other(tasks: Tasks) -> None:
    some = list(tasks("airline").values())[:8] + list(tasks("telecom").values())[:8]
    to_change = [task for task in some if task in changing({"": task})]
    right = [await golden_trajectory(task) for task in some]
    wrong = [await golden_trajectory(task, "last") for task in to_change]
    verdicts = await asyncio.gather(
        *(judge(task, one) for task, one in zip(to_change, wrong, strict=True)),
        *(judge(task, one) for task, one in zip(some, right, strict=True)),
    )
    assert [verdict.reward for verdict in verdicts] == [0.0] * len(to_change) + [1.0] * len(some)
    assert len(to_change) >= 8


async def test_an_episode_that_looks_at_a_bill_with_a_number_drawn_at_random_cannot_be_judged(tasks: Tasks) -> None:
    """Nor by the authors, who compare the results of a second play; no golden action makes such a bill."""
    task = next(iter(tasks("telecom").values()))
    world = World("telecom", task_of(task.task))
    refuel = {"customer_id": "C1002", "line_id": "L1004", "gb_amount": 1.0}  # a customer without an open bill
    trajectory: list[dict[str, Any]] = []
    for number, (name, arguments) in enumerate([("refuel_data", refuel), ("get_details_by_id", {"id": "C1002"})]):
        result = await world.call("assistant", f"c{number}", name, arguments)
        trajectory += [
            {"role": "assistant", "tool_calls": [{"id": f"c{number}", "name": name, "arguments": arguments}]},
            {"role": "tool", "id": f"c{number}", "content": result.told},
        ]
    assert not result.error
    with pytest.raises(ValueError, match="Expected"):
        verdict_on(task, trajectory)


async def test_nothing_is_imported_that_asks_a_model() -> None:
    assert "litellm" not in sys.modules
    assert "tau2.registry" not in sys.modules
