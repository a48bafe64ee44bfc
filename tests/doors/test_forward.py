"""What becomes of a request on its way, the same through both doors."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import msgspec
import openai
import pytest
from aiohttp import web
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI

from agentflow.channel.messages import MAX_CHUNK_BYTES, RoleSettings, ToolSchema, WorkerInfo
from agentflow.episode import Episode
from agentflow.runner.door import EpisodeDoor
from tests.doors.conftest import HouseMaker, lines
from tests.scripted import Answer, Ask, chat, chat_chunks, completion, error, send_events, tool_call, tool_loop, usage

pytestmark = pytest.mark.asyncio
DOORS = ["transport", "gateway"]
HI = [{"role": "user", "content": "hi"}]


@asynccontextmanager
async def client_of(door: EpisodeDoor, kind: str) -> AsyncIterator[httpx2.AsyncClient]:
    """The agent's end of a door: in process, or over the socket as any other program would come."""
    if kind == "transport":
        yield door.http_client()
        await door.aclose_clients()
    else:
        async with httpx2.AsyncClient(trust_env=False, timeout=30) as client:
            yield client


def sdk(door: EpisodeDoor, client: httpx2.AsyncClient) -> AsyncOpenAI:
    return AsyncOpenAI(base_url=door.base_url, api_key=door.api_key, http_client=client, max_retries=0)


@pytest.mark.parametrize("kind", DOORS)
async def test_unknown_fields_and_headers_are_forwarded_and_credentials_are_ours(house: HouseMaker, kind: str) -> None:
    async with house(lambda ask: chat()) as h:
        door = h.open()
        async with client_of(door, kind) as client:
            await sdk(door, client).chat.completions.create(
                model="default",
                messages=HI,  # type: ignore[arg-type]
                extra_body={"chat_template_kwargs": {"enable_thinking": False}, "top_k": 3},
                extra_headers={"X-My-Header": "mine"},
            )
        ask = h.servers["w0"].asks[0]
        assert ask.body["chat_template_kwargs"] == {"enable_thinking": False}
        assert ask.body["top_k"] == 3
        assert ask.headers["x-my-header"] == "mine"
        assert ask.request.headers.getall("Authorization") == ["Bearer worker-key-0123"]
        assert door.key not in str(ask.request.raw_headers)
        assert ask.body["model"] == "served-model"


@pytest.mark.parametrize("kind", DOORS)
@pytest.mark.parametrize("prefix", ["", "/v1"])
async def test_every_dialect_is_served_with_and_without_v1(house: HouseMaker, kind: str, prefix: str) -> None:
    replies: dict[str, Answer] = {
        "/v1/chat/completions": chat(),
        "/v1/completions": completion(),
        "/v1/responses": {"id": "resp_1", "object": "response", "status": "completed", "output": [],
                          "usage": {"input_tokens": 1, "output_tokens": 2}},
        "/v1/messages": {"id": "msg_1", "type": "message", "content": [],
                         "usage": {"input_tokens": 1, "output_tokens": 2}},
        "/v1/embeddings": {"object": "list", "data": [{"embedding": [0.1] * 9}], "usage": usage(completion=0)},
    }  # fmt: skip
    async with house(lambda ask: replies[ask.path]) as h:
        door = h.open()
        root = door.base_url.removesuffix("/v1") + prefix
        async with client_of(door, kind) as client:
            for path, reply in replies.items():
                url = root + path.removeprefix("/v1")
                body = {"model": "default", "input": "x"}
                got = await client.post(url, json=body, headers={"x-api-key": door.key})
                assert got.status_code == 200
                assert got.json() == reply
        assert [c.api for c in door.calls] == list(replies)
        assert not any(door.key in str(ask.request.raw_headers) for ask in h.servers["w0"].asks)
        assert [c.prompt_tokens for c in door.calls] == [10, 10, 1, 1, 10]
        assert "data" not in lines(door)[-1]["response"]  # no vectors in the trace


@pytest.mark.parametrize("kind", DOORS)
async def test_models_are_answered_from_the_table_and_are_no_call(house: HouseMaker, kind: str) -> None:
    judge = WorkerInfo("j", "http://127.0.0.1:9", "big-judge", role="judge")
    async with house(None, workers=(judge,)) as h:
        door = h.open()
        async with client_of(door, kind) as client:
            models = [m.id async for m in sdk(door, client).models.list()]
        assert models == ["served-model", "big-judge"]
        assert door.calls == ()


