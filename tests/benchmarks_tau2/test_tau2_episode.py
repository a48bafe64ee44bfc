"""The episode by itself: what each of the two models is sent, and what becomes of what it answers."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import httpx2
import pytest
import pytest_asyncio

from agentflow.errors import UsageError
from agentflow.rewards import AsyncRewardWrapper
from agentflow.workflows import MaxTurnsExceeded
from benchmarks.tau2 import world
from benchmarks.tau2.agent import Tau2
from benchmarks.tau2.data import rows
from benchmarks.tau2.speaker import NothingSaidError
from tests.scripted import Ask, Server, chat, scripted, tool_call

pytestmark = [pytest.mark.tau2, pytest.mark.asyncio]

Answer = Callable[[Ask], dict[str, Any]]


@pytest_asyncio.fixture
async def client() -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(trust_env=False) as one:
        yield one


def row(id: str) -> dict[str, Any]:
    return next(row for row in rows(id.partition("_")[0]) if row["id"] == id)


async def play(server: Server, client: httpx2.AsyncClient, id: str, **options: Any) -> dict[str, float]:
    return await Tau2(**options).run(row(id), base_url=f"{server.url}/v1", api_key="k", http_client=client)


def both(agent: Sequence[Any], user: Sequence[Any]) -> Answer:
    """Each side says one thing after the other, and then its last thing for ever: words, or a list of calls."""
    lines = {"default": list(agent), "user": list(user)}

    def answer(ask: Ask) -> dict[str, Any]:
        mine = lines[ask.body["model"]]
        said = mine.pop(0) if len(mine) > 1 else mine[0]
        return chat(said) if isinstance(said, str | None) else chat(None, tool_calls=said)

    return answer


def asked(server: Server, model: str) -> list[dict[str, Any]]:
    return [ask.body for ask in server.asks if ask.body["model"] == model]


def heard(body: dict[str, Any]) -> list[tuple[str, str]]:
    return [(message["role"], message.get("content") or "") for message in body["messages"][1:]]


CREATE = tool_call("create_task", {"user_id": "user_1", "title": "Important Meeting"}, "c1")


async def test_the_agent_greets_the_user_begins_and_each_is_the_assistant_of_its_own_model(
    client: httpx2.AsyncClient,
) -> None:
    async with scripted(both([[CREATE], "Done."], ["A meeting, please.", "Thanks. ###STOP###"])) as server:
        came = await play(server, client, "mock_create_task_1")
    first, last = asked(server, "user")
    assert heard(first) == [("user", "Hi! How can I help you today?")]
    assert heard(last)[1:] == [("assistant", "A meeting, please."), ("user", "Done.")]
    assert "User Simulation Guidelines" in first["messages"][0]["content"]
    assert "Create a new task called 'Important Meeting' for user_1." in first["messages"][0]["content"]
    assert "tools" not in first, "the user of this domain has none"
    begin, after_call = asked(server, "default")
    assert heard(begin) == [("assistant", "Hi! How can I help you today?"), ("user", "A meeting, please.")]
    assert begin["messages"][0]["content"].startswith("<instructions>\nYou are a customer service agent")
    assert "<policy>" in begin["messages"][0]["content"]
    assert {tool["function"]["name"] for tool in begin["tools"]} >= {"create_task", "update_task_status"}
    assert json.loads(heard(after_call)[-1][1])["title"] == "Important Meeting"
    assert came == {
        "reward": 1.0, "db": 1.0, "communicate": 1.0, "transferred": 0.0, "out_of_scope": 0.0, "too_many_errors": 0.0,
        "steps": 5, "user_turns": 2, "user_tool_calls": 0, "tool_errors": 0,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("words", "metric"),
    [("###TRANSFER###", "transferred"), ("I do not know. ###OUT-OF-SCOPE###", "out_of_scope"), ("###STOP###", "")],
)
async def test_the_user_ends_the_conversation_with_any_of_three_words(
    client: httpx2.AsyncClient, words: str, metric: str
) -> None:
    async with scripted(both(["###STOP### is not the agent's to say."], ["Hello.", words])) as server:
        came = await play(server, client, "mock_create_task_1")
    assert (came["reward"], came["user_turns"], len(asked(server, "default"))) == (0.0, 2, 1)
    assert [name for name in ("transferred", "out_of_scope") if came[name]] == ([metric] if metric else [])


async def test_a_conversation_that_is_not_over_in_time_has_failed_also_with_its_last_words(
    client: httpx2.AsyncClient,
) -> None:
    async with scripted(both(["Yes?"], ["Hm."])) as server:
        with pytest.raises(MaxTurnsExceeded, match="not over after 7 steps"):
            await play(server, client, "mock_create_task_1", max_steps=7)
    assert len(server.asks) == 7
    for most, over in ((3, True), (4, False)):
        async with scripted(both(["Yes?"], ["Hm.", "###STOP###"])) as server:
            if over:
                with pytest.raises(MaxTurnsExceeded):
                    await play(server, client, "mock_create_task_1", max_steps=most)
            else:
                assert (await play(server, client, "mock_create_task_1", max_steps=most))["steps"] == 3


async def test_the_limit_waits_for_the_result_of_a_call(client: httpx2.AsyncClient) -> None:
    async with scripted(both([[CREATE]], ["Hm."])) as server:
        with pytest.raises(MaxTurnsExceeded):
            await play(server, client, "mock_create_task_1", max_steps=2)
    assert [ask.body["model"] for ask in server.asks] == ["user", "default"]


async def test_a_tool_that_fails_is_told_so_and_ten_failures_end_it(client: httpx2.AsyncClient) -> None:
    wrong = [tool_call("update_task_status", {"task_id": "no", "status": "completed"}, f"c{i}") for i in range(2)]
    async with scripted(both([wrong], ["Hm."])) as server:
        came = await play(server, client, "mock_create_task_1")
    assert (came["reward"], came["too_many_errors"], came["tool_errors"]) == (0.0, 1.0, 10)
    assert "db" not in came, "it was not evaluated"
    assert heard(asked(server, "default")[1])[-2:] == [("tool", "Error: Task no not found")] * 2


@pytest.mark.parametrize(
    "call",
    [
        tool_call("make_coffee", {}),
        tool_call("__class__", {}),
        tool_call("use_tool", {"tool_name": "create_task"}),
        tool_call("assert_task_status", {"task_id": "task_1", "expected_status": "pending"}),
        tool_call("create_task", {"requestor": "user", "tool_name": "x"}),
        tool_call("create_task", {"user_id": ["a"], "title": {"b": 1}}),
        tool_call("toggle_airplane_mode", {}),
    ],
    ids=lambda call: call["function"]["name"],
)
async def test_what_is_no_call_of_its_own_tools_is_an_error_that_the_model_is_told_and_the_evaluators_see(
    client: httpx2.AsyncClient, call: dict[str, Any]
) -> None:
    async with scripted(both([[call], [CREATE], "Done."], ["Hello.", "###STOP###"])) as server:
        came = await play(server, client, "mock_create_task_1")
    assert heard(asked(server, "default")[1])[-1][1].startswith("Error: ")
    assert (came["reward"], came["tool_errors"]) == (1.0, 1)


@pytest.mark.parametrize("arguments", ['{"user_id": ', "[1]", '{"a": NaN}'])
async def test_arguments_that_are_no_object_are_an_error_and_are_not_sent_back(
    client: httpx2.AsyncClient, arguments: str
) -> None:
    broken = {"id": "b", "type": "function", "function": {"name": "create_task", "arguments": arguments}}
    async with scripted(both([[broken, CREATE], "Done."], ["Hello.", "###STOP###"])) as server:
        came = await play(server, client, "mock_create_task_1")
    sent = asked(server, "default")[1]["messages"]
    assert sent[-3]["tool_calls"][0]["function"]["arguments"] == "{}"
    assert [message["tool_call_id"] for message in sent[-2:]] == ["b", "c1"]
    assert "no JSON object" in sent[-2]["content"]
    assert (came["reward"], came["tool_errors"]) == (1.0, 1), "the other call of the message was made"


async def test_an_empty_answer_is_asked_for_again_three_times_and_then_the_episode_has_failed(
    client: httpx2.AsyncClient,
) -> None:
    async with scripted(both(["", None, " ", "Done."], ["Hello.", "###STOP###"])) as server:
        await play(server, client, "mock_create_task_1")
    assert len(asked(server, "default")) == 4
    async with scripted(both([None], ["Hello."])) as server:
        with pytest.raises(NothingSaidError, match="The agent answered 4 times"):
            await play(server, client, "mock_create_task_1")
    async with scripted(both([None], [""])) as server:
        with pytest.raises(NothingSaidError, match="The simulated user answered 4 times"):
            await play(server, client, "mock_create_task_1")


async def test_a_conversation_that_has_begun_already_goes_on_where_it_was(client: httpx2.AsyncClient) -> None:
    update = tool_call("update_task_status", {"task_id": "task_2", "status": "completed"})
    async with scripted(both([[update], "Done."], ["Mark it as completed.", "###STOP###"])) as server:
        came = await play(server, client, "mock_update_task_with_message_history")
    assert came["reward"] == 1.0
    first = asked(server, "user")[0]
    assert [role for role, _ in heard(first)] == ["assistant", "user"], "calls of the agent are not the user's to see"
    roles = [role for role, _ in heard(asked(server, "default")[0])]
    assert roles == ["user", "assistant", "tool", "assistant", "user"]


async def test_in_telecom_the_user_has_tools_and_neither_sees_the_others_calls(client: httpx2.AsyncClient) -> None:
    task = next(row["id"] for row in rows("telecom") if row["issue"] == "mobile_data_issue")
    look, change = tool_call("check_network_status", {}, "u1"), tool_call("toggle_airplane_mode", {}, "u2")
    foreign = tool_call("toggle_airplane_mode", {}, "a1")
    user = ["It is slow.", [look, change], "I did.", "###STOP###"]
    async with scripted(both(["Please look.", [foreign], "Bye."], user)) as server:
        came = await play(server, client, task)
    assert (came["user_tool_calls"], came["user_turns"], came["tool_errors"]) == (2, 3, 1)
    asks = asked(server, "user")
    assert "You have some tools" in asks[0]["messages"][0]["content"]
    assert len(asks[0]["tools"]) == 30
    assert [role for role, _ in heard(asks[2])] == ["user", "assistant", "user", "assistant", "tool", "tool"]
    last = asked(server, "default")[-1]
    assert [role for role, _ in heard(last)] == ["assistant", "user", "assistant", "user", "assistant", "tool"]
    assert heard(last)[-1][1] == "Error: Tool 'toggle_airplane_mode' not found."


async def test_arithmetic_without_end_is_cut_off_and_kept_from_the_evaluators(
    client: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    impatient = AsyncRewardWrapper("benchmarks.tau2.arithmetic:calculate", timeout=3.0)  # enough for 1 + 1
    monkeypatch.setattr(world, "_in_a_process", impatient)
    calls = [tool_call("calculate", {"expression": e}, f"c{i}") for i, e in enumerate(("9**9**9**9", "1 + 1", "2 +"))]
    async with scripted(both([calls, "No."], ["Hello.", "###STOP###"])) as server:
        came = await play(server, client, "airline_0")
    endless, two, wrong = heard(asked(server, "default")[1])[-3:]
    assert endless[1] == "Error: calculate took too long or too much memory"
    assert two[1] == "2.0"
    assert wrong[1].startswith("Error: ")
    assert (came["reward"], came["tool_errors"]) == (1.0, 2), "a task that wants nothing to be changed"


async def test_two_episodes_do_not_see_each_others_database(client: httpx2.AsyncClient) -> None:
    async with scripted(both([[CREATE], "Done."], ["Hello.", "###STOP###"])) as server:
        assert (await play(server, client, "mock_create_task_1"))["reward"] == 1.0
    async with scripted(both(["Done."], ["Hello.", "###STOP###"])) as server:
        assert (await play(server, client, "mock_create_task_1"))["reward"] == 0.0


async def test_a_row_of_other_data_is_refused_with_the_name_of_the_right_one(client: httpx2.AsyncClient) -> None:
    async with scripted() as server:
        with pytest.raises(UsageError, match="--data tau2:retail"):
            await Tau2().run({"question": "?"}, base_url=f"{server.url}/v1", api_key="k", http_client=client)
