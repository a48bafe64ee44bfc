import asyncio

import anyio
import pytest

from agentflow.controller.background import background
from agentflow.errors import StoreError, WorkerError


async def fails(error: Exception) -> None:
    raise error


async def with_tasks(*errors: Exception) -> None:
    async with background() as tasks:
        for error in errors:
            tasks.start_soon(fails, error)
        await anyio.sleep_forever()


@pytest.mark.asyncio
async def test_an_error_of_the_block_comes_out_as_it_is_with_its_cause_and_ends_the_tasks() -> None:
    cancelled = asyncio.Event()

    async def lasts() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            cancelled.set()

    async def block() -> None:
        async with background() as tasks:
            tasks.start_soon(lasts)
            await anyio.lowlevel.checkpoint()
            raise StoreError("full") from OSError("no space")

    with pytest.raises(StoreError) as caught:
        await block()
    assert cancelled.is_set()
    assert isinstance(caught.value.__cause__, OSError)


@pytest.mark.asyncio
async def test_an_error_of_a_task_ends_the_block_and_comes_out_as_it_is() -> None:
    with pytest.raises(WorkerError):
        await with_tasks(WorkerError("dead"))


@pytest.mark.asyncio
async def test_two_errors_stay_a_group() -> None:
    with pytest.raises(ExceptionGroup):
        await with_tasks(WorkerError("dead"), StoreError("full"))
