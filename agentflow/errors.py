"""Every failure a user can meet, on one page.

Each is raised with one sentence that says what is wrong, where, and what to do. The command line prints that
sentence and exits with ``exit_code``; ``--debug`` shows the traceback. How an *episode* can end is not here but in
:class:`agentflow.episode.Outcome`: an agent's exception never becomes one of these.
"""

from __future__ import annotations

import os

EXIT_COMPLETE = 0
EXIT_LOST = 3  # the run is over, but some episodes stayed lost
EXIT_USAGE = 2  # nothing was run: the command, a file or the machine does not fit
EXIT_ERROR = 1  # the run stopped on an error; what was played is saved
EXIT_INTERRUPTED = 130  # Ctrl-C; what was played is saved


def system_reason(error: OSError) -> str:
    """What the system says of a connection that failed, such as ``Connection refused``."""
    # asyncio puts the address where the system's reason was; a name that does not resolve has an errno below 0.
    return os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror or str(error)


class AgentflowError(Exception):
    """Base of all below."""

    exit_code = EXIT_ERROR


class UsageError(AgentflowError):
    """What the user wrote does not fit; nothing has been started."""

    exit_code = EXIT_USAGE


class ConfigError(UsageError):
    """A configuration key or value is unknown, of the wrong type, or contradicts another."""


class AllocationError(ConfigError):
    """A backend string such as ``sglang:d4t2`` breaks the grammar."""


class DataError(UsageError):
    """A data file cannot be read; names file and line."""


class AgentLoadError(UsageError):
    """The agent cannot be found, imported or constructed."""


class MissingExtraError(UsageError):
    """An optional dependency is needed; names the extra to install."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f"{what} needs the extra '{extra}': run pip install '.[{extra}]' in a checkout of agentflow.")


class RunExistsError(UsageError):
    """The run directory exists already; names the resume command."""


class RunLockedError(UsageError):
    """Another controller holds the run directory; names host and pid."""


class ResumeRefusedError(UsageError):
    """What decides the score changed since the run began; lists the differences. ``--force`` overrides."""


class StoreError(AgentflowError):
    """The run directory cannot be read or written (disk full, permission, a broken line)."""


class NotARunError(StoreError):
    """There is no run directory where the user said."""

    exit_code = EXIT_USAGE


class SchedulerError(AgentflowError):
    """A scheduler refused or cannot start what was asked (too few GPUs, no such partition)."""


class WorkerError(AgentflowError):
    """No worker became healthy; carries the tail of the engine's log."""


class RunnerError(AgentflowError):
    """No runner came up, or runners cannot reach the workers; names both ends."""


class RewardKeyError(AgentflowError):
    """``run()`` returns several named metrics and none is the headline: set ``reward_key``."""


class WaitTimeoutError(AgentflowError, TimeoutError):
    """``wait()`` did not see enough results in time. Nothing is lost: wait again."""
