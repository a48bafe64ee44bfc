"""The process that plays episodes: ``python -m agentflow.runner.main``, started by a scheduler.

It reads where the controller is from its environment (:class:`agentflow.channel.client.Address`), and ends with

- 0: drained, or told to end by SIGTERM;
- 74: the controller cannot be reached, or is gone;
- 75: user code does not let go of the process; its episodes are reported, start another runner;
- 64: it was not started by a scheduler.

SIGINT is ignored: a terminal's Ctrl-C reaches the whole process group, and the controller decides what it means.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
import threading

from agentflow.channel.client import Address
from agentflow.errors import AgentflowError
from agentflow.runner.descendants import kill_descendants
from agentflow.runner.environment import CONTROL_VARIABLES
from agentflow.runner.leave import EXIT_CHANNEL, terminated
from agentflow.runner.shell import Shell

EXIT_USAGE = 64  # os.EX_USAGE
FINALIZE_S = 5.0  # for atexit functions and threads of user code, before the process ends without them
GARBAGE_THRESHOLD = 10_000  # new objects; at Python's 700, looking at live episodes took 7 % of a busy loop's time
SETTLE_S = 1.0  # for tasks that user code left, to see their cancellation


def main() -> None:
    """Play until drained, then exit; never returns."""
    try:
        address = Address.from_environment()
    except (KeyError, ValueError, OSError) as e:
        print(
            f"agentflow.runner.main is started by a scheduler of agentflow: {e!r} in its environment.", file=sys.stderr
        )
        sys.exit(EXIT_USAGE)
    for name in CONTROL_VARIABLES:
        os.environ.pop(name, None)
    raise_file_limit()
    gc.set_threshold(GARBAGE_THRESHOLD)
    code = _run(address)
    kill_descendants()
    timer = threading.Timer(FINALIZE_S, end_process, (code,))
    timer.daemon = True
    timer.start()
    sys.exit(code)


def end_process(code: int) -> None:
    """End now: no ``atexit``, no waiting for threads. From any thread."""
    kill_descendants()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):  # closed, or its reader is gone
            continue
    os._exit(code)


def raise_file_limit() -> None:
    """Allow as many open files as the system lets us: every call in flight is a socket or two."""
    try:
        import resource
    except ImportError:  # Windows
        return
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (ValueError, OSError):  # macOS refuses "unlimited"; what there is has to do
        return


def _run(address: Address) -> int:
    loop = asyncio.new_event_loop()
    shell = Shell(address, loop, end_process)
    # Functions of Python, not SIG_IGN: that would be inherited by the children of agents.
    signal.signal(signal.SIGINT, lambda *_: None)
    signal.signal(signal.SIGTERM, lambda *_: shell.leave(terminated()))
    main_task = loop.create_task(shell.run())
    main_task.add_done_callback(lambda _: loop.stop())
    while not main_task.done():
        try:
            loop.run_forever()
        except (SystemExit, KeyboardInterrupt) as e:
            # asyncio lets these out of the loop; here they come from a task or callback of an agent.
            print(f"An agent's task raised {e!r}; the runner goes on.", file=sys.stderr)
    try:
        code = main_task.result()
    except AgentflowError as e:
        print(e, file=sys.stderr)
        return EXIT_CHANNEL
    if left := asyncio.all_tasks(loop):
        for task in left:
            task.cancel()
        loop.run_until_complete(asyncio.wait(left, timeout=SETTLE_S))
    return code


if __name__ == "__main__":
    main()
