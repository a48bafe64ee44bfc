"""The run directory as the controller holds it: locked, appended to, durable."""

from __future__ import annotations

import asyncio
import math
import shutil
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Self

import anyio
import msgspec
from anyio import to_thread

from agentflow.episode import EpisodeResult, Outcome
from agentflow.errors import RunExistsError, StoreError, UsageError
from agentflow.store.files import (
    EPISODES,
    LOCK,
    LOGS,
    MANIFEST,
    TOOLS,
    TRACES,
    sync_directory,
    write_error,
)
from agentflow.store.lock import RunLock
from agentflow.store.manifest import Manifest, read_manifest, write_manifest
from agentflow.store.reader import Key, drop_torn_line, latest, read_attempts
from agentflow.store.writer import Entry, Writer, Written

WRITE_TIMEOUT_S = 300.0  # for one batch: a network file system that hangs longer than this is reported


class Store:
    """An open run directory. Made by :meth:`create` or :meth:`open`; used from one event loop."""

    def __init__(self, run_dir: Path, manifest: Manifest, results: dict[Key, EpisodeResult]) -> None:
        self.run_dir = run_dir
        self.manifest = manifest
        self._results = results
        self._waiting: dict[Entry, asyncio.Future[EpisodeResult]] = {}
        self._tool_lists: set[str] = set()
        self._loop = asyncio.get_running_loop()
        try:
            self._writer = Writer(run_dir, self._deliver)
        except OSError as e:
            raise write_error(run_dir / EPISODES, e) from e

    @classmethod
    @asynccontextmanager
    async def create(cls, run_dir: Path, manifest: Manifest) -> AsyncIterator[Self]:
        """Make a new run directory and hold it until the block ends.

        Raises:
            RunExistsError: there is a run already; names the resume command.
            RunLockedError: another controller is making this very run.
            StoreError: it cannot be written.
        """
        run_dir = Path(await anyio.Path(run_dir).absolute())  # an agent played inline may change the working directory
        lock = await to_thread.run_sync(_make, run_dir, manifest)
        async with cls._held(run_dir, manifest, {}, lock) as store:
            yield store

    @classmethod
    @asynccontextmanager
    async def open(cls, run_dir: Path) -> AsyncIterator[Self]:
        """Hold an existing run directory until the block ends, to go on with it. A torn last line is dropped.

        Raises:
            RunLockedError: another controller holds it; names host and pid.
            StoreError: it is no run directory, a line of it is broken, or it cannot be written.
        """
        run_dir = Path(await anyio.Path(run_dir).absolute())
        lock, manifest, results = await to_thread.run_sync(_reopen, run_dir)
        async with cls._held(run_dir, manifest, results, lock) as store:
            yield store

    @classmethod
    @asynccontextmanager
    async def _held(
        cls, run_dir: Path, manifest: Manifest, results: dict[Key, EpisodeResult], lock: RunLock
    ) -> AsyncIterator[Self]:
        try:
            store = cls(run_dir, manifest, results)
            try:
                yield store
            finally:
                with anyio.CancelScope(shield=True):
                    ended = await to_thread.run_sync(store._writer.close, WRITE_TIMEOUT_S)
            if not ended:
                raise _silent(run_dir)
        finally:
            with anyio.CancelScope(shield=True):
                await to_thread.run_sync(lock.release)

    @property
    def results(self) -> Mapping[Key, EpisodeResult]:
        """The last line of each episode, by (item id, sample index): also one that is being tried again."""
        return MappingProxyType(self._results)

    async def append(self, result: EpisodeResult, trace: Sequence[bytes] = ()) -> EpisodeResult:
        """Write the end of an attempt; returns once it is durable, with ``trace`` filled in.

        A caller that is cancelled while it waits does not stop the write.

        Args:
            trace: chunks that joined are JSON lines. A last line that is not whole (its runner died) is left out.

        Raises:
            StoreError: the disk is full, the file system failed or hangs, or a number is not finite. Nothing that was
                written before is harmed, and nothing of this attempt is kept.
        """
        _check_numbers(result)
        lines = b"".join(trace)
        entry = Entry(result, lines[: lines.rfind(b"\n") + 1])
        done: asyncio.Future[EpisodeResult] = self._loop.create_future()
        self._waiting[entry] = done
        self._writer.submit(entry)
        try:
            async with asyncio.timeout(WRITE_TIMEOUT_S):
                return await done
        except TimeoutError as e:
            raise _silent(self.run_dir) from e
        finally:
            self._waiting.pop(entry, None)

    def add_schema(self, hash: str, data: bytes) -> None:
        """Keep a tool list (JSON text) under its hash; durable no later than the next :meth:`append`.

        Raises:
            StoreError: it is no JSON.
        """
        if hash in self._tool_lists:
            return
        try:
            line = msgspec.json.format(data, indent=-1)  # an agent may have sent it over several lines
        except msgspec.DecodeError as e:
            raise StoreError(f"The tool list {hash} is no JSON: {e}") from e
        self._tool_lists.add(hash)
        self._writer.add_tool_list(hash, line)

    async def write_manifest(self, manifest: Manifest) -> None:
        """Replace ``run.json``, for a resume with more items or samples. Raises StoreError."""
        await to_thread.run_sync(write_manifest, self.run_dir, manifest)
        self.manifest = manifest

    def _deliver(self, written: Sequence[Written]) -> None:
        """In the writer thread: one wake-up of the loop a batch."""
        self._loop.call_soon_threadsafe(self._settle, written)

    def _settle(self, written: Sequence[Written]) -> None:
        for one in written:
            if isinstance(one.outcome, EpisodeResult):
                self._results[one.outcome.item_id, one.outcome.sample_index] = one.outcome
            done = self._waiting.get(one.entry)
            if done is None or done.done():  # its caller was cancelled meanwhile
                continue
            if isinstance(one.outcome, StoreError):
                done.set_exception(one.outcome)
            else:
                done.set_result(one.outcome)


