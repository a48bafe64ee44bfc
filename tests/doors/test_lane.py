"""The counted entrance to a worker, across event loops."""

from __future__ import annotations

import asyncio
import threading

import pytest

from agentflow.runner.lane import Lane


@pytest.mark.asyncio
async def test_places_are_given_out_first_come_first_served() -> None:
    lane = Lane(1)
    assert lane.try_enter()
    assert not lane.try_enter()
    order: list[int] = []

    async def visit(i: int) -> None:
        assert await lane.enter()
        order.append(i)
        lane.leave()

    async with asyncio.TaskGroup() as group:
        for i in range(5):
            group.create_task(visit(i))
            await asyncio.sleep(0)
        lane.leave()
    assert order == [0, 1, 2, 3, 4]
    assert lane.try_enter()


@pytest.mark.asyncio
async def test_a_cancelled_waiter_takes_no_place_even_when_it_was_granted_one() -> None:
    lane = Lane(1)
    assert lane.try_enter()
    waiting = asyncio.create_task(lane.enter())
    await asyncio.sleep(0)
    waiting.cancel()
    lane.leave()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert lane.try_enter()

    granted = asyncio.create_task(lane.enter())
    await asyncio.sleep(0)
    lane.leave()  # granted from here on
    granted.cancel()
    with pytest.raises(asyncio.CancelledError):
        await granted
    assert lane.try_enter()


@pytest.mark.asyncio
async def test_closing_sends_those_who_wait_away() -> None:
    lane = Lane(1)
    assert lane.try_enter()
    waiting = asyncio.create_task(lane.enter())
    await asyncio.sleep(0)
    lane.close()
    assert not await waiting
    assert not await lane.enter()
    assert not lane.try_enter()


@pytest.mark.asyncio
async def test_a_waiter_whose_loop_is_gone_is_passed_over() -> None:
    lane = Lane(1)
    assert lane.try_enter()
    dead = asyncio.new_event_loop()
    abandoned = dead.create_task(lane.enter())
    dead.call_soon(dead.stop)
    await asyncio.to_thread(dead.run_forever)
    dead.close()
    waiting = asyncio.create_task(lane.enter())
    await asyncio.sleep(0)
    lane.leave()
    assert await waiting
    assert not abandoned.done()


def test_two_loops_never_hold_more_places_than_there_are() -> None:
    lane = Lane(3)
    inside = 0
    most = 0
    lock = threading.Lock()

    async def visit() -> None:
        nonlocal inside, most
        assert await lane.enter()
        with lock:
            inside += 1
            most = max(most, inside)
        await asyncio.sleep(0)
        with lock:
            inside -= 1
        lane.leave()

    async def crowd() -> None:
        await asyncio.gather(*(visit() for _ in range(300)))

    threads = [threading.Thread(target=asyncio.run, args=(crowd(),)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 3
    assert inside == 0
    assert all(lane.try_enter() for _ in range(3))
    assert not lane.try_enter()