@pytest.mark.parametrize("kind", DOORS)
async def test_anything_else_is_passed_on_as_it_is(house: HouseMaker, kind: str) -> None:
    async with house(lambda ask: {"method": ask.method, "path": ask.request.path_qs}) as h:
        door = h.open()
        root = door.base_url.removesuffix("/v1")
        async with client_of(door, kind) as client:
            got = await client.post(root + "/tokenize?x=%2F1", content=b"not json \xff")
            assert got.json() == {"method": "POST", "path": "/tokenize?x=%2F1"}
            got = await client.post(root + "/v1/rerank", json={"model": "default", "query": "q"})
            assert got.json()["path"] == "/v1/rerank"
        assert h.servers["w0"].asks[0].raw == b"not json \xff"
        assert h.servers["w0"].asks[1].body == {"model": "served-model", "query": "q"}


async def test_a_body_that_needs_no_change_is_sent_byte_for_byte(house: HouseMaker) -> None:
    async with house(lambda ask: chat(), seed_requests=False) as h:
        door = h.open()
        body = b'{"model":"served-model", "temperature":1.0e0,\n "messages":[], "big": 12345678901234567890123}'
        got = await door.http_client().post(door.base_url + "/chat/completions", content=body)
        assert got.status_code == 200
        assert h.servers["w0"].asks[0].raw == body


async def test_roles_have_their_own_workers_names_and_sampling(house: HouseMaker) -> None:
    roles = {
        "default": RoleSettings(sampling={"temperature": 0.6, "max_new_tokens": 11}),
        "judge": RoleSettings(names=("gpt-judge",), sampling={"greedy": True}),
    }
    async with house(lambda ask: chat(), lambda ask: chat(), roles=roles) as h:
        h.change("w1", role="judge", model="big-judge")
        door = h.open()
        client = sdk(door, door.http_client())
        for name in ("default", "gpt-judge", "judge", "big-judge", "never heard of"):
            await client.chat.completions.create(model=name, messages=HI)  # type: ignore[arg-type]
        assert [c.role for c in door.calls] == ["default", "judge", "judge", "judge", "default"]
        assert [c.worker for c in door.calls] == ["w0", "w1", "w1", "w1", "w0"]
        assert {(a.body["model"], a.body["temperature"]) for a in h.servers["w1"].asks} == {("big-judge", 0.0)}
        assert {(a.body["temperature"], a.body["max_tokens"]) for a in h.servers["w0"].asks} == {(0.6, 11)}
        await client.chat.completions.create(model="default", messages=HI, temperature=1.0, max_completion_tokens=3)  # type: ignore[arg-type]
        last = h.servers["w0"].asks[-1].body
        assert (last["temperature"], last["max_completion_tokens"], "max_tokens" in last) == (1.0, 3, False)


@pytest.mark.parametrize(
    ("configured", "declared"), [({"user": RoleSettings(is_shared=True)}, ()), ({}, ("user",))], ids=["config", "class"]
)
async def test_a_role_without_workers_is_played_by_the_worker_of_its_episode_and_counted_apart(
    house: HouseMaker, configured: dict[str, RoleSettings], declared: tuple[str, ...]
) -> None:
    roles = {"default": RoleSettings(sampling={"temperature": 0.6}), **configured}
    async with house(lambda ask: chat(), lambda ask: chat(), roles=roles) as h:
        door = h.open(worker="w1", roles=declared)
        client = sdk(door, door.http_client())
        for name in ("default", "user", "default"):
            await client.chat.completions.create(model=name, messages=HI)  # type: ignore[arg-type]
        assert [(c.role, c.worker) for c in door.calls] == [("default", "w1"), ("user", "w1"), ("default", "w1")]
        asks = [ask.body for ask in h.servers["w1"].asks]
        assert [ask["model"] for ask in asks] == ["served-model"] * 3
        assert [ask.get("temperature") for ask in asks] == [0.6, None, 0.6], "gconfig is not the user's"
        assert len({ask["seed"] for ask in asks}) == 3


