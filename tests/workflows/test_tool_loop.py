"""ToolWorkflow: Python functions as tools, their errors told to the model."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import os
import sys
import threading
from collections.abc import Iterator
from datetime import date
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal

import cloudpickle
import httpx2
import numpy as np
import pytest
from pydantic import BaseModel, Field

from agentflow.agents.failures import ending_of_exception
from agentflow.episode import Kind
from agentflow.errors import UsageError
from agentflow.rewards import exact_match
from agentflow.workflows import MaxTurnsExceeded, ToolWorkflow
from agentflow.workflows.function_tool import FunctionTool, functions_of
from tests.scripted import Answer, Ask, chat, scripted, tool_call

ROW = {"messages": [{"role": "user", "content": "What is 2 + 2?"}], "answer": "4"}


def add(a: float, b: Annotated[float, Field(description="the second")] = 1, mode: Literal["x", "y"] = "x") -> float:
    """Add two numbers.

    The sum is exact.
    """
    return a + b


def divide(a: float, b: float) -> float:
    """Divide."""
    return a / b


async def play(workflow: ToolWorkflow, *answers: Answer) -> tuple[float, list[dict[str, Any]]]:
    """The reward, and the bodies of all calls, when the model gives these answers one after the other."""
    rest: Iterator[Answer] = iter(answers)

    def answer(ask: Ask) -> Answer:
        return next(rest)

    async with scripted(answer) as server, httpx2.AsyncClient() as client:
        reward = await workflow.run(ROW, base_url=server.url, api_key="k", http_client=client)
        return reward, [ask.body for ask in server.asks]


def calling(*calls: tuple[str, Any]) -> Answer:
    return chat(None, tool_calls=[tool_call(name, given, id=f"id-{i}") for i, (name, given) in enumerate(calls)])


async def told(tools: Any, *calls: tuple[str, Any]) -> list[str]:
    """What the model is told after these calls in one message."""
    _, bodies = await play(ToolWorkflow(tools, exact_match), calling(*calls), chat("4"))
    results = bodies[1]["messages"][2:]
    assert [m["role"] for m in results] == ["tool"] * len(calls)
    assert [m["tool_call_id"] for m in results] == [f"id-{i}" for i in range(len(calls))]
    return [m["content"] for m in results]


def test_a_tools_schema_is_its_signature_and_its_description_the_docstring() -> None:
    assert FunctionTool(add).schema == {
        "type": "function",
        "function": {
            "name": "add",
            "description": "Add two numbers.\n\nThe sum is exact.",
            "parameters": {
                "type": "object",
                "additionalProperties": False,
                "properties": {
                    "a": {"title": "A", "type": "number"},
                    "b": {"title": "B", "type": "number", "description": "the second", "default": 1},
                    "mode": {"title": "Mode", "type": "string", "enum": ["x", "y"], "default": "x"},
                },
                "required": ["a"],
            },
        },
    }


@pytest.mark.asyncio
async def test_the_loop_runs_tools_until_the_model_answers_in_words() -> None:
    workflow = ToolWorkflow([add, divide], exact_match)
    reward, bodies = await play(
        workflow, calling(("add", {"a": 2, "b": 2})), calling(("divide", {"a": 4, "b": 1})), chat("4")
    )
    assert reward == 1.0
    assert [t["function"]["name"] for t in bodies[0]["tools"]] == ["add", "divide"]
    assert [m["role"] for m in bodies[2]["messages"]] == ["user", "assistant", "tool", "assistant", "tool"]


@pytest.mark.asyncio
async def test_arguments_are_turned_into_the_types_that_the_signature_says() -> None:
    assert await told(add, ("add", {"a": "2", "b": 2})) == ["4.0"]


@pytest.mark.asyncio
async def test_whatever_goes_wrong_in_a_call_is_told_to_the_model_and_the_episode_goes_on() -> None:
    said = await told(
        [add, divide],
        ("divide", {"a": 1, "b": 0}),
        ("subtract", {}),
        ("add", {"a": "two"}),
        ("add", {"c": 1}),
        ("add", [1]),
        ("add", {"a": 1}),
    )
    assert said[0] == "Error: ZeroDivisionError: float division by zero"
    assert said[1] == "Error: there is no tool 'subtract'; there are add, divide."
    assert "a: Input should be a valid number" in said[2]
    assert "a: Missing required argument" in said[3]
    assert "must be a JSON object" in said[4]
    assert said[5] == "2.0"


@pytest.mark.parametrize("written", ['{"a": 1,', "[" * 100_000])
@pytest.mark.asyncio
async def test_arguments_that_are_no_json_are_told_to_the_model(written: str) -> None:
    call = tool_call("add", {})
    call["function"]["arguments"] = written
    _, bodies = await play(ToolWorkflow(add, exact_match), chat(None, tool_calls=[call]), chat("4"))
    asked, told = bodies[1]["messages"][-2:]
    assert told["content"] == f"Error: the arguments must be a JSON object, and these are not: {written[:300]}"
    assert asked["tool_calls"][0]["function"]["arguments"] == "{}"  # engines refuse a conversation with half an object


@pytest.mark.asyncio
async def test_a_call_that_the_token_limit_cut_off_says_so_to_the_model() -> None:
    call = tool_call("add", {})
    call["function"]["arguments"] = '{"a": 12'
    cut = chat(None, tool_calls=[call], finish_reason="length")
    reward, bodies = await play(ToolWorkflow(add, exact_match), cut, chat("4"))
    assert "cut off: your message reached its token limit" in bodies[1]["messages"][-1]["content"]
    assert reward == 1.0


@pytest.mark.asyncio
async def test_calls_without_an_id_or_with_the_same_get_ids_of_their_own() -> None:
    calls = [tool_call("add", {"a": n}, id="same") for n in range(3)]
    del calls[2]["id"]
    _, bodies = await play(ToolWorkflow(add, exact_match), chat(None, tool_calls=calls), chat("4"))
    asked, *results = bodies[1]["messages"][1:]
    ids = [call["id"] for call in asked["tool_calls"]]
    assert len(set(ids)) == 3
    assert [(r["tool_call_id"], r["content"]) for r in results] == list(zip(ids, ["1.0", "2.0", "3.0"], strict=True))


@pytest.mark.asyncio
async def test_arguments_that_an_engine_has_parsed_already_are_taken() -> None:
    call = tool_call("add", {})
    call["function"]["arguments"] = {"a": 3}
    _, bodies = await play(ToolWorkflow(add, exact_match), chat(None, tool_calls=[call]), chat("4"))
    asked, told = bodies[1]["messages"][-2:]
    assert (asked["tool_calls"][0]["function"]["arguments"], told["content"]) == ('{"a": 3}', "4.0")


@pytest.mark.asyncio
async def test_an_answer_in_parts_is_their_text() -> None:
    answer = chat("")
    answer["choices"][0]["message"]["content"] = [{"type": "text", "text": "4"}]
    reward, _ = await play(ToolWorkflow(add, exact_match), answer)
    assert reward == 1.0


@pytest.mark.asyncio
async def test_a_tool_that_exits_ends_nothing_but_its_call() -> None:
    def leave() -> None:
        sys.exit(3)

    async def leave_later() -> None:
        sys.exit(4)

    said = await told([leave, leave_later], ("leave", {}), ("leave_later", {}))
    assert said == ["Error: SystemExit: 3", "Error: SystemExit: 4"]


@pytest.mark.asyncio
async def test_no_error_of_a_tool_and_no_text_of_it_ends_the_episode() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise ValueError("no text")

    def mute() -> None:
        raise Mute

    async def cancelled() -> None:
        task = asyncio.create_task(asyncio.sleep(3600))
        task.cancel()
        await task

    def name_of_a_file() -> str:
        return os.fsdecode(b"caf\xe9.txt")

    said = await told([mute, cancelled, name_of_a_file], ("mute", {}), ("cancelled", {}), ("name_of_a_file", {}))
    assert said == ["Error: Mute", "Error: CancelledError: ", "caf?.txt"]


class Colour(Enum):
    RED = "red"


@dataclasses.dataclass
class Place:
    x: int
    tags: list[str] = dataclasses.field(default_factory=list)


@pytest.mark.asyncio
async def test_arguments_of_every_sort_of_type_hint() -> None:
    def every(
        colour: Colour, place: Place, rows: list[dict[str, int]], maybe: int | None = None, *, at: date, **more: int
    ) -> Any:
        return [type(colour).__name__, place, rows, maybe, at, more]

    given = {"colour": "red", "place": {"x": "1"}, "rows": [{"a": 1}], "at": "2026-01-02", "z": 5}
    assert await told(every, ("every", given)) == [
        '["Colour",{"x":1,"tags":[]},[{"a":1}],null,"2026-01-02",{"z":5}]',
    ]


@pytest.mark.asyncio
async def test_results_of_numpy_models_and_hidden_coroutines() -> None:
    class Model(BaseModel):
        a: int

    def decorated(fn: Any) -> Any:
        @functools.wraps(fn)
        def wrapper() -> Any:
            return fn()

        del wrapper.__wrapped__  # as a decorator leaves it that does not use functools.wraps
        return wrapper

    async def hidden() -> str:
        return "awaited"

    def numbers() -> Any:
        return [np.float64(0.5), np.array([1, 2]), float("nan"), {1}]

    def model() -> Any:
        return Model(a=1)

    said = await told([numbers, model, decorated(hidden)], ("numbers", {}), ("model", {}), ("hidden", {}))
    assert said == ['[0.5,[1,2],"NaN",[1]]', '{"a":1}', "awaited"]


@pytest.mark.asyncio
async def test_calls_of_one_message_run_side_by_side_in_threads_and_on_the_loop() -> None:
    barrier = threading.Barrier(2, timeout=30)
    meeting: dict[str, asyncio.Event] = {"first": asyncio.Event(), "second": asyncio.Event()}

    def blocking(n: int) -> str:
        barrier.wait()  # only when both are running
        return f"met {n}"

    async def waiting(mine: str, other: str) -> str:
        meeting[mine].set()
        await asyncio.wait_for(meeting[other].wait(), 30)
        return mine

    said = await told(
        [blocking, waiting],
        ("blocking", {"n": 1}),
        ("waiting", {"mine": "first", "other": "second"}),
        ("blocking", {"n": 2}),
        ("waiting", {"mine": "second", "other": "first"}),
    )
    assert said == ["met 1", "first", "met 2", "second"]


@pytest.mark.asyncio
async def test_results_that_are_no_text_are_told_as_json() -> None:
    def look() -> dict[str, Any]:
        return {"found": [1, None], "where": Path("/x")}

    assert await told(look, ("look", {})) == ['{"found":[1,null],"where":"/x"}']


@pytest.mark.asyncio
async def test_a_model_that_never_stops_calling_fails_with_the_kind_max_turns() -> None:
    call = calling(("add", {"a": 1}))
    with pytest.raises(MaxTurnsExceeded, match="after 2 steps") as raised:
        await play(ToolWorkflow(add, exact_match, max_steps=2), call, call, call)
    assert ending_of_exception(raised.value).kind is Kind.MAX_TURNS


def test_a_file_gives_its_own_public_functions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "some_tools.py").write_text(
        "from __future__ import annotations\nfrom os.path import join\nfrom typing import Annotated\n"
        "def one(a: Annotated[int, 'x']) -> int:\n    return a\n"
        "async def two() -> str:\n    return ''\n"
        "def _three(): ...\nVALUE = 3\n"
    )
    assert [f.__name__ for f in functions_of("some_tools.py")] == ["one", "two"]
    assert [f.__name__ for f in functions_of("some_tools.py:two")] == ["two"]
    assert [f.__name__ for f in functions_of("some_tools:one")] == ["one"]
    assert FunctionTool(functions_of("some_tools.py:one")[0]).schema["function"]["parameters"]["required"] == ["a"]
    with pytest.raises(UsageError, match="VALUE is no function"):
        functions_of("some_tools.py:VALUE")


def star(*numbers: float) -> float:
    return sum(numbers)


def positional(a: int, /) -> int:
    return a


def unknown(a: Nowhere) -> int:  # type: ignore[name-defined]  # noqa: F821
    return 1


@pytest.mark.parametrize(
    ("tools", "message"),
    [
        (None, "give tools .--tools on the command line"),
        (star, "star"),
        (positional, "positional-only"),
        (lambda a: a, "lambda.*write it as a def"),
        (unknown, "Nowhere"),
        ([add, add], "Two tools are called 'add'"),
        ("nowhere.py", "no file nowhere.py"),
        ("os.path", "cannot be described|positional-only"),
    ],
)
def test_what_cannot_be_a_tool_is_refused_when_the_agent_is_made(tools: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        ToolWorkflow(tools, exact_match)


@pytest.mark.asyncio
async def test_an_instance_can_be_sent_to_a_runner() -> None:
    def double(a: int) -> int:
        return 2 * a

    workflow = cloudpickle.loads(cloudpickle.dumps(ToolWorkflow(double, exact_match)))
    _, bodies = await play(workflow, calling(("double", {"a": 2})), chat("4"))
    assert bodies[1]["messages"][-1]["content"] == "4"
