"""The HTTP door: keys, clients that never heard of us, streams as they come."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import shutil
import sys
import threading
from typing import Any

import aiohttp
import httpx2
import pytest

from agentflow.channel.messages import RunnerSettings, WorkerInfo
from agentflow.episode import Episode, Kind
from agentflow.runner.forward import Forwarder
from agentflow.runner.gateway import Gateway
from tests.doors.conftest import HouseMaker, lines, waiting
from tests.scripted import Answer, Ask, break_off, chat, chat_chunks, error, scripted, send_events, tool_loop

pytestmark = pytest.mark.asyncio
HI: Any = [{"role": "user", "content": "hi"}]
CHAT = {"model": "default", "messages": HI}


def plain() -> httpx2.AsyncClient:
    return httpx2.AsyncClient(trust_env=False, timeout=30)


async def run(*argv: str, **env: str) -> tuple[int | None, str]:
    process = await asyncio.create_subprocess_exec(
        *argv, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT, env={**os.environ, **env}
    )
    out, _ = await process.communicate()
    return process.returncode, out.decode()


async def test_urllib_in_a_child_process_with_only_a_url_is_captured(house: HouseMaker) -> None:
    script = """
import json, os, urllib.request
request = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + "/chat/completions",
    json.dumps({"messages": [{"role": "user", "content": "hi"}]}).encode(),
    {"Content-Type": "application/json", "Authorization": "Bearer " + os.environ["OPENAI_API_KEY"]})