async def test_a_shared_role_moves_with_its_episode_when_the_worker_fails(house: HouseMaker) -> None:
    async with house(lambda ask: chat(), lambda ask: chat(), roles={"user": RoleSettings(is_shared=True)}) as h:
        door = h.open(worker="w0")
        client = sdk(door, door.http_client())
        await client.chat.completions.create(model="default", messages=HI)  # type: ignore[arg-type]
        h.change("w0", healthy=False)
        await client.chat.completions.create(model="user", messages=HI)  # type: ignore[arg-type]
        h.change("w0", healthy=True)
        await client.chat.completions.create(model="default", messages=HI)  # type: ignore[arg-type]
        assert [(c.role, c.worker) for c in door.calls] == [("default", "w0"), ("user", "w1"), ("default", "w1")]


async def test_what_is_configured_of_a_role_wins_over_what_a_class_declares_of_it(house: HouseMaker) -> None:
    roles = {
        "user": RoleSettings(sampling={"temperature": 0.1}),
        "critic": RoleSettings(names=("judge",), is_shared=True),
    }
    async with house(lambda ask: chat(), lambda ask: chat(), roles=roles) as h:
        h.change("w1", role="user", model="users-own")
        door = h.open(roles=("user", "judge", "default"))
        client = sdk(door, door.http_client())
        for name in ("user", "judge", "default"):
            await client.chat.completions.create(model=name, messages=HI)  # type: ignore[arg-type]
        assert [(c.role, c.worker) for c in door.calls] == [("user", "w1"), ("critic", "w0"), ("default", "w0")]
        assert h.servers["w1"].asks[0].body["temperature"] == 0.1
        undeclared = h.open(Episode("other", 0, seed=1))
        await sdk(undeclared, undeclared.http_client()).chat.completions.create(model="nobody", messages=HI)  # type: ignore[arg-type]
        assert [c.role for c in undeclared.calls] == ["default"]


async def test_a_name_that_nobody_gave_to_a_role_or_model_is_played_and_warned_of_once(house: HouseMaker) -> None:
    roles = {"judge": RoleSettings(names=("grader",), is_shared=True)}
    async with house(lambda ask: chat(), roles=roles, model_names=("/models/mine.gguf", "mine")) as h:
        door = h.open(roles=("user",))
        client = sdk(door, door.http_client())
        for name in ("default", "served-model", "mine", "judge", "grader", "user"):
            await client.chat.completions.create(model=name, messages=HI)  # type: ignore[arg-type]
        assert door.warnings == ()
        for _ in range(2):
            await client.chat.completions.create(model="gpt-4o", messages=HI)  # type: ignore[arg-type]
        (warning,) = door.warnings
        assert "the model gpt-4o and were answered by the default workers" in warning
        assert door.calls[-1].role == "default"
        for n in range(9):
            await client.chat.completions.create(model=f"made-up-{n}", messages=HI)  # type: ignore[arg-type]
        assert len(door.warnings) == 3


async def test_the_same_conversation_gets_the_same_seeds_in_every_run_and_a_repeat_gets_another(
    house: HouseMaker,
) -> None:
    async def seeds(worker: str, prefix: str, episode: Episode) -> list[int]:
        drawn = iter(range(1000))

        def answer(ask: Ask) -> Answer:
            done = sum(m["role"] == "tool" for m in ask.body["messages"])
            calls = [tool_call("add", {"n": done}, f"{prefix}-{next(drawn)}")] if done < 2 else []
            return chat(None, tool_calls=calls, id=f"{prefix}-{next(drawn)}")

        async with house(answer, answer) as h:
            door = h.open(episode, worker)
            client = sdk(door, door.http_client())
            messages: list[Any] = list(HI)
            for _ in range(3):
                reply = await client.chat.completions.create(model="default", messages=messages)
                messages.append(reply.choices[0].message.model_dump(exclude_none=True))
                for call in reply.choices[0].message.tool_calls or ():
                    messages.append({"role": "tool", "tool_call_id": call.id, "content": "1"})
            for _ in range(2):
                await client.chat.completions.create(model="default", messages=HI)  # type: ignore[arg-type]
            return [a.body["seed"] for a in h.servers[worker].asks]

    first = await seeds("w0", "a", Episode("item", 3, seed=1))
    again = await seeds("w1", "b", Episode("item", 3, attempt=2, seed=1))
    assert first == again
    assert len(set(first)) == 5  # the first request comes three times, with a seed of its own each time
    assert await seeds("w0", "a", Episode("item", 4, seed=1)) != first


