"""The episode by itself: what is sent to a model, and what becomes of what it answers."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import httpx2
import pytest
import pytest_asyncio

from agentflow.errors import UsageError
from agentflow.workflows import MaxTurnsExceeded
from benchmarks.bfcl.agent import Bfcl
from benchmarks.bfcl.data import rows
from benchmarks.bfcl.package import handover_prompt
from tests.scripted import Ask, Server, chat, scripted, tool_call

pytestmark = pytest.mark.bfcl

Play = Callable[..., Any]


@pytest_asyncio.fixture
async def client() -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient() as one:
        yield one


async def play(server: Server, client: httpx2.AsyncClient, row: dict[str, Any], **options: Any) -> dict[str, float]:
    return await Bfcl(**options).run(row, base_url=f"{server.url}/v1", api_key="k", http_client=client)


def asked(server: Server) -> Sequence[Ask]:
    return [ask for ask in server.asks if ask.path.endswith("/chat/completions")]


@pytest.mark.asyncio
async def test_a_model_that_never_calls_is_asked_once_a_turn_and_gets_nothing(client: httpx2.AsyncClient) -> None:
    row = rows("multi_turn_base")[0]
    async with scripted(lambda ask: chat("I would rather not.")) as server:
        came = await play(server, client, row)
    assert (came["reward"], came["turn_without_calls"], came["steps"]) == (0.0, 1.0, 0)
    roles = [[message["role"] for message in ask.body["messages"]] for ask in asked(server)]
    assert roles == [["user", "assistant"] * turn + ["user"] for turn in range(4)]


@pytest.mark.asyncio
async def test_a_missing_function_comes_with_the_packages_own_words(client: httpx2.AsyncClient) -> None:
    row = rows("multi_turn_miss_func")[0]
    async with scripted(lambda ask: chat("Hm.")) as server:
        await play(server, client, row)
    offered = [{tool["function"]["name"] for tool in ask.body["tools"]} for ask in asked(server)]
    assert [("sort" in names) for names in offered] == [False, False, False, True, True]
    assert asked(server)[3].body["messages"][-1] == {"role": "user", "content": handover_prompt()}


@pytest.mark.asyncio
async def test_parallel_calls_are_made_in_order_and_answered_by_id(client: httpx2.AsyncClient) -> None:
    calls = [tool_call("cd", {"folder": "document"}, "a"), tool_call("pwd", {}, "b"), tool_call("fly", {}, "c")]

    def answer(ask: Ask) -> dict[str, Any]:
        return chat("Done.") if ask.body["messages"][-1]["role"] == "tool" else chat(None, tool_calls=calls)

    async with scripted(answer) as server:
        await play(server, client, rows("multi_turn_base")[0])
    *_, a, b, c = asked(server)[1].body["messages"]
    assert [m["tool_call_id"] for m in (a, b, c)] == ["a", "b", "c"]
    assert json.loads(b["content"]) == {"current_working_directory": "/workspace/document"}
    assert c["content"] == "Error during execution: name 'fly' is not defined"


@pytest.mark.asyncio
async def test_arguments_that_cannot_be_read_end_the_turn_and_every_call_still_has_its_answer(
    client: httpx2.AsyncClient,
) -> None:
    broken = {"id": "b", "type": "function", "function": {"name": "pwd", "arguments": '{"a": '}}

    def answer(ask: Ask) -> dict[str, Any]:
        return chat(None, tool_calls=[tool_call("mkdir", {"dir_name": "new"}, "a"), broken])

    async with scripted(answer) as server:
        came = await play(server, client, rows("multi_turn_base")[0])
    assert (came["reward"], came["undecodable"], came["steps"]) == (0.0, 4, 0)
    messages = asked(server)[-1].body["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant", "tool", "tool"] * 3 + ["user"]
    sent = [call["function"]["arguments"] for call in messages[1]["tool_calls"]]
    assert sent == ['{"dir_name": "new"}', "{}"], "engines refuse to read the broken ones again"


@pytest.mark.asyncio
async def test_calls_are_told_apart_without_ids_and_arguments_may_be_an_object(client: httpx2.AsyncClient) -> None:
    calls: list[dict[str, Any]] = [
        {"type": "function", "function": {"name": "cd", "arguments": {"folder": "document"}}},
        {"type": "function", "function": {"name": "pwd", "arguments": ""}},
    ]

    def answer(ask: Ask) -> dict[str, Any]:
        return chat("Done.") if ask.body["messages"][-1]["role"] == "tool" else chat(None, tool_calls=calls)

    async with scripted(answer) as server:
        await play(server, client, rows("multi_turn_base")[0])
    _, asking, one, two = asked(server)[1].body["messages"]
    assert [call["id"] for call in asking["tool_calls"]] == [m["tool_call_id"] for m in (one, two)]
    assert one["tool_call_id"] != two["tool_call_id"]
    assert [json.loads(call["function"]["arguments"]) for call in asking["tool_calls"]] == [{"folder": "document"}, {}]
    assert json.loads(two["content"]) == {"current_working_directory": "/workspace/document"}


@pytest.mark.asyncio
async def test_a_turn_may_have_20_steps_with_calls_and_not_one_more(client: httpx2.AsyncClient) -> None:
    def steps(most: int) -> Callable[[Ask], dict[str, Any]]:
        def answer(ask: Ask) -> dict[str, Any]:
            since_user = [m["role"] for m in ask.body["messages"]][::-1].index("user") // 2
            return chat("Done.") if since_user >= most else chat(None, tool_calls=[tool_call("pwd", {})])

        return answer

    row = rows("multi_turn_base")[0]
    async with scripted(steps(20)) as server:
        assert (await play(server, client, row))["steps"] == 80
    async with scripted(steps(21)) as server:
        with pytest.raises(MaxTurnsExceeded, match="Turn 0 still has calls after 20 steps"):
            await play(server, client, row)


@pytest.mark.asyncio
async def test_a_row_of_other_data_is_refused_with_the_name_of_the_right_one(client: httpx2.AsyncClient) -> None:
    async with scripted() as server:
        with pytest.raises(UsageError, match="--data bfcl:multi_turn_base"):
            await play(server, client, {"question": "What is 1 + 1?", "answer": "2"})
