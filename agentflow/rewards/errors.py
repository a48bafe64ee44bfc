"""The one way a reward can fail to be computed."""

from __future__ import annotations


class GraderError(Exception):
    """The reward function took too long, too much memory, crashed or raised. Never a silent 0.

    Let it leave ``run()``: the episode ends as ``failed``, kind ``grader``. The message has the input, shortened.

    Args:
        message: for a reader.
        why: the cause alone, as a clause.
    """

    def __init__(self, message: str, why: str = "") -> None:
        super().__init__(message)
        self.why = why