async def test_an_agents_own_seed_stays_and_seeds_can_be_switched_off(house: HouseMaker) -> None:
    async with house(lambda ask: chat()) as h:
        door = h.open()
        await sdk(door, door.http_client()).chat.completions.create(model="default", messages=HI, seed=7)  # type: ignore[arg-type]
        assert h.servers["w0"].asks[0].body["seed"] == 7
    async with house(lambda ask: chat(), seed_requests=False) as h:
        door = h.open()
        await sdk(door, door.http_client()).chat.completions.create(model="default", messages=HI)  # type: ignore[arg-type]
        assert "seed" not in h.servers["w0"].asks[0].body


async def test_an_endpoint_that_refuses_seeds_is_asked_without(house: HouseMaker) -> None:
    def strict(ask: Ask) -> Answer:
        return error(400, "Unknown parameter: 'seed'.") if "seed" in ask.body else chat()

    async with house(strict) as h:
        door = h.open()
        for _ in range(2):
            await sdk(door, door.http_client()).chat.completions.create(model="default", messages=HI)  # type: ignore[arg-type]
        assert ["seed" in a.body for a in h.servers["w0"].asks] == [True, False, False]
        assert [c.status for c in door.calls] == [200, 200]
        assert "seed" not in lines(door)[0]["request"]


@pytest.mark.parametrize("kind", DOORS)
@pytest.mark.parametrize("asked", [True, False])
async def test_usage_is_asked_for_in_streams_and_shown_only_to_who_asked(
    house: HouseMaker, kind: str, asked: bool
) -> None:
    async with house(tool_loop()) as h:
        door = h.open()
        options: Any = {"stream_options": {"include_usage": True}} if asked else {}
        async with client_of(door, kind) as client:
            stream = await sdk(door, client).chat.completions.create(
                model="default",
                messages=HI,  # type: ignore[arg-type]
                stream=True,
                **options,
            )
            chunks = [chunk async for chunk in stream]
        assert h.servers["w0"].asks[0].body["stream_options"] == {"include_usage": True}
        assert any(c.usage for c in chunks) is asked
        assert all(c.choices for c in chunks) is not asked
        [call] = door.calls
        assert (call.prompt_tokens, call.completion_tokens, call.status) == (10, 5, 200)
        assert call.ttft_s is not None
        assert call.ttft_s <= call.latency_s


@pytest.mark.parametrize("kind", DOORS)
async def test_a_streamed_call_keeps_when_each_piece_of_its_reply_came(house: HouseMaker, kind: str) -> None:
    turns = [asyncio.Event() for _ in range(3)]

    async def one_by_one(ask: Ask) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(ask.request)
        role, *words, finish = chat_chunks("a b c")
        await response.write(f"data: {json.dumps(role)}\n\n".encode())
        for turn, chunk in zip(turns, words, strict=True):
            await turn.wait()
            await response.write(f"data: {json.dumps(chunk)}\n\n".encode())
        await response.write(f"data: {json.dumps(finish)}\n\ndata: [DONE]\n\n".encode())
        return response

    async with house(one_by_one) as h:
        door = h.open()
        turns[0].set()
        async with client_of(door, kind) as client:
            stream = await sdk(door, client).chat.completions.create(model="default", messages=HI, stream=True)  # type: ignore[arg-type]
            seen = []
            async for chunk in stream:
                seen += [word] if (word := chunk.choices[0].delta.content) else []
                for turn in turns[: len(seen) + 1]:
                    turn.set()
        [line] = lines(door)
    assert len(line["arrivals_s"]) == 3, "events with only a role or a finish reason are no pieces"
    assert line["arrivals_s"] == sorted(line["arrivals_s"])
    call = line["call"]
    assert call["queue_s"] <= call["ttft_s"] <= line["arrivals_s"][0] + 1e-4
    assert line["arrivals_s"][-1] <= call["latency_s"] + 1e-4


