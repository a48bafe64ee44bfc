"""One start of an engine: its process, its port, its log, and what it answers."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import aiohttp
import anyio

from agentflow.channel.messages import EngineLoad, StartEngine
from agentflow.errors import WorkerError
from agentflow.processes import guarded
from agentflow.processes.logtail import tail
from agentflow.workers.engines.base import Engine, Launch
from agentflow.workers.engines.cause import cause
from agentflow.workers.ports import free_port, is_free

PROBE_S = 5.0  # SGLang's /health takes a little more than one second
LOG_LINES, LOG_BYTES = 20_000, 2 * 1024 * 1024  # read for the cause of a death
NOT_FOR_ENGINES = ("AGENTFLOW_TOKEN", "AGENTFLOW_TOKEN_FILE")  # the run's, for the control channel
UNREACHABLE = (aiohttp.ClientError, OSError, TimeoutError)


class EngineProcess:
    """A running engine. Get one from :func:`running`."""

    def __init__(
        self,
        engine: Engine,
        spec: StartEngine,
        port: int,
        process: guarded.GuardedProcess,
        log_start: int,
        secret_files: Sequence[Path],
    ) -> None:
        self._engine = engine
        self._spec = spec
        self._port = port
        self._process = process
        self._log_start = log_start
        self._secret_files = secret_files
        host = f"[{spec.host}]" if ":" in spec.host else spec.host
        self.url = f"http://{host}:{port}"
        self.grace_s = guarded.GRACE_S  # to end in, at the end of the block

    @property
    def pid(self) -> int:
        return self._process.pid

    async def exited(self, within_s: float) -> str | None:
        """How it ended, if it ends within that time; None when it still runs."""
        with anyio.move_on_after(within_s):
            return guarded.ending(await self._process.wait())
        return None

    def port_lost(self) -> bool:
        """Of an engine that has ended: whether another process has its port."""
        return not is_free(self._spec.host, self._port, after_a_server=True)

    async def healthy(self, session: aiohttp.ClientSession) -> bool:
        """Whether it says so in time."""
        return await self._get(session, self._engine.health_path) is not None

    def drop_secret_files(self) -> None:
        """It is up, so it has read them."""
        for path in self._secret_files:
            path.unlink(missing_ok=True)

    async def load(self, session: aiohttp.ClientSession) -> EngineLoad | None:
        """Its own counters; None when they do not come in time."""
        metrics = await self._get(session, self._engine.metrics_path)
        return None if metrics is None else self._engine.load(metrics)

    async def _get(self, session: aiohttp.ClientSession, path: str) -> str | None:
        headers = {"Authorization": f"Bearer {self._spec.api_key}"}
        timeout = aiohttp.ClientTimeout(total=PROBE_S)
        try:
            async with session.get(self.url + path, headers=headers, timeout=timeout) as reply:
                return await reply.text() if reply.status == 200 else None
        except UNREACHABLE:
            return None

    async def cause(self) -> str | None:
        """The first error that this start named in its log, if any."""
        lines = await anyio.to_thread.run_sync(
            lambda: tail(Path(self._spec.log_path), LOG_LINES, since=self._log_start, max_bytes=LOG_BYTES)
        )
        return cause(lines)

    async def log_tail(self) -> str:
        """The last lines that this start wrote."""
        return await anyio.to_thread.run_sync(lambda: tail(Path(self._spec.log_path), since=self._log_start))


@asynccontextmanager
async def running(engine: Engine, spec: StartEngine) -> AsyncIterator[EngineProcess]:
    """Start the engine on a free port; it and all its descendants are gone when the block ends.

    Raises:
        UsageError: the engine refuses the spec.
        WorkerError: no port, or the log cannot be written.
    """
    engine.check(spec)
    port = free_port(spec.host)
    launch = engine.render(spec, port)
    log = Path(spec.log_path)
    log_start = _announce(log, launch)
    with _files(launch):
        ours = {k: v for k, v in os.environ.items() if k not in NOT_FOR_ENGINES}
        env = {**ours, **launch.env, **launch.secret_env}
        process = await guarded.start(launch.argv, env=env, log=log)
        started = EngineProcess(engine, spec, port, process, log_start, [Path(p) for p in launch.secret_files])
        try:
            yield started
        finally:
            with anyio.CancelScope(shield=True):  # bounded: see GuardedProcess.stop
                await process.stop(started.grace_s)


def _announce(log: Path, launch: Launch) -> int:
    """Write into the log what is started; where in it the engine's own output begins."""
    shown = [f"{k}={v}" for k, v in sorted(launch.env.items())]
    line = f"--- {time.strftime('%Y-%m-%d %H:%M:%S')} {shlex.join(['env', *shown, *launch.argv])}\n"
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("a", encoding="utf-8") as f:
            f.write(line)
            return f.tell()
    except OSError as e:
        raise WorkerError(f"The engine's log {log} cannot be written: {e.strerror}.") from e


@contextmanager
def _files(launch: Launch) -> Iterator[None]:
    """They exist, 0600, at most while the engine runs."""
    contents = {Path(path): text for path, text in {**launch.files, **launch.secret_files}.items()}
    try:
        for path, text in contents.items():
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with open(descriptor, "w", encoding="utf-8") as f:
                f.write(text)
        yield
    finally:
        for path in contents:
            path.unlink(missing_ok=True)
