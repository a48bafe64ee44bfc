"""The one thread that writes results: it takes all that wait, writes and syncs them together, then says so.

Group commit: while one batch is being synced the next one gathers, so a thousand waiting results cost two ``fsync``
and a lone one is not held back. Traces are durable before the episode lines that point to them.
"""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from agentflow.episode import EpisodeResult, TraceRef
from agentflow.errors import StoreError
from agentflow.store.files import EPISODES, TOOLS, TRACES, write_error


@dataclass(frozen=True, eq=False)
class Entry:
    """An attempt to be written: its result, and its trace as whole JSON lines."""

    result: EpisodeResult
    trace: bytes = b""


@dataclass(frozen=True)
class Written:
    """What became of an entry: the result as it was written, or why it was not."""

    entry: Entry
    outcome: EpisodeResult | StoreError


@dataclass(frozen=True)
class _ToolList:
    hash: str
    data: bytes


class _Stop:
    pass


@dataclass
class _Batch:
    entries: list[Entry] = field(default_factory=list)
    stop: bool = False


class AppendFile:
    """A file that only grows. What lies before ``end`` is durable; :meth:`rollback` cuts off the rest."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self.end = os.fstat(self._fd).st_size

    def append(self, data: bytes) -> None:
        """Write and sync. Raises OSError; some of ``data`` may then lie behind ``end``."""
        view = memoryview(data)
        while view:
            view = view[os.write(self._fd, view) :]
        os.fsync(self._fd)
        self.end += len(data)

    def rollback(self, end: int) -> None:
        """Cut the file to ``end`` bytes, durably. Raises OSError."""
        os.ftruncate(self._fd, end)
        os.fsync(self._fd)
        self.end = end

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)


class Writer:
    """Starts its thread at once; :meth:`close` ends it.

    Args:
        run_dir: the directory; its files are created where they are missing.
        deliver: called in the writer thread with the fate of each batch.

    Raises:
        OSError: a file cannot be opened.
    """

    def __init__(self, run_dir: Path, deliver: Callable[[Sequence[Written]], None]) -> None:
        self._deliver = deliver
        self._queue: queue.SimpleQueue[Entry | _ToolList | _Stop] = queue.SimpleQueue()
        self._tool_lists: dict[str, bytes] = {}  # not yet durable
        self._refusal: StoreError | None = None
        self._encoder = msgspec.json.Encoder()
        self._tools = AppendFile(run_dir / TOOLS)
        self._traces = AppendFile(run_dir / TRACES)
        self._episodes = AppendFile(run_dir / EPISODES)
        self._thread = threading.Thread(target=self._run, name="store-writer", daemon=True)
        self._thread.start()

    def submit(self, entry: Entry) -> None:
        """Queue an entry; ``deliver`` tells when it is durable."""
        self._queue.put(entry)

    def add_tool_list(self, hash: str, data: bytes) -> None:
        """Queue a tool list; it becomes durable no later than the next entry."""
        self._queue.put(_ToolList(hash, data))

    def close(self, timeout_s: float) -> bool:
        """Write all that waits and end the thread; False when the file system did not answer in time."""
        self._queue.put(_Stop())
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        stop = False
        while not stop:
            batch = self._gather()
            stop = batch.stop
            written = self._write(batch.entries)
            if written:
                self._deliver(written)
        for file in (self._tools, self._traces, self._episodes):
            file.close()

    def _gather(self) -> _Batch:
        batch = _Batch()
        while True:
            try:
                thing = self._queue.get(block=not batch.entries and not batch.stop)
            except queue.Empty:
                return batch
            match thing:
                case Entry():
                    batch.entries.append(thing)
                case _ToolList(hash=hash, data=data):
                    self._tool_lists[hash] = data
                case _Stop():
                    batch.stop = True

    def _write(self, entries: Sequence[Entry]) -> list[Written]:
        if self._refusal is not None:
            return [Written(entry, self._refusal) for entry in entries]
        traces, lines = bytearray(), bytearray()
        written: list[Written] = []
        for entry in entries:
            ref = TraceRef(self._traces.end + len(traces), len(entry.trace)) if entry.trace else None
            result = msgspec.structs.replace(entry.result, trace=ref)
            try:
                line = self._encoder.encode(result)
            except (ValueError, TypeError, OverflowError, RecursionError) as e:
                sentence = f"The result of episode {result.id} cannot be written as JSON: {e}"
                written.append(Written(entry, StoreError(sentence)))
                continue
            traces += entry.trace
            lines += line + b"\n"
            written.append(Written(entry, result))
        error = self._commit(bytes(traces), bytes(lines))
        if error is None:
            return written
        return [Written(w.entry, w.outcome if isinstance(w.outcome, StoreError) else error) for w in written]

    def _commit(self, traces: bytes, lines: bytes) -> StoreError | None:
        tools = b"".join(
            b'{"tools":' + self._encoder.encode(hash) + b',"schema":' + data + b"}\n"
            for hash, data in self._tool_lists.items()
        )
        todo = [(self._tools, tools), (self._traces, traces), (self._episodes, lines)]
        before = [(file, file.end) for file, _ in todo]
        file = self._tools
        try:
            for file, data in todo:
                if data:
                    file.append(data)
        except OSError as e:
            return self._undo(before, write_error(file.path, e))
        self._tool_lists.clear()
        return None

    def _undo(self, before: Sequence[tuple[AppendFile, int]], error: StoreError) -> StoreError:
        try:
            for file, end in before:
                file.rollback(end)
        except OSError as e:
            # Half a line may lie at the end of a file. Nothing may be written behind it: at the end of the file a
            # resume drops it, in the middle it would be damage.
            self._refusal = StoreError(f"{error} (Cutting off what was half written failed too: {e.strerror or e}.)")
            return self._refusal
        return error
