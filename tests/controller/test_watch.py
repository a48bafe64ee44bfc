"""An endpoint is asked where a call had trouble with it, and what follows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import anyio
import anyio.lowlevel
import pytest

from agentflow.channel.messages import WorkerInfo
from agentflow.controller import endpoints
from agentflow.controller.background import background
from agentflow.controller.endpoints import Outage, Watch, hopeless, outage_text, why_away
from agentflow.controller.workers import Workers
from agentflow.errors import WorkerError
from tests.scripted import Answer, Ask, error, scripted


class Asked:
    """Answers in turn; then sets ``all`` and says nothing more."""

    def __init__(self, answers: Sequence[str | None]) -> None:
        self.answers = list(answers)
        self.heard: list[str | None] = []
        self.all = anyio.Event()

    async def __call__(self) -> str | None:
        if not self.answers:
            self.all.set()
            await anyio.sleep_forever()
        return self.answers.pop(0)

    def changed(self, outage: Outage | None) -> None:
        self.heard.append(outage.reason if outage else None)


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoints, "ASK_AGAIN_S", 0.0)


async def watched(answers: Sequence[str | None], on_away: Callable[[], None] = lambda: None) -> list[str | None]:
    asked = Asked(answers)
    watch = Watch(asked, asked.changed, on_away)
    async with background() as tasks:
        tasks.start_soon(watch.run)
        while not asked.all.is_set():
            watch.suspect()
            await anyio.lowlevel.checkpoint()
    return asked.heard


@pytest.mark.asyncio
@pytest.mark.usefixtures("at_once")
async def test_a_call_that_failed_at_an_endpoint_that_answers_changes_nothing() -> None:
    assert await watched([None, None]) == []


@pytest.mark.asyncio
@pytest.mark.usefixtures("at_once")
async def test_an_outage_begins_once_and_ends_once() -> None:
    assert await watched(["refused", "refused", "reset", None, None, "refused", None]) == [
        "refused",
        None,
        "refused",
        None,
    ]


def test_away_is_what_gives_no_answer_or_says_that_nobody_is_behind_it_unlike_before() -> None:
    assert why_away("Connection refused", 400) == "Connection refused"
    assert why_away(503, 400) == "it answers 503"
    assert why_away(503, 503) is None
    assert why_away(400, 400) is None
    assert why_away(401, 400) is None


@pytest.mark.asyncio
@pytest.mark.usefixtures("at_once")
async def test_an_endpoint_that_loads_its_model_is_not_back_yet() -> None:
    status, changed, asked = 400, anyio.Event(), anyio.Event()

    def answer(ask: Ask) -> Answer:
        assert (ask.path, ask.body) == ("/v1/chat/completions", {"model": "m"})
        asked.set()
        return error(status)

    said: list[str] = []
    async with scripted(answer) as server, background() as tasks:
        workers = Workers([WorkerInfo("endpoint-0", server.url, "m", is_external=True)], lambda: changed.set())
        tasks.start_soon(workers.look_after, "endpoint-0", 1000.0, said.append)
        await asked.wait()
        status = 503
        while not changed.is_set():  # its first answer may still be on its way
            workers.suspect("endpoint-0")
            await anyio.lowlevel.checkpoint()
        assert "(it answers 503)" in said[0]
        changed, asked = anyio.Event(), anyio.Event()
        await asked.wait()
        assert not changed.is_set()
        status = 400
        await changed.wait()
        assert workers.placeable() == ("endpoint-0",)


def test_there_is_no_hope_once_every_endpoint_of_a_role_has_been_away_for_so_long() -> None:
    long, short = Outage(0.0, "", ""), Outage(9.0, "", "")
    assert hopeless([long], now=10.0, patience_s=10.0)
    assert not hopeless([long, short], now=10.0, patience_s=10.0)
    assert not hopeless([long, None], now=10.0, patience_s=10.0)


def test_an_outage_is_told_with_the_address_and_what_follows() -> None:
    info, outage = WorkerInfo("endpoint-0", "http://h:1", "m"), Outage(0.0, "12:03:04", "Connection refused")
    begin = "endpoint-0 at http://h:1 cannot be reached since 12:03:04 (Connection refused): "
    assert outage_text(info, outage, elsewhere=False) == f"{begin}nothing new starts until it is back."
    assert outage_text(info, outage, elsewhere=True) == f"{begin}calls go elsewhere until it is back."


@pytest.mark.asyncio
@pytest.mark.usefixtures("at_once")
async def test_an_endpoint_is_down_in_the_table_and_the_status_until_it_is_back() -> None:
    async with scripted() as server:
        url = server.url
    said: list[str] = []
    changed = anyio.Event()
    workers = Workers([WorkerInfo("endpoint-0", url, "m", is_external=True)], lambda: changed.set())
    async with background() as tasks:
        tasks.start_soon(workers.look_after, "endpoint-0", 1000.0, said.append)
        await anyio.wait_all_tasks_blocked()
        assert workers.placeable() == ("endpoint-0",)
        workers.suspect("endpoint-0")
        await changed.wait()
        assert workers.placeable() == ()
        (status,) = workers.status(lambda name: 0)
        assert (status.state, status.note.endswith(": Connection refused")) == ("down", True)
        changed = anyio.Event()
        async with scripted(port=int(url.rpartition(":")[2])):
            await changed.wait()
        assert workers.placeable() == ("endpoint-0",)
        assert workers.status(lambda name: 0)[0].state == "up"
    assert len(said) == 2
    assert said[0].endswith("(Connection refused): nothing new starts until it is back.")
    assert said[1].startswith(f"endpoint-0 at {url} is back after ")


@pytest.mark.asyncio
@pytest.mark.usefixtures("at_once")
async def test_an_endpoint_that_is_away_for_longer_than_the_patience_ends_the_run() -> None:
    async with scripted() as server:
        url = server.url
    workers = Workers([WorkerInfo("endpoint-0", url, "m", is_external=True)], lambda: None)

    async def until_given_up() -> None:
        async with background() as tasks:
            tasks.start_soon(workers.look_after, "endpoint-0", 0.0, lambda sentence: None)
            await anyio.wait_all_tasks_blocked()
            workers.suspect("endpoint-0")
            await anyio.sleep_forever()

    with pytest.raises(WorkerError, match=f"endpoint-0 at {url} could not be reached for rollout.setup_timeout"):
        await until_given_up()


@pytest.mark.asyncio
@pytest.mark.usefixtures("at_once")
async def test_no_episode_starts_while_a_role_with_endpoints_of_its_own_has_none() -> None:
    async with scripted() as server:
        gone = server.url
    changed = anyio.Event()
    known = [WorkerInfo("endpoint-0", "http://h:1", "m"), WorkerInfo("endpoint-1", gone, "j", role="judge")]
    workers = Workers(known, changed.set)
    assert workers.placeable() == ("endpoint-0",)
    async with background() as tasks:
        tasks.start_soon(workers.look_after, "endpoint-1", 1000.0, lambda sentence: None)
        await anyio.wait_all_tasks_blocked()
        workers.suspect("endpoint-1")
        await changed.wait()
        assert workers.healthy() == ("endpoint-0",)
        assert workers.placeable() == ()
