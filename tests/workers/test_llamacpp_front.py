"""The embedded engine keeps the promises of the OpenAI API that llama.cpp alone does not."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import anyio
import pytest
import pytest_asyncio

from agentflow.workers.engines.llamacpp import LlamaCpp
from tests.workers.conftest import Endpoint, until

pytestmark = [pytest.mark.engine, pytest.mark.asyncio]

NUMBERS = {"type": "object", "properties": {"a": {"type": "number"}, "b": {"type": "number"}}, "required": ["a", "b"]}
TOOLS = [
    {"type": "function", "function": {"name": name, "description": f"{name} two numbers", "parameters": NUMBERS}}
    for name in ("add", "multiply")
]
QUESTION = [{"role": "user", "content": "What is 3 plus 4? Use the tool."}]


def earlier_calls() -> list[dict[str, Any]]:
    """A conversation after which even this model calls the tool by itself."""
    messages: list[dict[str, Any]] = []
    for a, b in ((3, 4), (5, 6), (10, 2), (7, 7)):
        call = {"name": "add", "arguments": json.dumps({"a": a, "b": b})}
        messages += [
            {"role": "user", "content": f"What is {a} plus {b}?"},
            {"role": "assistant", "tool_calls": [{"id": "c", "type": "function", "function": call}]},
            {"role": "tool", "tool_call_id": "c", "content": str(a + b)},
            {"role": "assistant", "content": str(a + b)},
        ]
    return [*messages, {"role": "user", "content": "What is 8 plus 9?"}]


class Client:
    def __init__(self, session: aiohttp.ClientSession) -> None:
        self.session = session

    async def post(self, path: str, **body: Any) -> tuple[int, Any]:
        async with self.session.post(path, json=body) as reply:
            return reply.status, await reply.json()

    async def chat(self, **body: Any) -> dict[str, Any]:
        status, reply = await self.post("/v1/chat/completions", **{"temperature": 0, **body})
        assert status == 200, reply
        return reply

    async def stream(self, **body: Any) -> list[dict[str, Any]]:
        sent = {"temperature": 0, "stream": True, **body}
        async with self.session.post("/v1/chat/completions", json=sent) as reply:
            assert reply.status == 200
            lines = (await reply.text()).strip().split("\n\n")
        assert lines[-1] == "data: [DONE]"
        return [json.loads(line.removeprefix("data: ")) for line in lines[:-1]]

    async def load(self) -> Any:
        async with self.session.get("/metrics") as reply:
            return LlamaCpp().load(await reply.text())

    async def idle(self) -> None:
        """Until nothing is worked on; fails when that does not come."""
        await self.works_on(0, waiting=0)

    async def works_on(self, running: int, waiting: int) -> None:
        async def as_said() -> bool:
            load = await self.load()
            return (load.running, load.waiting) == (running, waiting)

        await until(as_said)


@pytest_asyncio.fixture
async def client(engine: Endpoint) -> AsyncIterator[Client]:
    async with aiohttp.ClientSession(engine.url, headers=engine.headers) as session:
        yield Client(session)


async def test_everything_but_health_wants_the_key(engine: Endpoint) -> None:
    async with aiohttp.ClientSession(engine.url) as session:
        assert (await session.get("/health")).status == 200
        assert (await session.get("/metrics")).status == 401
        for headers in ({}, {"Authorization": "Bearer wrong"}):
            reply = await session.post("/v1/chat/completions", json={"messages": QUESTION}, headers=headers)
            assert reply.status == 401


async def test_the_model_goes_by_its_served_name(client: Client) -> None:
    async with client.session.get("/v1/models") as reply:
        assert [m["id"] for m in (await reply.json())["data"]] == ["smol"]


async def test_a_plain_reply_has_text_reason_and_usage(client: Client) -> None:
    reply = await client.chat(messages=QUESTION, max_tokens=5, logprobs=True, top_logprobs=2)
    assert reply["object"] == "chat.completion"
    assert reply["model"] == "smol"
    (choice,) = reply["choices"]
    assert choice["finish_reason"] == "length"
    assert choice["message"]["role"] == "assistant"
    assert len(choice["logprobs"]["content"]) == 5
    assert "".join(t["token"] for t in choice["logprobs"]["content"]) == choice["message"]["content"]
    assert reply["usage"]["completion_tokens"] == 5
    assert reply["usage"]["total_tokens"] == reply["usage"]["prompt_tokens"] + 5


async def test_a_stream_and_a_plain_reply_say_the_same(client: Client) -> None:
    await client.chat(messages=QUESTION, max_tokens=12)  # so that both find the prompt cached
    plain = await client.chat(messages=QUESTION, max_tokens=12)
    chunks = await client.stream(messages=QUESTION, max_tokens=12, stream_options={"include_usage": True})
    *texts, usage = chunks
    assert (
        "".join(c["choices"][0]["delta"].get("content") or "" for c in texts)
        == (plain["choices"][0]["message"]["content"])
    )
    assert usage["choices"] == []
    assert usage["usage"] == plain["usage"]


async def test_usage_is_in_a_stream_only_if_asked_for(client: Client) -> None:
    assert not any("usage" in c for c in await client.stream(messages=QUESTION, max_tokens=3))


async def test_usage_is_what_the_servers_own_counters_say(client: Client) -> None:
    await client.idle()
    before = await client.load()
    first = await client.chat(messages=QUESTION, max_tokens=7, n=3, seed=5, temperature=1)
    stream = await client.stream(messages=QUESTION, max_tokens=7, stream_options={"include_usage": True})
    status, listed = await client.post("/v1/completions", prompt=["One", "Two three"], max_tokens=4, temperature=0)
    assert status == 200
    await client.idle()
    after = await client.load()
    assert first["usage"]["completion_tokens"] == 21
    assert stream[-1]["usage"]["completion_tokens"] == 7
    assert listed["usage"]["completion_tokens"] == 8
    assert listed["usage"]["prompt_tokens"] == 3
    assert after.generated_tokens - before.generated_tokens == 21 + 7 + 8


async def test_several_choices_come_in_order_and_differ(client: Client) -> None:
    reply = await client.chat(messages=QUESTION, max_tokens=8, n=3, seed=1, temperature=1.5)
    assert [c["index"] for c in reply["choices"]] == [0, 1, 2]
    assert len({c["message"]["content"] for c in reply["choices"]}) == 3


async def test_several_streamed_choices_have_one_usage_at_the_end(client: Client) -> None:
    chunks = await client.stream(messages=QUESTION, max_tokens=3, n=2, stream_options={"include_usage": True})
    assert [i for i, c in enumerate(chunks) if "usage" in c] == [len(chunks) - 1]
    assert chunks[-1]["usage"]["completion_tokens"] == 6


async def test_completions_are_served_plain_and_streamed(client: Client) -> None:
    status, reply = await client.post("/v1/completions", prompt="The capital of France is", max_tokens=4, temperature=0)
    assert status == 200
    assert reply["object"] == "text_completion"
    assert reply["choices"][0]["finish_reason"] == "length"
    body = {"prompt": "The capital of France is", "max_tokens": 4, "temperature": 0, "stream": True}
    async with client.session.post("/v1/completions", json=body) as streamed:
        lines = (await streamed.text()).strip().split("\n\n")
    texts = [json.loads(line.removeprefix("data: "))["choices"][0]["text"] for line in lines[:-1]]
    assert "".join(texts) == reply["choices"][0]["text"]


@pytest.mark.parametrize("stream", [False, True])
async def test_context_overflow_is_a_400(client: Client, stream: bool) -> None:
    long = [{"role": "user", "content": "word " * 3000}]
    status, reply = await client.post("/v1/chat/completions", messages=long, stream=stream)
    assert status == 400
    assert "exceeds the available context size (1024 tokens)" in reply["error"]["message"]


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ({"messages": QUESTION, "tool_choice": "required"}, "needs at least one function"),
        ({"messages": QUESTION, "tools": TOOLS, "tool_choice": {"function": {"name": "sub"}}}, "names none of"),
        ({"messages": "hello"}, "must be a list"),
    ],
)
async def test_a_wrong_request_is_a_400_that_says_why(client: Client, body: dict[str, Any], sentence: str) -> None:
    status, reply = await client.post("/v1/chat/completions", **body)
    assert status == 400
    assert sentence in reply["error"]["message"]


async def test_a_model_that_makes_no_embeddings_says_so(client: Client) -> None:
    status, reply = await client.post("/v1/embeddings", input="hello")
    assert status == 400
    assert "makes no embeddings" in reply["error"]["message"]


NAMED = {"type": "function", "function": {"name": "multiply"}}


@pytest.mark.parametrize(("choice", "allowed"), [("required", {"add", "multiply"}), (NAMED, {"multiply"})])
async def test_a_forced_call_comes_plain_and_streamed(client: Client, choice: Any, allowed: set[str]) -> None:
    asked = {"messages": QUESTION, "tools": TOOLS, "tool_choice": choice, "max_tokens": 120, "stop": ["}", "\n"]}
    (plain,) = (await client.chat(**asked))["choices"]
    assert plain["finish_reason"] == "tool_calls"
    assert not plain["message"]["content"]
    (call,) = plain["message"]["tool_calls"]
    assert call["function"]["name"] in allowed
    assert set(json.loads(call["function"]["arguments"])) == {"a", "b"}

    chunks = await client.stream(**asked)
    assert chunks[0]["choices"][0]["delta"]["role"] == "assistant"
    deltas = [c["choices"][0]["delta"] for c in chunks]
    assert not any(d.get("content") for d in deltas)
    (streamed,) = [call for d in deltas for call in d.get("tool_calls", ())]
    assert streamed == {"index": 0, **call}  # the id too: the same request, the same call
    assert chunks[-1]["choices"][0]["finish_reason"] == "tool_calls"


async def test_a_forced_call_of_a_nested_schema_obeys_it(client: Client) -> None:
    point = {"type": "object", "properties": {"x": {"$ref": "#/$defs/Digit"}}, "required": ["x"]}
    schema = {
        "$defs": {"Point": point, "Digit": {"enum": [4, 5]}},
        "type": "object",
        "properties": {"point": {"$ref": "#/$defs/Point"}},
        "required": ["point"],
    }
    tools = [{"type": "function", "function": {"name": "move", "parameters": schema}}]
    tools.append({"type": "function", "function": {"name": "halt"}})
    asked = {"messages": QUESTION, "tools": tools, "max_tokens": 150}
    moved = await client.chat(**asked, tool_choice={"type": "function", "function": {"name": "move"}})
    arguments = json.loads(moved["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"])
    assert arguments in ({"point": {"x": 4}}, {"point": {"x": 5}})
    halted = await client.chat(**asked, tool_choice={"type": "function", "function": {"name": "halt"}})
    assert halted["choices"][0]["message"]["tool_calls"][0]["function"] == {"name": "halt", "arguments": "{}"}


@pytest.mark.parametrize("cut_at", [1, 8, 18])
async def test_a_forced_call_cut_off_is_a_truncation_and_no_call(client: Client, cut_at: int) -> None:
    asked = {"messages": QUESTION, "tools": TOOLS, "tool_choice": "required", "max_tokens": cut_at}
    (plain,) = (await client.chat(**asked))["choices"]
    assert plain["finish_reason"] == "length"
    assert "tool_calls" not in plain["message"]
    chunks = await client.stream(**asked)
    assert not any("tool_calls" in c["choices"][0]["delta"] for c in chunks)
    assert chunks[-1]["choices"][0]["finish_reason"] == "length"


async def test_a_call_of_the_models_own_will_comes_plain_and_streamed(client: Client) -> None:
    asked = {"messages": earlier_calls(), "tools": TOOLS, "max_tokens": 60}
    (plain,) = (await client.chat(**asked))["choices"]
    assert plain["finish_reason"] == "tool_calls"
    (call,) = plain["message"]["tool_calls"]
    assert json.loads(call["function"]["arguments"]) == {"a": 8, "b": 9}
    deltas = [c["choices"][0]["delta"] for c in await client.stream(**asked)]
    (streamed,) = [call for d in deltas for call in d.get("tool_calls", ())]
    assert json.loads(streamed["function"]["arguments"]) == {"a": 8, "b": 9}


async def test_a_call_of_the_models_own_will_cut_off_is_a_truncation_and_no_call(client: Client) -> None:
    asked = {"messages": earlier_calls(), "tools": TOOLS, "max_tokens": 18}
    (plain,) = (await client.chat(**asked))["choices"]
    assert plain["finish_reason"] == "length"
    assert "tool_calls" not in plain["message"]
    chunks = await client.stream(**asked)
    assert not any("tool_calls" in c["choices"][0]["delta"] for c in chunks)
    assert chunks[-1]["choices"][0]["finish_reason"] == "length"


async def test_tool_choice_none_gives_no_call(client: Client) -> None:
    reply = await client.chat(messages=earlier_calls(), tools=TOOLS, tool_choice="none", max_tokens=60)
    assert "tool_calls" not in reply["choices"][0]["message"]


async def test_broken_arguments_in_the_history_are_the_agents_fault(client: Client) -> None:
    call = {"id": "c", "type": "function", "function": {"name": "add", "arguments": '{"a": 3,'}}
    messages = [*QUESTION, {"role": "assistant", "tool_calls": [call]}]
    status, reply = await client.post("/v1/chat/completions", messages=messages)
    assert status == 400
    assert "add" in reply["error"]["message"]


@pytest.mark.parametrize("stream", [False, True])
async def test_an_agent_that_goes_away_stops_the_generation(client: Client, stream: bool) -> None:
    """Also those that wait for a slot; left alone these would take minutes."""
    await client.idle()
    body = {"messages": QUESTION, "max_tokens": 900, "ignore_eos": True, "stream": stream}
    before = await client.load()
    async with anyio.create_task_group() as tasks:
        for _ in range(6):
            tasks.start_soon(lambda: client.chat(**body))
        await client.works_on(4, waiting=2)
        tasks.cancel_scope.cancel()
    await client.idle()
    assert (await client.load()).generated_tokens - before.generated_tokens < 6 * 900 / 2


async def test_the_first_byte_of_a_stream_comes_before_its_end(client: Client) -> None:
    body = {"messages": QUESTION, "max_tokens": 900, "ignore_eos": True, "stream": True}
    async with client.session.post("/v1/chat/completions", json=body) as reply:
        first = await reply.content.readline()
        assert json.loads(first.removeprefix(b"data: "))["choices"][0]["delta"]["role"] == "assistant"
        assert (await client.load()).running == 1
    await client.idle()
