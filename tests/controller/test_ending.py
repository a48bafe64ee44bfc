"""What status.json says of a controller that is over."""

import asyncio

import pytest

from agentflow.controller.ending import ending, was_refused
from agentflow.errors import ResumeRefusedError, WorkerError
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


def test_only_a_resume_that_did_nothing_leaves_the_end_of_its_run_as_it_was() -> None:
    refused = ResumeRefusedError("Other data.")
    assert was_refused(refused, resumed=True, recorded=False)
    assert not was_refused(refused, resumed=False, recorded=False)
    assert not was_refused(refused, resumed=True, recorded=True)  # a later mistake in the block of a caller
    assert not was_refused(WorkerError("No worker."), resumed=True, recorded=False)
    assert not was_refused(None, resumed=True, recorded=False)