async def test_what_passed_before_the_answered_request_went_out_is_told_apart(
    house: HouseMaker, no_backoff: None
) -> None:
    held: list[float] = []

    async def slow_and_gone(ask: Ask) -> web.Response:
        since = time.perf_counter()
        await asyncio.sleep(0.02)
        held.append(time.perf_counter() - since)
        return error(503)

    async with house(slow_and_gone, lambda ask: chat()) as h:
        door = h.open(worker="w0")
        await sdk(door, door.http_client()).chat.completions.create(model="default", messages=HI)  # type: ignore[arg-type]
        [call] = door.calls
        assert (call.worker, call.tries) == ("w1", 2)
        assert sum(held) <= call.queue_s <= call.latency_s


async def test_numbers_of_a_call(house: HouseMaker) -> None:
    reply = chat("x", tool_calls=[tool_call("f", {})], finish_reason="length", usage=usage(7, 3, cached=5))
    async with house(lambda ask: reply) as h:
        door = h.open()
        await sdk(door, door.http_client()).chat.completions.create(model="default", messages=HI)  # type: ignore[arg-type]
        [call] = door.calls
        assert (call.id, call.prompt_tokens, call.completion_tokens, call.cached_tokens) == ("chatcmpl-1", 7, 3, 5)
        assert (call.tool_calls, call.truncated, call.tries, call.worker) == (1, True, 1, "w0")
        assert call.ttft_s == call.latency_s


async def test_a_conversation_of_n_turns_costs_n_in_the_trace_and_comes_back_whole(house: HouseMaker) -> None:
    async def play(turns: int) -> tuple[int, list[dict[str, Any]], list[list[Any]]]:
        async with house(lambda ask: chat("an answer of some length " * 8)) as h:
            door = h.open()
            client = sdk(door, door.http_client())
            messages: list[Any] = []
            for i in range(turns):
                messages.append({"role": "user", "content": f"question {i} " * 20})
                reply = await client.chat.completions.create(model="default", messages=messages)
                messages.append({"role": "assistant", "content": reply.choices[0].message.content})
            sent = [ask.body["messages"] for ask in h.servers["w0"].asks]
            return sum(map(len, door.trace())), lines(door), sent

    short, _, _ = await play(20)
    long, trace, sent = await play(80)
    assert long < 4.2 * short
    texts: dict[str, Any] = {}
    expanded: list[list[Any]] = []
    for line in trace:
        texts |= line.get("messages", {})
        names = line["request"]["messages"]
        head = expanded[int(names[0][1:])] if names[0].startswith("#") else []
        expanded.append(head + [texts[n] for n in names if not n.startswith("#")])
    assert expanded == sent


async def test_tool_lists_are_told_once_a_runner_and_named_by_hash(house: HouseMaker) -> None:
    tools: Any = [{"type": "function", "function": {"name": "add", "parameters": {}}}]
    async with house(tool_loop(0)) as h:
        for i in range(3):
            door = h.open(Episode(f"item {i}", 0))
            await sdk(door, door.http_client()).chat.completions.create(model="d", messages=HI, tools=tools)  # type: ignore[arg-type]
        [schema] = h.heard(ToolSchema)
        assert msgspec.json.decode(schema.data) == tools
        assert lines(door)[0]["request"]["tools"] == schema.hash


async def test_no_key_ever_stands_in_the_trace(house: HouseMaker) -> None:
    async with house(lambda ask: chat(f"your header was {ask.headers['authorization']}")) as h:
        door = h.open()
        body = {"model": "d", "messages": [{"role": "tool", "content": f"env: {door.base_url}"}]}
        await door.http_client().post(door.base_url + "/chat/completions", json=body)
        trace = b"".join(door.trace())
        assert door.key.encode() not in trace
        assert b"worker-key-0123" not in trace
        assert door.redact(f"at {door.base_url}") == f"at {h.gateway.url}/***/v1"


