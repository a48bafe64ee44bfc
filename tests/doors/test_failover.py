"""Workers that fail, limit, hang, vanish; agents that go away: what the agent sees and what the episode becomes."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import openai
import pytest
from aiohttp import web
from openai import AsyncOpenAI

from agentflow.channel.messages import Backpressure, WorkerInfo, WorkerSuspect
from agentflow.episode import Episode, Kind, Outcome
from agentflow.runner.door import EpisodeDoor
from tests.doors.conftest import HouseMaker, lines, pass_time, waiting
from tests.scripted import Answer, Ask, break_off, chat, chat_chunks, error, send_events, tool_loop

pytestmark = pytest.mark.asyncio
HI: Any = [{"role": "user", "content": "hi"}]


def client_of(door: EpisodeDoor) -> AsyncOpenAI:
    return AsyncOpenAI(base_url=door.base_url, api_key=door.api_key, http_client=door.http_client(), max_retries=0)


async def call(door: EpisodeDoor) -> str | None:
    reply = await client_of(door).chat.completions.create(model="default", messages=HI)
    return reply.choices[0].message.content


async def raw_call(door: EpisodeDoor) -> httpx2.Response:
    client: httpx2.AsyncClient = door.http_client()
    return await client.post(door.base_url + "/chat/completions", json={"model": "default", "messages": HI})


@contextlib.asynccontextmanager
async def process() -> AsyncIterator[tuple[asyncio.subprocess.Process, str]]:
    """A worker in a process of its own, to be killed."""
    started = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.scripted", stdout=asyncio.subprocess.PIPE
    )
    assert started.stdout is not None
    try:
        yield started, (await started.stdout.readline()).decode().strip()
    finally:
        with contextlib.suppress(ProcessLookupError):
            started.kill()
        await started.wait()


# --- transport failures -------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("no_backoff")
async def test_a_killed_worker_is_failed_over_and_the_episode_stays_on_the_new_one(house: HouseMaker) -> None:
    async with process() as (worker, url), house(tool_loop(0)) as h:
        h.workers["dying"] = WorkerInfo("dying", url, "m")
        h.push()
        door = h.open(worker="dying")
        assert await call(door) == "hello"
        worker.kill()
        await worker.wait()
        assert await call(door) == "hello"
        assert await call(door) == "hello"
        assert [(c.worker, c.tries) for c in door.calls] == [("dying", 1), ("w0", 2), ("w0", 1)]
        assert [m.worker for m in h.heard(WorkerSuspect)] == ["dying"]
        assert door.verdict is None


@pytest.mark.usefixtures("no_backoff")
@pytest.mark.parametrize("status", [502, 503, 504])
async def test_gateway_errors_are_tried_elsewhere(house: HouseMaker, status: int) -> None:
    async with house(lambda ask: error(status), lambda ask: chat("from the other")) as h:
        door = h.open()
        assert await call(door) == "from the other"
        assert [(c.worker, c.tries, c.status) for c in door.calls] == [("w1", 2, 200)]
        assert [m.worker for m in h.heard(WorkerSuspect)] == ["w0"]


@pytest.mark.usefixtures("no_backoff")
async def test_a_connection_cut_before_the_answer_is_tried_again_on_the_same_worker_if_it_is_the_only_one(
    house: HouseMaker,
) -> None:
    left = iter([True, True, False])

    def answer(ask: Ask) -> Answer:
        if next(left):
            break_off(ask)
        return chat("third time")

    async with house(answer) as h:
        door = h.open()
        assert await call(door) == "third time"
        assert door.calls[0].tries == 3


@pytest.mark.usefixtures("no_backoff")
async def test_when_the_budget_is_spent_the_agent_gets_503_no_retry_and_the_episode_is_lost(house: HouseMaker) -> None:
    async with house(lambda ask: error(503, "starting")) as h:
        door = h.open()
        got = await raw_call(door)
        assert got.status_code == 503
        assert got.headers["x-should-retry"] == "false"
        assert "starting" in got.json()["error"]["message"]
        assert len(h.servers["w0"].asks) == 4
        assert door.verdict is not None
        assert (door.verdict.outcome, door.verdict.kind) == (Outcome.LOST, Kind.UNREACHABLE)
        assert "w0 answered 503" in door.verdict.message
        # An SDK with retries of its own does not start the budget again.
        with pytest.raises(openai.InternalServerError):
            await client_of(door).with_options(max_retries=2).chat.completions.create(model="m", messages=HI)
        assert len(h.servers["w0"].asks) == 8
        assert [c.status for c in door.calls] == [503, 503]


async def test_a_port_that_is_closed_is_said_in_the_systems_words(house: HouseMaker) -> None:
    async with house(None, request_retries=0) as h:
        h.change("w0", url="http://127.0.0.1:1")
        door = h.open()
        assert (await raw_call(door)).status_code == 503
        assert door.verdict is not None
        assert "w0 could not be reached: connection refused at 127.0.0.1:1; 1 try failed" in door.verdict.message
        assert "ssl" not in door.verdict.message


async def test_a_call_waits_for_a_worker_and_goes_on_when_the_table_brings_one(house: HouseMaker) -> None:
    async with house(tool_loop(0)) as h:
        h.change("w0", healthy=False)
        door = h.open()
        waits = asyncio.create_task(call(door))
        await waiting(door)
        assert h.servers["w0"].asks == []
        h.change("w0", healthy=True)
        assert await waits == "hello"
        assert door.calls[0].tries == 1


async def test_without_any_worker_the_wait_is_bounded(house: HouseMaker) -> None:
    async with house(None, retry_window_s=0.05) as h:
        h.change("w0", healthy=False)
        door = h.open()
        assert (await raw_call(door)).status_code == 503
        assert door.verdict is not None
        assert door.verdict.kind is Kind.UNREACHABLE


async def test_a_table_that_keeps_changing_without_a_healthy_worker_does_not_prolong_the_wait(
    house: HouseMaker,
) -> None:
    async with house(None, retry_window_s=0.2) as h:
        h.change("w0", healthy=False)
        door = h.open()
        waits = asyncio.create_task(raw_call(door))
        while not waits.done():
            await asyncio.sleep(0.02)
            h.push()
        assert waits.result().status_code == 503


@pytest.mark.usefixtures("no_backoff")
async def test_calls_that_wait_for_a_place_at_a_worker_move_on_when_it_leaves_the_table(house: HouseMaker) -> None:
    asked = asyncio.Event()

    async def hang(ask: Ask) -> Answer:
        asked.set()
        await asyncio.Event().wait()
        raise AssertionError

    async with house(hang, lambda ask: chat("moved"), worker_calls=1) as h:
        doors = [h.open(Episode(f"item {i}", 0)) for i in range(3)]
        calls = [asyncio.create_task(raw_call(doors[0]))]
        await asked.wait()
        calls += [asyncio.create_task(raw_call(door)) for door in doors[1:]]
        await waiting(*doors[1:])
        del h.workers["w0"]
        h.push()
        assert ["moved" in (await one).text for one in calls] == [True] * 3
        assert len(h.servers["w0"].asks) == 1
        assert [door.calls[0].tries for door in doors] == [2, 1, 1]


@pytest.mark.usefixtures("no_backoff")
@pytest.mark.parametrize("how", ["removed", "restarted"])
async def test_a_call_to_a_worker_that_left_the_table_moves_on_at_once(house: HouseMaker, how: str) -> None:
    asked = asyncio.Event()

    async def hang(ask: Ask) -> Answer:
        asked.set()
        await asyncio.Event().wait()
        raise AssertionError

    async with house(hang, lambda ask: chat("moved")) as h:
        door = h.open()
        pending = asyncio.create_task(call(door))
        await asked.wait()
        if how == "removed":
            del h.workers["w0"]
            h.push()
        else:
            h.change("w0", generation=1, healthy=False)
        assert await pending == "moved"
        assert [(c.worker, c.tries) for c in door.calls] == [("w1", 2)]


# --- 429, 500, 4xx ------------------------------------------------------------------------------------------------


async def test_429_is_told_to_admission_and_tried_again_on_the_same_worker(house: HouseMaker) -> None:
    limited = iter([True, True, False])

    def answer(ask: Ask) -> Answer:
        return error(429, "slow down", Retry_After="0") if next(limited) else chat("at last")

    async with house(answer, lambda ask: chat("wrong"), request_retries=0) as h:
        door = h.open()
        assert await call(door) == "at last"
        assert h.heard(Backpressure) == [Backpressure("w0", 0.0)] * 2
        assert [(c.worker, c.tries) for c in door.calls] == [("w0", 3)]


async def test_endless_429_loses_the_episode(house: HouseMaker) -> None:
    async with house(lambda ask: error(429, Retry_After="60"), request_timeout_s=5.0) as h:
        door = h.open()
        assert (await raw_call(door)).status_code == 503
        assert door.verdict is not None
        assert door.verdict.outcome is Outcome.LOST


@pytest.mark.usefixtures("no_backoff")
async def test_a_500_is_tried_once_elsewhere(house: HouseMaker) -> None:
    async with house(lambda ask: error(500), lambda ask: chat("fine here")) as h:
        door = h.open()
        assert await call(door) == "fine here"
        assert door.hint is None


@pytest.mark.usefixtures("no_backoff")
async def test_the_same_500_again_is_passed_on_with_a_hint_and_no_verdict(house: HouseMaker) -> None:
    async with house(lambda ask: error(500, "assert failed"), lambda ask: error(500, "assert failed")) as h:
        door = h.open()
        got = await raw_call(door)
        assert (got.status_code, got.json()["error"]["message"]) == (500, "assert failed")
        assert [len(h.servers[w].asks) for w in ("w0", "w1")] == [1, 1]
        assert door.hint is Kind.SERVER_ERROR
        assert door.verdict is None
        assert door.calls[0].error == "assert failed"


ENGINE_DEATH = "EngineCore encountered an issue. See stack trace (above) for the root cause."


@pytest.mark.usefixtures("no_backoff")
async def test_a_500_that_tells_of_a_dead_engine_is_the_infrastructures(house: HouseMaker) -> None:
    async with house(lambda ask: error(500, ENGINE_DEATH)) as h:
        door = h.open()
        assert (await raw_call(door)).status_code == 503
        assert len(h.servers["w0"].asks) == 4
        assert door.verdict is not None
        assert (door.verdict.outcome, door.verdict.kind) == (Outcome.LOST, Kind.UNREACHABLE)


@pytest.mark.parametrize("ends", [True, False])
async def test_a_stream_whose_last_event_tells_of_a_dead_engine_loses_the_episode(
    house: HouseMaker, ends: bool
) -> None:
    async def dying(ask: Ask) -> Answer:
        events = [*list(chat_chunks("one two three"))[:2], {"error": {"message": ENGINE_DEATH, "code": 500}}]
        response = await send_events(ask, events, done=ends)
        if not ends:
            await asyncio.Event().wait()  # until the agent, which has read the error, goes away
        return response

    async with house(dying) as h:
        door = h.open()
        stream = await client_of(door).chat.completions.create(model="m", messages=HI, stream=True)
        with pytest.raises(openai.APIError):
            [chunk async for chunk in stream]
        await stream.close()
        assert door.verdict is not None
        assert (door.verdict.outcome, door.verdict.kind) == (Outcome.LOST, Kind.STREAM_BROKEN)
        assert "EngineCore" in door.calls[0].error
        assert door.hint is None


async def test_a_context_overflow_reaches_the_agent_untouched_with_a_hint_that_a_good_call_clears(
    house: HouseMaker,
) -> None:
    long = iter([True, False])

    def answer(ask: Ask) -> Answer:
        text = "This model's maximum context length is 4096 tokens."
        return error(400, text, X_Request_Id="abc") if next(long) else chat()

    async with house(answer) as h:
        door = h.open()
        with pytest.raises(openai.BadRequestError, match="maximum context length") as caught:
            await call(door)
        assert caught.value.response.headers["x-request-id"] == "abc"
        assert door.hint is Kind.CONTEXT_OVERFLOW
        await call(door)
        assert door.hint is None
        assert [c.status for c in door.calls] == [400, 200]


# --- time ---------------------------------------------------------------------------------------------------------


async def test_a_live_worker_that_takes_too_long_is_the_models_failure(house: HouseMaker) -> None:
    async def hang(ask: Ask) -> Answer:
        pass_time(30.0)
        await asyncio.Event().wait()
        raise AssertionError

    async with house(hang, lambda ask: chat("wrong"), request_timeout_s=30.0) as h:
        door = h.open()
        got = await raw_call(door)
        assert got.status_code == 504
        assert got.headers["x-should-retry"] == "false"
        assert door.hint is Kind.CALL_TIMEOUT
        assert door.verdict is None
        assert h.servers["w1"].asks == []


async def test_a_stream_that_stalls_is_bounded_by_the_same_time(house: HouseMaker) -> None:
    async def stall(ask: Ask) -> Answer:
        await send_events(ask, [next(iter(chat_chunks()))], done=False)
        await asyncio.Event().wait()
        raise AssertionError

    async with house(stall, request_timeout_s=30.0) as h:
        door = h.open()
        stream = await client_of(door).chat.completions.create(model="m", messages=HI, stream=True)

        async def read() -> None:
            async for _ in stream:
                pass_time(30.0)

        with pytest.raises(openai.APIConnectionError) as caught:
            await read()
        assert "request_timeout" in str(caught.value.__cause__)
        assert door.hint is Kind.CALL_TIMEOUT
        assert door.verdict is None


# --- streams ------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("no_backoff")
async def test_a_stream_cut_before_its_first_byte_is_tried_elsewhere(house: HouseMaker) -> None:
    async def cut(ask: Ask) -> Answer:
        response = await send_events(ask, [], done=False)
        break_off(ask)
        return response

    async with house(cut, lambda ask: chat_chunks("all here", include_usage=True)) as h:
        door = h.open()
        stream = await client_of(door).chat.completions.create(model="m", messages=HI, stream=True)
        assert "".join([c.choices[0].delta.content or "" async for c in stream]) == "all here"
        assert [(c.worker, c.tries) for c in door.calls] == [("w1", 2)]


@pytest.mark.parametrize("end", ["killed", "closed politely"])
async def test_a_stream_that_breaks_in_the_middle_breaks_for_the_agent_and_loses_the_episode(
    house: HouseMaker, end: str
) -> None:
    async def half(ask: Ask) -> Answer:
        response = await send_events(ask, list(chat_chunks("one two three"))[:2], done=False)
        if end == "killed":
            break_off(ask)
        return response

    async with house(half, lambda ask: chat_chunks("whole")) as h:
        door = h.open()
        stream = await client_of(door).chat.completions.create(model="m", messages=HI, stream=True)
        seen = []

        async def read() -> None:
            async for chunk in stream:
                seen.append(chunk.choices[0].delta.content)

        with pytest.raises(openai.APIConnectionError) as caught:
            await read()
        assert isinstance(caught.value.__cause__, httpx2.RemoteProtocolError)
        assert "w0 broke off" in str(caught.value.__cause__)
        assert seen == ["", "one"]
        assert door.verdict is not None
        assert (door.verdict.outcome, door.verdict.kind) == (Outcome.LOST, Kind.STREAM_BROKEN)
        assert [m.worker for m in h.heard(WorkerSuspect)] == ["w0"]
        [record] = door.calls
        assert "broke off" in record.error
        assert lines(door)[0]["response"]["choices"][0]["message"]["content"] == "one"


async def test_a_connection_cut_after_the_streams_own_end_harms_nobody(house: HouseMaker) -> None:
    async def cut_late(ask: Ask) -> Answer:
        response = await send_events(ask, chat_chunks("all of it", include_usage=True))
        break_off(ask)
        return response

    async with house(cut_late) as h:
        door = h.open()
        body = {"messages": HI, "stream": True}
        got = await door.http_client().post(door.base_url + "/chat/completions", json=body)
        assert got.text.endswith("data: [DONE]\n\n")
        assert [(c.status, c.completion_tokens, c.error) for c in door.calls] == [(200, 5, "")]
        assert door.verdict is None


async def test_a_stream_to_a_worker_that_left_the_table_breaks_at_once(house: HouseMaker) -> None:
    async def stall(ask: Ask) -> Answer:
        await send_events(ask, [next(iter(chat_chunks()))], done=False)
        await asyncio.Event().wait()
        raise AssertionError

    async with house(stall) as h:
        door = h.open()
        stream = await client_of(door).chat.completions.create(model="m", messages=HI, stream=True)
        first = asyncio.Event()

        async def read() -> None:
            async for _ in stream:
                first.set()

        reading = asyncio.create_task(read())
        await first.wait()
        h.change("w0", generation=1)
        with pytest.raises(openai.APIConnectionError):
            await reading
        assert door.verdict is not None
        assert door.verdict.kind is Kind.STREAM_BROKEN


# --- agents that go away, episodes that end -----------------------------------------------------------------------


@pytest.mark.parametrize("stream", [False, True])
async def test_cancelling_the_agent_cancels_its_request_at_the_worker(house: HouseMaker, stream: bool) -> None:
    asked, reading = asyncio.Event(), asyncio.Event()

    async def hang(ask: Ask) -> Answer:
        if stream:
            await send_events(ask, [next(iter(chat_chunks()))], done=False)
        asked.set()
        await asyncio.Event().wait()
        raise AssertionError

    async with house(hang) as h:
        door = h.open()

        async def agent() -> None:
            reply = await client_of(door).chat.completions.create(model="m", messages=HI, stream=stream)
            async for _ in reply:  # type: ignore[union-attr]
                reading.set()

        playing = asyncio.create_task(agent())
        await (reading if stream else asked).wait()
        playing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await playing
        await h.servers["w0"].client_left.wait()
        [record] = door.calls
        assert record.status == 0
        assert record.error == "the agent went away"


async def test_an_agent_that_reads_a_stream_no_further_cancels_it(house: HouseMaker) -> None:
    async def endless(ask: Ask) -> Answer:
        first = list(chat_chunks("a b c"))[:2]
        await send_events(ask, first, done=False)
        await asyncio.Event().wait()
        raise AssertionError

    async with house(endless) as h:
        door = h.open()
        stream = await client_of(door).chat.completions.create(model="m", messages=HI, stream=True)
        async for _ in stream:
            break
        await stream.close()
        await h.servers["w0"].client_left.wait()
        assert [c.status for c in door.calls] == [0]
        assert door.verdict is None


async def test_closing_an_episode_records_and_cancels_what_is_on_its_way_and_refuses_the_rest(
    house: HouseMaker,
) -> None:
    asked = asyncio.Event()

    async def hang(ask: Ask) -> Answer:
        asked.set()
        await asyncio.Event().wait()
        raise AssertionError

    async with house(hang) as h:
        door = h.open()
        left_over = asyncio.create_task(raw_call(door))
        await asked.wait()
        h.forwarder.close_episode(door)
        assert [c.status for c in door.calls] == [0]
        assert len(lines(door)) == 1
        assert (await left_over).status_code == 410
        await h.servers["w0"].client_left.wait()
        late = await raw_call(door)
        assert late.status_code == 410
        assert "over" in late.json()["error"]["message"]
        assert len(door.calls) == 1
        assert door.verdict is None


async def test_a_call_that_slips_in_while_its_episode_closes_is_refused(
    house: HouseMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with house(None) as h:
        door = h.open()
        # As when another thread closes the episode between the door's check and the call's start.
        monkeypatch.setattr(door, "seed_for", lambda ask: h.forwarder.close_episode(door))
        assert (await raw_call(door)).status_code == 410
        assert h.servers["w0"].asks == []


async def test_calls_in_flight_to_a_worker_are_capped(house: HouseMaker) -> None:
    inside = most = 0
    full = asyncio.Event()

    async def answer(ask: Ask) -> Answer:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        if inside == 3:
            full.set()
        await full.wait()
        inside -= 1
        return chat()

    async with house(answer, worker_calls=3) as h:
        doors = [h.open(Episode(f"item {i}", 0)) for i in range(12)]
        await asyncio.gather(*(call(door) for door in doors))
        assert most == 3
        assert len(h.servers["w0"].asks) == 12


async def test_a_place_is_given_back_after_every_kind_of_end(house: HouseMaker) -> None:
    kinds = iter(["cancel", "400", "ok", "stream", "ok"])
    asked = asyncio.Event()

    async def answer(ask: Ask) -> Answer:
        match next(kinds):
            case "cancel":
                asked.set()
                await asyncio.Event().wait()
                raise AssertionError
            case "400":
                return error(400)
            case "stream":
                return chat_chunks()
            case _:
                return chat()

    async with house(answer, worker_calls=1) as h:
        door = h.open()
        cancelled = asyncio.create_task(call(door))
        await asked.wait()
        cancelled.cancel()
        await asyncio.wait([cancelled])
        assert (await raw_call(door)).status_code == 400
        assert await call(door) == "hello"
        stream = await client_of(door).chat.completions.create(model="m", messages=HI, stream=True)
        async for _ in stream:
            pass
        assert await call(door) == "hello"
        assert [c.status for c in door.calls] == [0, 400, 200, 200, 200]


async def test_more_than_a_hundred_calls_are_in_flight_at_once(house: HouseMaker) -> None:
    arrived = 0
    everybody = asyncio.Event()

    async def answer(ask: Ask) -> Answer:
        nonlocal arrived
        arrived += 1
        if arrived == 150:
            everybody.set()
        await everybody.wait()
        return chat()

    async with house(answer, worker_calls=200) as h:
        doors = [h.open(Episode(f"item {i}", 0)) for i in range(150)]
        replies = await asyncio.gather(*(raw_call(door) for door in doors))
        assert {r.status_code for r in replies} == {200}


# --- what no model answers ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [401, 402, 302])
async def test_a_refused_key_or_a_moved_server_goes_to_the_agent_and_is_never_its_failure(
    house: HouseMaker, status: int
) -> None:
    async with house(lambda ask: error(status, "no such key")) as h:
        door = h.open()
        assert (await raw_call(door)).status_code == status
        assert door.verdict is not None
        assert (door.verdict.outcome, door.verdict.kind) == (Outcome.LOST, Kind.UNREACHABLE)
        assert f"w0 answered {status}" in door.verdict.message
        assert "no such key" in door.verdict.message


@pytest.mark.parametrize("status", [400, 403, 404, 422])
async def test_other_refusals_are_the_agents_own(house: HouseMaker, status: int) -> None:
    async with house(lambda ask: error(status, "no")) as h:
        door = h.open()
        assert (await raw_call(door)).status_code == status
        assert door.verdict is None


async def test_a_page_instead_of_a_reply_is_not_the_agents_failure(house: HouseMaker) -> None:
    page = "<html>Please sign in</html>"
    async with house(lambda ask: web.Response(text=page, content_type="text/html")) as h:
        door = h.open()
        assert (await raw_call(door)).text == page
        assert door.verdict is not None
        assert door.verdict.outcome is Outcome.LOST
        assert "Please sign in" in door.verdict.message


@pytest.mark.parametrize("status", [429, 503])
async def test_time_that_went_into_tries_that_no_worker_answered_makes_the_episode_lost(
    house: HouseMaker, status: int
) -> None:
    async with house(lambda ask: error(status, "come back", Retry_After="20")) as h:
        door = h.open()
        asking = asyncio.create_task(raw_call(door))
        while not any(exchange.trouble for exchange in door.in_flight):  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0)
        door.out_of_time()
        assert door.verdict is not None
        assert (door.verdict.outcome, door.verdict.kind) == (Outcome.LOST, Kind.UNREACHABLE)
        assert "come back" in door.verdict.message
        asking.cancel()


async def test_time_that_a_live_worker_takes_is_the_models(house: HouseMaker) -> None:
    begun = asyncio.Event()

    async def slow(ask: Ask) -> Answer:
        begun.set()
        await asyncio.sleep(60)
        return chat()

    async with house(slow) as h:
        door = h.open()
        asking = asyncio.create_task(raw_call(door))
        await begun.wait()
        door.out_of_time()
        assert door.verdict is None
        asking.cancel()
