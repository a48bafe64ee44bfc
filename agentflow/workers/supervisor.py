"""The process beside an engine: starts it, vouches for it, ends with it. ``python -m agentflow.workers.supervisor``.

It is told by the controller which engine to start. It ends with code 0 when it is told to stop, and with 1 when the
engine is given up or the controller is gone for too long; the engine ends before it in every case.
"""

from __future__ import annotations

import signal
import socket
import sys
import time

import aiohttp
import anyio
import msgspec
from anyio.abc import TaskGroup, TaskStatus

from agentflow.channel.client import Address, ChannelClosedError
from agentflow.channel.messages import (
    EngineLoad,
    Goodbye,
    Heartbeat,
    StartEngine,
    StopEngine,
    ToProcess,
    WorkerDown,
    WorkerInfo,
    WorkerUp,
)
from agentflow.errors import AgentflowError, ConfigError
from agentflow.processes.guarded import GRACE_S
from agentflow.workers.engine_process import EngineProcess, running
from agentflow.workers.engines import ENGINES
from agentflow.workers.engines.base import Engine
from agentflow.workers.lifecycle import Down, Lifecycle, Up
from agentflow.workers.link import Link
from agentflow.workers.own_address import own_address

FIRST_CONTACT_S = 60.0  # for the controller to be reached before it has told us its own grace
FAREWELL_S = 5.0  # for the last message, which a controller that hangs would hold up


class Supervisor:
    """One engine's. Use :meth:`run`."""

    def __init__(self, address: Address) -> None:
        self._name = address.name
        self._controller_url = address.url
        self._link = Link(address, "supervisor", FIRST_CONTACT_S)
        self._spec: StartEngine | None = None
        self._told = anyio.Event()  # what to start
        self._grace_s = GRACE_S
        self._tasks: TaskGroup
        self._error = ""

    async def run(self) -> int:
        """Until told to stop, or until it cannot go on; the exit code."""
        async with anyio.create_task_group() as self._tasks:
            await self._tasks.start(self._obey_sigterm)
            self._tasks.start_soon(self._hold_link)
            self._tasks.start_soon(self._keep_engine)
        # The engine has ended by now.
        if self._error:
            print(self._error, file=sys.stderr, flush=True)
        return 1 if self._error else 0

    def _stop(self, error: str = "") -> None:
        self._error = error
        self._tasks.cancel_scope.cancel()

    async def _obey_sigterm(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        with anyio.open_signal_receiver(signal.SIGTERM) as signals:
            task_status.started()
            async for _ in signals:
                await self._say_goodbye("told to stop by SIGTERM")
                self._stop()

    async def _hold_link(self) -> None:
        try:
            await self._link.hold(self._receive)
        except ChannelClosedError as e:
            self._stop(f"{self._name} ends and takes its engine along. {e}")

    async def _receive(self, message: ToProcess) -> None:
        match message:
            case StartEngine() if self._spec is None:
                self._spec = message
                self._link.grace_s = message.orphan_grace_s
                self._told.set()
            case StopEngine():
                self._grace_s = message.grace_s
                await self._say_goodbye("told to stop")
                self._stop()
            case _:
                pass  # StartEngine again, from a controller that we connected to again: it runs

    async def _keep_engine(self) -> None:
        await self._told.wait()
        assert self._spec is not None
        spec = self._spec
        try:
            if not spec.host:
                spec = msgspec.structs.replace(spec, host=own_address(self._controller_url, spec.interface))
            await self._keep(spec, engine_of(spec))
        except AgentflowError as e:
            await self._give_up(WorkerDown(self._name, str(e)))

    async def _keep(self, spec: StartEngine, engine: Engine) -> None:
        life = Lifecycle(
            deadline_s=spec.deadline_s,
            max_restarts=spec.max_restarts,
            hang_s=spec.hang_s,
            heartbeat_s=spec.heartbeat_s,
        )
        async with aiohttp.ClientSession(trust_env=False) as session:
            while True:
                async with running(engine, spec) as process:
                    try:
                        down = await self._watch(life, process, engine, spec, session)
                    finally:
                        process.grace_s = self._grace_s
                    error = f"{spec.engine} of {self._name} on {socket.gethostname()} {down.reason}"
                    error += f": {why}" if (why := await process.cause()) else "."
                    restarting = down.restart_in_s is not None
                    message = WorkerDown(self._name, error, await process.log_tail(), restarting)
                    if restarting:  # said before a hung engine is killed, which takes its grace
                        await self._link.set_status(message)
                if down.restart_in_s is None:
                    await self._give_up(message)
                    return
                await anyio.sleep(down.restart_in_s)

    async def _watch(
        self,
        life: Lifecycle,
        process: EngineProcess,
        engine: Engine,
        spec: StartEngine,
        session: aiohttp.ClientSession,
    ) -> Down:
        """Until this start of the engine is over, or is to be ended."""
        life.started(time.monotonic())
        while True:
            if how := await process.exited(life.probe_in_s):
                return life.exited(time.monotonic(), how, port_lost=process.port_lost())
            healthy = await process.healthy(session)
            load = await process.load(session)
            match life.probed(time.monotonic(), healthy=healthy, tokens=None if load is None else tokens(load)):
                case Up(generation):
                    process.drop_secret_files()
                    info = WorkerInfo(
                        name=self._name,
                        url=process.url,
                        model=engine.model_name(spec),
                        api_key=spec.api_key,
                        apis=engine.apis,
                        generation=generation,
                    )
                    await self._link.set_status(WorkerUp(info, process.pid, socket.gethostname()))
                case Down() as down:
                    return down
            if healthy:
                await self._link.say(Heartbeat(self._name, load or EngineLoad()))

    async def _give_up(self, message: WorkerDown) -> None:
        with anyio.move_on_after(FAREWELL_S):
            await self._link.set_status(message)
        await self._say_goodbye(message.error)
        self._stop(f"{message.error}\n{message.log_tail}".rstrip())

    async def _say_goodbye(self, reason: str) -> None:
        with anyio.move_on_after(FAREWELL_S):
            await self._link.say(Goodbye(reason))


def engine_of(spec: StartEngine) -> Engine:
    """Raises ConfigError when there is none of that name."""
    try:
        return ENGINES[spec.engine]
    except KeyError:
        raise ConfigError(f"There is no engine {spec.engine}: known are {', '.join(ENGINES)}.") from None


def tokens(load: EngineLoad) -> int | None:
    """The sum of the counters that move while an engine works; None where it has none."""
    counters = [c for c in (load.prompt_tokens, load.generated_tokens) if c is not None]
    return sum(counters) if counters else None


def main() -> int:
    """The exit code."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the controller's to handle
    try:
        address = Address.from_environment()
    except (KeyError, OSError, ValueError) as e:
        print(f"A supervisor is started by a scheduler, which sets its environment: {e!r}.", file=sys.stderr)
        return 2
    return anyio.run(Supervisor(address).run)


if __name__ == "__main__":
    sys.exit(main())
