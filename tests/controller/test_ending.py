"""What status.json says of a controller that is over."""

import asyncio

import pytest

from agentflow.controller.ending import ending
from agentflow.errors import WorkerError
from agentflow.store.status import Ended


@pytest.mark.parametrize(
    ("error", "interrupted", "said"),
    [
        (None, False, Ended(7.0)),
        (None, True, Ended(7.0, "user")),
        (asyncio.CancelledError(), True, Ended(7.0, "user")),  # a second Ctrl-C
        (asyncio.CancelledError(), False, Ended(7.0, "caller")),
        (WorkerError("No worker."), True, Ended(7.0, "error", "No worker.")),
        (ZeroDivisionError("division by zero"), False, Ended(7.0, "error", "ZeroDivisionError: division by zero")),
    ],
    ids=str,
)
def test_an_end_has_a_time_who_stopped_it_and_the_error(error: BaseException, interrupted: bool, said: Ended) -> None:
    assert ending(error, interrupted, 7.0) == said
