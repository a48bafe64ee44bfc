"""The simulated APIs as a model meets them: offered as tools, called with what it wrote."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from agentflow.rewards import AsyncRewardWrapper
from benchmarks.bfcl import simulation
from benchmarks.bfcl.calls import REFUSED
from benchmarks.bfcl.checker import Transcript, verdict_on
from benchmarks.bfcl.data import CATEGORIES
from benchmarks.bfcl.golden import golden_call
from benchmarks.bfcl.simulation import Simulation
from benchmarks.bfcl.task import Task
from benchmarks.bfcl.tools import Toolbox

pytestmark = pytest.mark.bfcl

Tasks = Callable[[str], list[Task]]


def schemas(value: Any) -> Iterator[dict[str, Any]]:
    """All schemas in a schema."""
    yield value
    for inner in value.get("properties", {}).values():
        yield from schemas(inner)
    if "items" in value:
        yield from schemas(value["items"])


def test_tools_have_json_schemas_and_say_nothing_of_results(tasks: Tasks) -> None:
    functions = [entry["function"] for task in tasks("multi_turn_base") for entry in Toolbox(task).offered]
    assert {key for function in functions for key in function} == {"name", "description", "parameters"}
    types = {schema["type"] for function in functions for schema in schemas(function["parameters"])}
    assert types == {"object", "string", "number", "integer", "array", "boolean"}


def test_a_missing_function_is_offered_from_its_turn_on(tasks: Tasks) -> None:
    for task in tasks("multi_turn_miss_func"):
        tools, missing = Toolbox(task), {name for names in task.missed_function.values() for name in names}
        complete = {name for entry in Toolbox(without_missing(task)).offered for name in [entry["function"]["name"]]}
        for turn in range(len(task.question)):
            handed_over = tools.hand_over(turn)
            assert handed_over == (not task.question[turn])
            offered = {entry["function"]["name"] for entry in tools.offered}
            still_missing = {n for t, names in task.missed_function.items() if int(t) > turn for n in names}
            assert offered == complete - still_missing
        assert missing


def without_missing(task: Task) -> Task:
    return Task(task.id, task.question, task.initial_config, task.involved_classes, task.ground_truth)


@pytest.mark.asyncio
@pytest.mark.parametrize("category", CATEGORIES)
async def test_golden_calls_played_on_the_apis_come_out_as_the_calls_that_the_checker_wants(
    tasks: Tasks, category: str
) -> None:
    for task in tasks(category)[::10]:
        before = msgspec.json.encode(task)
        world = Simulation(task)
        transcript: Transcript = []
        for turn in task.ground_truth:
            step = []
            for source in turn:
                call = golden_call(source, task.involved_classes)
                told, made = await world.call(call.name, call.arguments)
                assert not told.startswith("Error during execution")
                step.append(made)
            transcript.append([step])
        assert msgspec.json.encode(task) == before, "the state that the APIs begin with is not theirs to change"
        assert verdict_on(task, transcript).valid


@pytest.mark.asyncio
async def test_two_episodes_of_a_task_do_not_see_each_other(tasks: Tasks) -> None:
    task = tasks("multi_turn_base")[0]
    one, other = Simulation(task), Simulation(task)
    await one.call("mkdir", {"dir_name": "mine"})
    assert "mine" in (await one.call("ls", {}))[0]
    assert "mine" not in (await other.call("ls", {}))[0]


@pytest.mark.asyncio
async def test_results_are_text_as_it_is_and_the_rest_as_json(tasks: Tasks) -> None:
    world = Simulation(tasks("multi_turn_base")[0])
    told, made = await world.call("cd", {"folder": "document"})
    assert json.loads(told) == {"current_working_directory": "document"}
    assert made == "cd(folder='document')"
    assert (await world.call("mkdir", {"dir_name": "x"}))[0] == "null"


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("format_disk", {}),
        ("_load_scenario", {"scenario": {}}),
        ("cd", {"folder=open('{file}', 'w'), x": "document"}),
        ("__class__", {}),
    ],
)
async def test_what_is_no_call_of_the_apis_is_told_to_the_model_and_never_run(
    tasks: Tasks, golden: Callable[[Task], Transcript], tmp_path: Path, name: str, arguments: dict[str, Any]
) -> None:
    trap = tmp_path / "trap"
    task = tasks("multi_turn_base")[0]
    arguments = {key.replace("{file}", str(trap)): value for key, value in arguments.items()}
    told, made = await Simulation(task).call(name, arguments)
    assert told.startswith("Error during execution")
    assert made == REFUSED
    transcript = golden(task)
    transcript[0].insert(0, [made])
    assert verdict_on(task, transcript).valid, "the call failed and changed nothing, as the checker sees too"
    assert not trap.exists()


@pytest.mark.asyncio
async def test_an_unknown_argument_fails_as_it_does_in_the_packages_executor(tasks: Tasks) -> None:
    told, made = await Simulation(tasks("multi_turn_base")[0]).call("ls", {"long": True})
    assert "unexpected keyword argument 'long'" in told
    assert made == "ls(long=True)"


@pytest.mark.asyncio
async def test_arithmetic_without_end_is_cut_off_and_kept_from_the_checker(
    tasks: Tasks, monkeypatch: pytest.MonkeyPatch
) -> None:
    impatient = AsyncRewardWrapper("benchmarks.bfcl.simulation:call_stateless", timeout=0.5)
    monkeypatch.setattr(simulation, "_in_a_process", impatient)
    task = next(task for task in tasks("multi_turn_base") if "MathAPI" in task.involved_classes)
    told, made = await Simulation(task).call("power", {"base": 10, "exponent": 10**9})
    assert "took too long" in told
    assert made == REFUSED


@pytest.mark.asyncio
async def test_a_number_too_long_to_be_written_is_an_error_that_the_model_is_told(tasks: Tasks) -> None:
    task = next(task for task in tasks("multi_turn_base") if "MathAPI" in task.involved_classes)
    told, made = await Simulation(task).call("power", {"base": 10, "exponent": 10_000})
    assert told.startswith("Error during execution: Exceeds the limit")
    assert made == "power(base=10, exponent=10000)"


@pytest.mark.asyncio
async def test_a_text_that_contains_a_call_arrives_in_the_checker_as_it_was_written(tasks: Tasks) -> None:
    """The package's executor puts an object's name before each call that it finds, also within a string."""
    task = next(t for t in tasks("multi_turn_base") if "GorillaFileSystem" in t.involved_classes)
    world = Simulation(task)
    _, new = await world.call("touch", {"file_name": "note.txt"})
    _, made = await world.call("echo", {"content": "then sort(x) it", "file_name": "note.txt"})
    told, read = await world.call("cat", {"file_name": "note.txt"})
    assert "then sort(x) it" in told
    golden = ["touch('note.txt')", r"echo('then sort\x28x) it', 'note.txt')", "cat('note.txt')"]
    assert verdict_on(task_with_golden(task, [golden]), [[[new], [made], [read]]]).valid


def task_with_golden(task: Task, golden: list[list[str]]) -> Task:
    return Task(task.id, task.question[:1], task.initial_config, task.involved_classes, golden)


@pytest.mark.asyncio
async def test_an_episode_does_not_see_whom_another_one_mentioned(tasks: Tasks) -> None:
    (task,) = [task for task in tasks("multi_turn_base") if task.id == "multi_turn_base_147"]
    for _ in range(2):
        world = Simulation(task)
        told, _ = await world.call("post_tweet", {"content": "Hi"})
        assert json.loads(told)["mentions"] == []
        await world.call("mention", {"tweet_id": json.loads(told)["id"], "mentioned_usernames": ["@a"]})
