from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio
from translate_door import Door, serve


@pytest_asyncio.fixture
async def door() -> AsyncIterator[Door]:
    async with serve() as door:
        yield door
