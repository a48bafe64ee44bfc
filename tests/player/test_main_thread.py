"""Plain functions of the user run as a script would run them."""

from __future__ import annotations

import asyncio
import threading
from functools import partial

import anyio
import pytest

from agentflow.runner.main_thread import MainThread


async def seven() -> int:
    await asyncio.sleep(0)
    return 7


def run_sync_of_openai_agents() -> object:
    from agents import Agent, Runner, set_tracing_disabled
    from agents.models.interface import Model, ModelProvider

    class Broken(ModelProvider):
        def get_model(self, model_name: str | None) -> Model:
            raise LookupError("reached the model")

    from agents import RunConfig

    set_tracing_disabled(True)
    try:
        return Runner.run_sync(Agent(name="a"), "hi", run_config=RunConfig(model_provider=Broken()))
    except LookupError as e:
        return str(e)


@pytest.mark.asyncio
async def test_a_plain_function_may_run_loops_of_its_own() -> None:
    main = MainThread()
    assert await main.call(lambda: asyncio.run(seven())) == 7
    assert await main.call(lambda: anyio.run(seven)) == 7
    assert await main.call(lambda: asyncio.new_event_loop().run_until_complete(seven())) == 7
    assert await main.call(run_sync_of_openai_agents) == "reached the model"
    assert await main.call(run_sync_of_openai_agents) == "reached the model"
    assert await main.call(threading.current_thread) is threading.main_thread()
    assert await seven() == 7  # and the loop itself goes on
    main.close()


@pytest.mark.asyncio
async def test_what_it_raises_is_raised_where_it_is_awaited() -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        await MainThread().call(partial(int, "x"))


@pytest.mark.asyncio
async def test_a_call_that_is_cancelled_before_it_begins_is_not_made() -> None:
    called: list[int] = []
    task = asyncio.ensure_future(MainThread().call(lambda: called.append(1)))
    asyncio.get_running_loop().call_soon(task.cancel)  # runs before the call does
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.sleep(0)
    assert called == []
