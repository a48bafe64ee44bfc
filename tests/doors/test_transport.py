"""The in-process door: clients of every kind and make, and what they may close."""

from __future__ import annotations

import asyncio
import logging
import sys
from typing import Any

import httpx
import httpx2
import pytest
from openai import AsyncOpenAI, OpenAI

from agentflow.episode import Episode
from agentflow.runner.gateway import Gateway
from tests.doors.conftest import HouseMaker, pass_time
from tests.scripted import Answer, Ask, chat, scripted, tool_loop

pytestmark = pytest.mark.asyncio
HI: Any = [{"role": "user", "content": "hi"}]


async def test_requests_to_the_episodes_url_never_touch_the_gateway(
    house: HouseMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: Any) -> None:
        raise AssertionError("came over the socket")

    monkeypatch.setattr(Gateway, "_handle", fail)
    async with house(tool_loop(0)) as h:
        door = h.open()
        got = await door.http_client().post(door.base_url + "/chat/completions", json={"messages": HI})
        assert got.status_code == 200
        assert got.elapsed.total_seconds() > 0


async def test_other_hosts_are_reached_and_not_recorded(house: HouseMaker) -> None:
    async with house(tool_loop(0)) as h, scripted(lambda ask: {"host": "other"}) as other:
        door = h.open()
        got = await door.http_client().get(other.url + "/search")
        assert got.json() == {"host": "other"}
        assert door.calls == ()


async def test_another_episodes_url_belongs_to_that_episode(house: HouseMaker) -> None:
    async with house(tool_loop(0)) as h:
        one, two = h.open(), h.open()
        got = await one.http_client().post(two.base_url + "/chat/completions", json={"messages": HI})
        assert got.status_code == 200
        assert (len(one.calls), len(two.calls)) == (0, 1)


async def test_an_agent_that_closes_its_client_closes_nobody_elses(house: HouseMaker) -> None:
    async with house(tool_loop(0)) as h, scripted(lambda ask: {}) as other:
        one, two = h.open(), h.open(Episode("item 2", 0))
        await one.http_client().get(other.url)
        async with AsyncOpenAI(base_url=one.base_url, api_key="x", http_client=one.http_client()) as client:
            await client.chat.completions.create(model="m", messages=HI)
        assert one.http_client().is_closed
        got = await two.http_client().post(two.base_url + "/chat/completions", json={"messages": HI})
        assert got.status_code == 200
        assert (await two.http_client().get(other.url)).status_code == 200


async def test_one_client_an_episode_closed_with_it(house: HouseMaker) -> None:
    async with house(None) as h:
        door = h.open()
        client, sync = door.http_client(), door.sync_http_client()
        assert door.http_client() is client
        await door.aclose_clients()
        assert client.is_closed
        assert sync.is_closed


@pytest.mark.parametrize(("name", "library"), [("httpx2", httpx2), ("httpx", httpx)])
async def test_the_client_is_of_the_library_that_the_user_named(house: HouseMaker, name: str, library: Any) -> None:
    async with house(tool_loop(0), http_client=name) as h:
        door = h.open()
        client = door.http_client()
        assert isinstance(client, library.AsyncClient)
        assert isinstance(door.sync_http_client(), library.Client)
        oai = AsyncOpenAI(base_url=door.base_url, api_key=door.api_key, http_client=client, max_retries=0)
        assert (await oai.chat.completions.create(model="m", messages=HI)).choices[0].message.content == "hello"
        stream = await oai.chat.completions.create(model="m", messages=HI, stream=True)
        assert [c async for c in stream]
        assert [c.status for c in door.calls] == [200, 200]
        await door.aclose_clients()


