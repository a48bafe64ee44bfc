"""The one way a reward can fail to be computed."""

from __future__ import annotations


class GraderError(Exception):
    """The reward function took too long, too much memory, crashed or raised. Never a silent 0.

    Let it leave ``run()``: the episode ends as ``failed``, kind ``grader``. The message has the input, shortened.
    """
