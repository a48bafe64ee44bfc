"""The watch on an event loop."""

from __future__ import annotations

import asyncio
import re
import time

import pytest

from agentflow.runner.stall import StallWatch

IN_BLOCK = re.compile(r"tests/player/test_stall.py:\d+ in block")


class Reports:
    """What a watch reports of :func:`block`; a busy machine has stalls of its own."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def __call__(self, seconds: float, where: str) -> None:
        if IN_BLOCK.fullmatch(where):
            self.seconds.append(seconds)

    async def come(self, count: int) -> None:
        async with asyncio.timeout(30):
            while len(self.seconds) < count:  # noqa: ASYNC110 - a thread reports
                await asyncio.sleep(0.01)


def block(seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(0.01)


@pytest.mark.asyncio
async def test_a_stall_is_reported_once_with_its_length_and_the_users_code() -> None:
    reports = Reports()
    with StallWatch(0.3, reports):
        await asyncio.sleep(0)
        block(1.5)
        await reports.come(1)
    assert len(reports.seconds) == 1
    assert reports.seconds[0] > 1.4


@pytest.mark.asyncio
async def test_the_clock_leaves_a_stall_out_and_charges_it_to_its_holder() -> None:
    reports = Reports()
    with StallWatch(0.3, reports, holder=lambda: "guilty") as watch:
        await asyncio.sleep(0)
        before, at = watch.now(), time.monotonic()
        block(1.5)
        assert watch.now() - before <= 0.3
        await reports.come(1)
        assert watch.now() - before < time.monotonic() - at - 1.1
        assert watch.caused_s("guilty") > 1.1
        assert watch.caused_s("innocent") == 0.0
        watch.forget("guilty")
        assert watch.caused_s("guilty") == 0.0


@pytest.mark.asyncio
async def test_the_clock_never_goes_back_and_runs_as_time_does_without_stalls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentflow.runner.stall.BEATS_PER_THRESHOLD", 600)
    entering = time.monotonic()
    with StallWatch(60.0, lambda *_: None) as watch:
        entered, last = time.monotonic(), 0.0
        while last < 1.0:
            await asyncio.sleep(0.02)
            earliest, now, latest = time.monotonic(), watch.now(), time.monotonic()
            assert now >= last
            assert earliest - entered - 1e-6 <= now <= latest - entering + 1e-6
            last = now


@pytest.mark.asyncio
async def test_an_excused_block_is_no_stall_and_takes_no_time_on_the_clock() -> None:
    reports = Reports()
    with StallWatch(0.3, reports) as watch:
        before, at = watch.now(), time.monotonic()
        with watch.excused():
            block(1.0)
            assert watch.blocked_s() == 0.0
        assert watch.now() - before < time.monotonic() - at - 0.9
    assert reports.seconds == []


@pytest.mark.asyncio
async def test_a_stall_that_lasts_is_reported_in_pieces_that_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentflow.runner.stall.REPORT_EVERY_S", 0.5)
    reports = Reports()
    entering = time.monotonic()
    with StallWatch(0.3, reports):
        await asyncio.sleep(0)
        blocking = time.monotonic()
        while len(reports.seconds) < 2:
            block(0.1)
            assert time.monotonic() - blocking < 60
        blocked = time.monotonic() - blocking
        await reports.come(3)
    assert blocked <= sum(reports.seconds) <= time.monotonic() - entering
