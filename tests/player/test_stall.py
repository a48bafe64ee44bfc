"""The watch on an event loop."""

from __future__ import annotations

import asyncio
import re
import time

import pytest

from agentflow.runner.stall import StallWatch

Reports = list[tuple[float, str]]


def block(seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(0.01)


async def beats(watch: StallWatch, reports: Reports, count: int) -> None:
    async with asyncio.timeout(30):
        while len(reports) < count:  # noqa: ASYNC110 - a thread reports
            await asyncio.sleep(0.01)


@pytest.mark.asyncio
async def test_a_stall_is_reported_once_with_its_length_and_the_users_code() -> None:
    reports: Reports = []
    with StallWatch(0.2, lambda seconds, where: reports.append((seconds, where))) as watch:
        await asyncio.sleep(0.1)
        block(1.0)
        await beats(watch, reports, 1)
    ((seconds, where),) = reports
    assert seconds > 0.9
    assert re.fullmatch(r"tests/player/test_stall.py:\d+ in block", where)


@pytest.mark.asyncio
async def test_the_clock_leaves_a_stall_out_and_charges_it_to_its_holder() -> None:
    reports: Reports = []
    with StallWatch(0.2, lambda *report: reports.append(report), holder=lambda: "guilty") as watch:
        await asyncio.sleep(0.1)
        before, at = watch.now(), time.monotonic()
        block(1.0)
        assert watch.now() - before <= 0.2
        await beats(watch, reports, 1)
        assert watch.now() - before < time.monotonic() - at - 0.7
        assert watch.caused_s("guilty") > 0.7
        assert watch.caused_s("innocent") == 0.0
        watch.forget("guilty")
        assert watch.caused_s("guilty") == 0.0


@pytest.mark.asyncio
async def test_the_clock_never_goes_back_and_runs_as_time_does_without_stalls() -> None:
    with StallWatch(2.0, lambda *_: None) as watch:
        began, last = time.monotonic(), watch.now()
        while time.monotonic() - began < 1.0:
            await asyncio.sleep(0.02)
            now = watch.now()
            assert now >= last
            last = now
        assert last == pytest.approx(time.monotonic() - began, abs=0.1)


@pytest.mark.asyncio
async def test_an_excused_block_is_no_stall_and_takes_no_time_on_the_clock() -> None:
    reports: Reports = []
    with StallWatch(0.1, lambda *report: reports.append(report)) as watch:
        before, at = watch.now(), time.monotonic()
        with watch.excused():
            block(1.0)
            assert watch.blocked_s() == 0.0
        assert watch.now() - before < time.monotonic() - at - 0.9
        await asyncio.sleep(0.1)
    assert reports == []


@pytest.mark.asyncio
async def test_a_stall_that_lasts_is_reported_in_pieces_that_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentflow.runner.stall.REPORT_EVERY_S", 0.5)
    reports: Reports = []
    with StallWatch(0.1, lambda *report: reports.append(report)) as watch:
        await asyncio.sleep(0.05)
        at = time.monotonic()
        block(1.6)
        lasted = time.monotonic() - at
        pieces = len(reports)
        assert pieces >= 2
        await beats(watch, reports, pieces + 1)
    assert sum(seconds for seconds, _ in reports) == pytest.approx(lasted, abs=0.15)