def discard_unused(run_dir: Path) -> None:
    """Remove a run directory in which no episode was written; one with results is let be."""
    episodes = run_dir / EPISODES
    if episodes.exists() and episodes.stat().st_size == 0 and not (run_dir / LOCK).exists():
        shutil.rmtree(run_dir, ignore_errors=True)


def _make(run_dir: Path, manifest: Manifest) -> RunLock:
    if _is_run(run_dir):
        raise _exists(run_dir)
    try:
        run_dir.mkdir(parents=True, exist_ok=True)
    except OSError as e:
        place = "set cluster.fileroot to a folder that can be written"
        raise UsageError(f"The run directory {run_dir} cannot be made ({e.strerror or e}): {place}.") from e
    lock = RunLock.acquire(run_dir)
    try:
        if _is_run(run_dir):
            raise _exists(run_dir)
        # run.json comes last: where it is, the other files are.
        (run_dir / LOGS).mkdir(exist_ok=True)
        for name in (EPISODES, TRACES, TOOLS):
            (run_dir / name).touch()
        write_manifest(run_dir, manifest)
        sync_directory(run_dir.parent)
    except OSError as e:
        lock.release()
        raise write_error(run_dir, e) from e
    except BaseException:
        lock.release()
        raise
    return lock


def _reopen(run_dir: Path) -> tuple[RunLock, Manifest, dict[Key, EpisodeResult]]:
    read_manifest(run_dir)  # before the lock, so that no lock file is left in a directory that is no run
    lock = RunLock.acquire(run_dir)
    try:
        for name in (EPISODES, TRACES, TOOLS):
            drop_torn_line(run_dir / name)
        return lock, read_manifest(run_dir), latest(read_attempts(run_dir))
    except BaseException:
        lock.release()
        raise


def _is_run(run_dir: Path) -> bool:
    episodes = run_dir / EPISODES
    return (run_dir / MANIFEST).exists() or (episodes.exists() and episodes.stat().st_size > 0)


def _exists(run_dir: Path) -> RunExistsError:
    return RunExistsError(
        f"{run_dir} holds a run already: go on with it by 'agentflow resume {run_dir}', or choose another trial_name."
    )


def _silent(run_dir: Path) -> StoreError:
    return StoreError(
        f"The file system of {run_dir} did not finish a write within {WRITE_TIMEOUT_S:.0f} s: see whether it hangs, "
        f"then run: agentflow resume {run_dir}"
    )


def _check_numbers(result: EpisodeResult) -> None:
    if result.outcome is Outcome.SCORED and result.reward is None:
        raise StoreError(f"The result of episode {result.id} cannot be written: it is scored, but has no reward.")
    numbers = {"reward": result.reward, **result.metrics, **result.call_rewards}
    for name, value in numbers.items():
        if value is not None and not math.isfinite(value):
            raise StoreError(
                f"The result of episode {result.id} cannot be written: {name} is {value}, which JSON has no word for; "
                f"such an episode is 'failed' with kind 'invalid_reward'."
            )