print(json.load(urllib.request.urlopen(request))["choices"][0]["message"]["content"])
"""
    async with house(tool_loop(0)) as h:
        door = h.open()
        code, out = await run(
            sys.executable, "-c", script, OPENAI_BASE_URL=door.base_url, OPENAI_API_KEY=door.api_key, NO_PROXY="*"
        )
        assert (code, out.strip()) == (0, "hello")
        assert [c.status for c in door.calls] == [200]
        assert h.servers["w0"].asks[0].headers["authorization"] == "Bearer worker-key-0123"


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
async def test_curl_is_captured_and_sees_a_broken_stream_as_broken(house: HouseMaker) -> None:
    async def half(ask: Ask) -> Answer:
        response = await send_events(ask, list(chat_chunks("one two"))[:2], done=False)
        break_off(ask)
        return response

    async with house(half) as h:
        door = h.open()
        body = json.dumps({**CHAT, "stream": True})
        code, out = await run("curl", "-sS", "--noproxy", "*", "-d", body, door.base_url + "/chat/completions")
        assert code != 0
        assert "one" in out
        assert "[DONE]" not in out
        assert door.verdict is not None
        assert door.verdict.kind is Kind.STREAM_BROKEN


async def test_a_wrong_key_gets_404_a_closed_one_410_and_the_tripwire_400_each_with_a_sentence(
    house: HouseMaker,
) -> None:
    async with house(None) as h, plain() as client:
        door = h.open()
        h.forwarder.close_episode(door)

        async def ask(url: str) -> tuple[int, str]:
            got = await client.post(url + "/chat/completions", json=CHAT)
            assert got.headers["x-should-retry"] == "false"
            return got.status_code, got.json()["error"]["message"]

        status, message = await ask(f"{h.gateway.url}/{'x' * 44}/v1")
        assert (status, "base_url" in message) == (404, True)
        status, message = await ask(door.base_url)
        assert (status, "over" in message) == (410, True)
        status, message = await ask(h.gateway.tripwire_url)
        assert (status, "episode_env" in message) == (400, True)
        got = await client.post(h.gateway.tripwire_url + "/messages", json={})
        assert got.json()["type"] == "error"
        assert (await client.get(h.gateway.url)).status_code == 404
        assert h.servers["w0"].asks == []


async def test_keys_are_unguessable_and_part_of_no_other_episodes_url(house: HouseMaker) -> None:
    async with house(None) as h:
        one, two = h.open(), h.open()
        assert one.key != two.key
        assert len(one.key) >= 32
        assert one.base_url == f"{h.gateway.url}/{one.key}/v1"
        assert one.api_key == one.key


async def test_bodies_far_beyond_a_mebibyte_pass(house: HouseMaker) -> None:
    async with house(lambda ask: chat(str(len(ask.raw)))) as h, plain() as client:
        door = h.open()
        long = {"messages": [{"role": "user", "content": "x" * (9 << 20)}]}
        got = await client.post(door.base_url + "/chat/completions", json=long)
        assert int(got.json()["choices"][0]["message"]["content"]) > 9 << 20


async def test_a_body_beyond_the_bound_is_refused_with_a_sentence(
    house: HouseMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentflow.runner.gateway.MAX_BODY_BYTES", 1 << 20)
    async with house(None) as h, plain() as client:
        got = await client.post(h.open().base_url + "/chat/completions", content=b"x" * (2 << 20))
        assert got.status_code == 413
        assert "1 MiB" in got.json()["error"]["message"]


async def test_the_first_byte_of_a_stream_is_not_held_back(house: HouseMaker) -> None:
    more = asyncio.Event()

    async def answer(ask: Ask) -> Answer:
        chunks = list(chat_chunks("one two", include_usage=True))
        response = await send_events(ask, chunks[:2], done=False)
        await more.wait()
        for chunk in chunks[2:]:
            await response.write(f"data: {json.dumps(chunk)}\n\n".encode())
        await response.write(b"data: [DONE]\n\n")
        return response

    async with house(answer) as h, plain() as client:
        door = h.open()
        url = door.base_url + "/chat/completions"
        async with client.stream("POST", url, json={**CHAT, "stream": True}) as response:
            seen = ""
            async for text in response.aiter_text():
                seen += text
                if "one" in seen:
                    more.set()  # the worker goes on only after the agent has seen the beginning
        assert seen.endswith("data: [DONE]\n\n")
        assert '"usage"' not in seen
        assert response.headers["content-type"] == "text/event-stream"


@pytest.mark.parametrize("stream", [False, True])
async def test_a_client_that_disconnects_cancels_its_request_at_the_worker(house: HouseMaker, stream: bool) -> None:
    asked = asyncio.Event()

    async def hang(ask: Ask) -> Answer:
        if stream:
            await send_events(ask, [next(iter(chat_chunks()))], done=False)
        asked.set()
        await asyncio.Event().wait()
        raise AssertionError

    async with house(hang) as h:
        door = h.open()
        async with aiohttp.ClientSession() as session:
            request = asyncio.create_task(
                session.post(door.base_url + "/chat/completions", json={**CHAT, "stream": stream})
            )
            await asked.wait()
            if stream:
                response = await request
                await response.content.readany()
                response.close()
            request.cancel()
        await h.servers["w0"].client_left.wait()
        assert [c.status for c in door.calls] == [0]


async def test_a_client_that_stops_reading_and_disconnects_cancels_its_stream_too(house: HouseMaker) -> None:
    stalled = asyncio.Event()

    async def endless(ask: Ask) -> Answer:
        chunk = f"data: {json.dumps({'choices': [], 'pad': 'x' * (1 << 20)})}\n\n".encode()
        response = await send_events(ask, [], done=False)
        while True:
            writing = asyncio.create_task(response.write(chunk))
            try:
                await asyncio.wait_for(asyncio.shield(writing), 0.3)
            except TimeoutError:  # the way to the client is full
                stalled.set()
                await writing

    async with house(endless) as h, plain() as client:
        door = h.open()
        url = door.base_url + "/chat/completions"
        async with client.stream("POST", url, json={**CHAT, "stream": True}):
            await stalled.wait()
        await h.servers["w0"].client_left.wait()
        assert [c.status for c in door.calls] == [0]
        assert door.verdict is None


async def test_errors_pass_through_with_their_headers(house: HouseMaker) -> None:
    async with house(lambda ask: error(404, "no such model", X_Request_Id="r1")) as h, plain() as client:
        got = await client.post(h.open().base_url + "/chat/completions", json=CHAT)
        assert (got.status_code, got.headers["x-request-id"]) == (404, "r1")


async def test_compressed_requests_are_understood(house: HouseMaker) -> None:
    async with house(lambda ask: chat()) as h, plain() as client:
        body = gzip.compress(json.dumps(CHAT).encode())
        got = await client.post(
            h.open().base_url + "/chat/completions", content=body, headers={"Content-Encoding": "gzip"}
        )
        assert got.status_code == 200
        assert h.servers["w0"].asks[0].body["messages"] == HI


async def test_one_forwarder_serves_a_gateway_on_one_thread_and_clients_on_another(house: HouseMaker) -> None:
    """As in a runner: the gateway on the door thread's loop, the in-process transport on the main one."""

    async with scripted(tool_loop(0)) as server:
        forwarder = Forwarder(RunnerSettings(worker_calls=2), lambda message: None)
        up, down = threading.Event(), threading.Event()

        async def door_thread() -> None:
            async with Gateway.serve(forwarder):
                up.set()
                await asyncio.to_thread(down.wait)

        thread = threading.Thread(target=asyncio.run, args=(door_thread(),))
        thread.start()
        try:
            await asyncio.to_thread(up.wait)
            forwarder.set_workers([WorkerInfo("w0", server.url, "m", healthy=False)])
            door = forwarder.open_episode(Episode("item", 0), "w0")
            async with plain() as socket_client:
                url = door.base_url + "/chat/completions"
                asks = [asyncio.create_task(c.post(url, json=CHAT)) for c in (door.http_client(), socket_client) * 8]
                await waiting(door, calls=16)
                forwarder.set_workers([WorkerInfo("w0", server.url, "m")])  # wakes those who wait on both loops
                assert {(await a).status_code for a in asks} == {200}
            assert len(door.calls) == 16
            assert len(lines(door)) == 16
            await forwarder.aclose()
        finally:
            down.set()
            thread.join()