async def test_previous_response_id_is_expanded_and_never_sent_on(house: HouseMaker) -> None:
    answers = iter(range(10))

    def answer(ask: Ask) -> Answer:
        n = next(answers)
        item = {"type": "message", "id": f"msg_{n}", "role": "assistant", "content": [{"text": f"a{n}"}]}
        body = {"id": f"resp_{n}", "object": "response", "status": "completed", "output": [item], "usage": {}}
        return body if not ask.stream else [{"type": "response.completed", "response": body}]

    async with house(answer) as h:
        door = h.open()
        client, url = door.http_client(), door.base_url + "/responses"
        await client.post(url, json={"model": "d", "input": "q0"})
        second = {"model": "d", "stream": True, "input": [{"role": "user", "content": "q1"}]}
        await client.post(url, json={**second, "previous_response_id": "resp_0"})
        await client.post(url, json={"model": "d", "input": "q2", "previous_response_id": "resp_1"})
        last = h.servers["w0"].asks[-1].body
        assert "previous_response_id" not in last
        said = [i["content"] if i["role"] == "user" else i["content"][0]["text"] for i in last["input"]]
        assert said == ["q0", "a0", "q1", "a1", "q2"]
        got = await client.post(url, json={"model": "d", "input": "x", "previous_response_id": "resp_77"})
        assert got.status_code == 400
        assert "resp_77" in got.json()["error"]["message"]


@pytest.mark.parametrize("kind", DOORS)
async def test_a_chat_only_worker_serves_responses_and_messages_streamed_and_not(house: HouseMaker, kind: str) -> None:
    roles = {"default": RoleSettings(sampling={"top_k": 5, "max_new_tokens": 77})}
    async with house(tool_loop(0), apis=("chat",), roles=roles) as h:
        door = h.open()
        async with client_of(door, kind) as client:
            oai = sdk(door, client)
            whole = await oai.responses.create(model="default", input="hi")
            assert whole.output_text == "hello"
            second = await oai.responses.create(model="default", input="more", previous_response_id=whole.id)
            assert second.output_text == "hello"
            events = [e.type async for e in await oai.responses.create(model="default", input="hi", stream=True)]
            assert events[0] == "response.created"
            assert events[-1] == "response.completed"

            claude = AsyncAnthropic(base_url=door.base_url, api_key=door.api_key, http_client=client, max_retries=0)
            message = await claude.messages.create(model="default", max_tokens=9, messages=HI)  # type: ignore[arg-type]
            assert message.content[0].text == "hello"  # type: ignore[union-attr]
            async with claude.messages.stream(model="default", max_tokens=9, messages=HI) as stream:  # type: ignore[arg-type]
                assert (await stream.get_final_message()).usage.output_tokens == 5
        asks = h.servers["w0"].asks
        assert {a.path for a in asks} == {"/v1/chat/completions"}
        assert {a.body["model"] for a in asks} == {"served-model"}
        assert all(a.body["top_k"] == 5 and "seed" in a.body for a in asks)
        assert [m["content"] for m in asks[1].body["messages"]] == ["hi", "hello", "more"]
        assert [c.completion_tokens for c in door.calls] == [5] * 5
        assert asks[0].body.get("max_completion_tokens", asks[0].body.get("max_tokens")) == 77
        assert lines(door)[0]["response"]["object"] == "response"


async def test_what_chat_cannot_say_is_refused_in_the_agents_dialect(house: HouseMaker) -> None:
    async with house(tool_loop(0), apis=("chat",)) as h:
        door = h.open()
        claude = AsyncAnthropic(base_url=door.base_url, api_key="x", http_client=door.http_client(), max_retries=0)
        with pytest.raises(Exception, match="container"):
            await claude.messages.create(model="d", max_tokens=9, messages=HI, extra_body={"container": "c"})  # type: ignore[arg-type]
        with pytest.raises(Exception, match="count_tokens"):
            await claude.messages.count_tokens(model="d", messages=HI)  # type: ignore[arg-type]
        assert h.servers["w0"].asks == []
        assert [c.status for c in door.calls] == [400, 404]


async def test_a_chat_workers_error_reaches_a_messages_agent_as_its_own_kind_of_error(house: HouseMaker) -> None:
    async with house(lambda ask: error(400, "too hot"), apis=("chat",)) as h:
        door = h.open()
        got = await door.http_client().post(door.base_url + "/messages", json={"messages": HI, "max_tokens": 1})
        assert got.status_code == 400
        assert got.json()["type"] == "error"
        assert got.json()["error"]["message"] == "too hot"