async def test_a_blocking_client_works_from_a_plain_function(house: HouseMaker) -> None:
    async with house(tool_loop(0)) as h:
        door = h.open()

        def run() -> str | None:
            client = OpenAI(base_url=door.base_url, api_key=door.api_key, http_client=door.sync_http_client())
            return client.chat.completions.create(model="m", messages=HI).choices[0].message.content

        assert await asyncio.to_thread(run) == "hello"
        assert len(door.calls) == 1
        await door.aclose_clients()


async def test_an_sdk_does_not_cut_a_slow_model_off_but_an_agents_own_timeout_holds(house: HouseMaker) -> None:
    async def hang(ask: Ask) -> Answer:
        pass_time(5.0)
        await asyncio.Event().wait()
        raise AssertionError

    async with house(hang, request_timeout_s=3600.0) as h:
        door = h.open()
        default = AsyncOpenAI(base_url=door.base_url, api_key="x", http_client=door.http_client(), max_retries=0)
        assert isinstance(default.timeout, httpx2.Timeout)
        assert default.timeout.read is not None
        assert default.timeout.read > 3600
        with pytest.raises(Exception, match="timed out"):
            await default.with_options(timeout=5.0).chat.completions.create(model="m", messages=HI)
        await h.servers["w0"].client_left.wait()
        assert [c.status for c in door.calls] == [0]


async def test_an_agent_with_a_loop_of_its_own_in_a_thread_is_served_too(house: HouseMaker) -> None:
    async with house(tool_loop(0)) as h:
        door = h.open()

        async def ask() -> int:
            got = await door.http_client().post(door.base_url + "/chat/completions", json={"messages": HI})
            await h.forwarder.aclose()
            return int(got.status_code)

        assert await asyncio.to_thread(lambda: asyncio.run(ask())) == 200
        assert await ask() == 200


async def test_openai_agents_runs_over_it_with_its_default_api(house: HouseMaker) -> None:
    from agents import Agent, OpenAIProvider, RunConfig, Runner, function_tool

    @function_tool
    def add(a: int, b: int) -> int:
        return a + b

    async with house(tool_loop(2), apis=("chat",)) as h:
        door = h.open()
        client = AsyncOpenAI(base_url=door.base_url, api_key=door.api_key, http_client=door.http_client())
        config = RunConfig(model_provider=OpenAIProvider(openai_client=client), model="default", tracing_disabled=True)
        result = await Runner.run(Agent("adder", tools=[add]), input="add", run_config=config)
        assert result.final_output == "hello"
        assert [c.tool_calls for c in door.calls] == [1, 1, 0]
        assert {c.api for c in door.calls} == {"/v1/responses"}


@pytest.mark.parametrize("library", ["httpx2", "httpx"])
async def test_no_key_reaches_the_log(house: HouseMaker, library: str, caplog: pytest.LogCaptureFixture) -> None:
    async with house(lambda ask: chat(), http_client=library) as h, scripted(lambda ask: {}) as other:
        door = h.open()
        with caplog.at_level(logging.DEBUG):
            await door.http_client().post(door.base_url + "/chat/completions", json={"messages": HI})
            await door.http_client().get(other.url + "/seen")
        assert "HTTP Request: POST" in caplog.text
        assert "/seen" in caplog.text
        assert door.key not in caplog.text


async def test_the_scripted_server_runs_as_a_process_of_its_own() -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.scripted", "--turns", "1", stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        url = (await process.stdout.readline()).decode().strip()
        async with AsyncOpenAI(base_url=url + "/v1", api_key="x") as client:
            tools: Any = [{"type": "function", "function": {"name": "add"}}]
            first = await client.chat.completions.create(model="m", messages=HI, tools=tools)
            calls = first.choices[0].message.tool_calls
            assert calls is not None
            assert calls[0].function.name == "add"
            done: Any = [*HI, {"role": "tool", "tool_call_id": "call_0", "content": "2"}]
            last = await client.chat.completions.create(model="m", messages=done, tools=tools)
            assert last.choices[0].message.content == "hello"
    finally:
        process.kill()
        await process.wait()
