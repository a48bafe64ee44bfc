"""Which attempts have to be ended from outside."""

from __future__ import annotations

import asyncio

import pytest

from agentflow.agents.adapter import Ending
from agentflow.channel.messages import Play, RunnerSettings, WorkerInfo
from agentflow.episode import Episode, Kind, Outcome
from agentflow.runner.attempt import Attempt
from agentflow.runner.forward import Forwarder
from agentflow.runner.overseer import last_words, overdue

LATE = Ending(Outcome.FAILED, Kind.TIMEOUT, error="Late.")


def attempt(item: str) -> Attempt:
    it = Attempt(Play(Episode(item, 0), "agent", {}, "w0"), asyncio.get_running_loop().create_future())
    forwarder = Forwarder(RunnerSettings(), lambda _: None)
    forwarder.gateway_url = "http://127.0.0.1:1"
    forwarder.set_workers([WorkerInfo("w0", "http://127.0.0.1:9", "m")])
    it.start(forwarder.open_episode(it.play.episode, "w0"), None)
    return it


@pytest.mark.asyncio
async def test_only_what_is_past_its_deadline_is_overdue_and_the_first_deadline_stays() -> None:
    one, other = attempt("one"), attempt("other")
    one.end_by(10.0, LATE)
    one.end_by(20.0, Ending(Outcome.CANCELLED))
    assert overdue([one, other], now=9.9) == []
    assert overdue([one, other], now=10.0) == [(one, LATE)]


@pytest.mark.asyncio
async def test_who_blocks_the_main_thread_past_its_timeout_is_overdue_and_nobody_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Attempt, "spent_s", lambda self: 0.0)
    guilty, victim = attempt("guilty"), attempt("victim")
    blocked = {"blocked_by": guilty.scope, "limit_s": 5.0, "grace_s": 1.0}
    assert overdue([guilty, victim], 0.0, blocked_s=5.9, **blocked) == []
    ((found, ending),) = overdue([guilty, victim], 0.0, blocked_s=6.1, **blocked)
    assert found is guilty
    assert (ending.outcome, ending.kind) == (Outcome.FAILED, Kind.TIMEOUT)


@pytest.mark.asyncio
async def test_last_words_are_said_once() -> None:
    late, reported = attempt("late"), attempt("reported")
    assert reported.claim()
    (ended,) = last_words(
        [(late, LATE), (reported, LATE)], runner="runner-0", secrets=frozenset(), where="agent.py:3 in run"
    )
    assert ended.message.episode == late.play.episode
    assert ended.message.result.error == "Late. It is at agent.py:3 in run."
    assert not late.claim()