async def test_streams_of_other_dialects_are_passed_on_untouched(house: HouseMaker) -> None:
    async def answer(ask: Ask) -> Answer:
        return await send_events(ask, [{"custom": 1}, {"custom": 2}], done=False)

    async with house(answer) as h:
        door = h.open()
        got = await door.http_client().post(door.base_url + "/generate", json={"stream": True})
        assert got.text == 'data: {"custom": 1}\n\ndata: {"custom": 2}\n\n'
        assert [c.status for c in door.calls] == [200]


async def test_calls_are_listed_in_the_order_of_their_start(house: HouseMaker) -> None:
    gate = asyncio.Event()

    async def answer(ask: Ask) -> Answer:
        slow = ask.body["messages"][0]["content"] == "slow"
        if slow:
            await gate.wait()
        else:
            gate.set()
        return chat(id=ask.body["messages"][0]["content"])

    async with house(answer) as h:
        door = h.open()
        url = door.base_url + "/chat/completions"

        async def ask(text: str) -> None:
            await door.http_client().post(url, json={"messages": [{"role": "user", "content": text}]})

        async with asyncio.TaskGroup() as group:
            group.create_task(ask("slow"))
            group.create_task(ask("quick"))
        assert [c.id for c in door.calls] == ["slow", "quick"]
        assert [line["call"]["id"] for line in lines(door)] == ["quick", "slow"]


async def test_a_trace_comes_in_chunks_of_bounded_size(house: HouseMaker) -> None:
    async with house(lambda ask: chat("é" * 800_000)) as h:
        door = h.open()
        for _ in range(2):
            await sdk(door, door.http_client()).chat.completions.create(model="d", messages=HI)  # type: ignore[arg-type]
        chunks = list(door.trace())
        assert [len(c) for c in chunks[:-1]] == [MAX_CHUNK_BYTES] * (len(chunks) - 1)
        assert len(chunks[-1]) <= MAX_CHUNK_BYTES
        assert len(lines(door)) == 2


async def test_pretty_printed_requests_and_replies_are_one_line_of_the_trace(house: HouseMaker) -> None:
    reply = web.Response(text=json.dumps(chat("line\nbreak"), indent=2), content_type="application/json")
    async with house(lambda ask: reply) as h:
        door = h.open()
        body = json.dumps({"model": "d", "messages": HI, "tools": [{"type": "function"}]}, indent=2)
        await door.http_client().post(door.base_url + "/chat/completions", content=body)
        [line] = lines(door)
        assert line["response"] == chat("line\nbreak")
        assert h.servers["w0"].asks[0].body["messages"] == HI


async def test_a_reply_that_is_no_json_goes_to_the_agent_as_it_is(house: HouseMaker) -> None:
    async with house(lambda ask: web.Response(body=b"\xff\xfe plain", content_type="text/plain")) as h:
        door = h.open()
        got = await door.http_client().post(door.base_url + "/chat/completions", json={"messages": []})
        assert got.content == b"\xff\xfe plain"
        assert [c.status for c in door.calls] == [200]
        assert "plain" in lines(door)[0]["response"]


async def test_streamed_replies_are_assembled_in_the_trace(house: HouseMaker) -> None:
    calls = [tool_call("add", {"a": 1, "b": 2})]
    async with house(lambda ask: chat_chunks("two words", tool_calls=calls, include_usage=True)) as h:
        door = h.open()
        stream = await sdk(door, door.http_client()).chat.completions.create(model="d", messages=HI, stream=True)  # type: ignore[arg-type]
        async for _ in stream:
            pass
        message = lines(door)[0]["response"]["choices"][0]["message"]
        assert message["content"] == "two words"
        assert message["tool_calls"][0]["function"] == calls[0]["function"]


async def test_two_roles_share_nothing_when_the_judge_has_no_worker(house: HouseMaker) -> None:
    roles = {"judge": RoleSettings(names=("j",))}
    async with house(lambda ask: chat(), roles=roles, retry_window_s=0.0) as h:
        door = h.open()
        with pytest.raises(openai.APIStatusError, match="role 'judge'"):
            await sdk(door, door.http_client()).chat.completions.create(model="j", messages=HI)  # type: ignore[arg-type]
        assert h.servers["w0"].asks == []
