"""Reading ``episodes.jsonl``. Also while a controller writes it: a last line without its end is not there yet."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from agentflow.episode import EpisodeResult
from agentflow.errors import StoreError
from agentflow.store.files import EPISODES, read_error

Key = tuple[str, int]  # item id, sample index

_decoder = msgspec.json.Decoder(EpisodeResult)
_BLOCK = 1 << 16


def read_attempts(run_dir: Path) -> list[EpisodeResult]:
    """Every line of ``episodes.jsonl``, in the order in which they were written.

    Raises:
        StoreError: the file cannot be read, or a line of it is broken; names the line.
    """
    return list(_lines(run_dir / EPISODES))


def read_results(run_dir: Path) -> list[EpisodeResult]:
    """The results that count: the last line of each episode, without those that are being tried again.

    Raises:
        StoreError: as :func:`read_attempts`.
    """
    return [r for r in latest(_lines(run_dir / EPISODES)).values() if r.final]


def latest(attempts: Iterable[EpisodeResult]) -> dict[Key, EpisodeResult]:
    """The last line of each episode, final or not."""
    return {(r.item_id, r.sample_index): r for r in attempts}


def drop_torn_line(path: Path) -> int:
    """Cut off a last line that is not whole, durably; returns how many bytes. A missing file has none.

    A line is whole when it ends and is JSON. A line that is JSON but not an episode is left for the reader to refuse.

    Raises:
        StoreError: the file cannot be read or cut.
    """
    try:
        with open(path, "r+b") as f:
            size = f.seek(0, os.SEEK_END)
            start, line = _last_line(f.fileno(), size)
            if not line or (line.endswith(b"\n") and _is_json(line)):
                return 0
            f.truncate(start)
            os.fsync(f.fileno())
            return size - start
    except FileNotFoundError:
        return 0
    except OSError as e:
        raise read_error(path, e) from e


def _last_line(fd: int, size: int) -> tuple[int, bytes]:
    """Offset and bytes of the last line, with its end if it has one."""
    tail, start = b"", size
    while start > 0:
        step = min(_BLOCK, start)
        start -= step
        tail = os.pread(fd, step, start) + tail
        end = tail.rfind(b"\n", 0, len(tail) - 1)
        if end >= 0:
            return start + end + 1, tail[end + 1 :]
    return 0, tail


def _is_json(line: bytes) -> bool:
    try:
        msgspec.json.decode(line, type=msgspec.Raw)
    except msgspec.DecodeError:
        return False
    return True


def _lines(path: Path) -> Iterator[EpisodeResult]:
    try:
        with open(path, "rb") as f:
            for number, line in enumerate(f, 1):
                if not line.endswith(b"\n"):
                    return
                try:
                    yield _decoder.decode(line)
                except msgspec.DecodeError as e:
                    raise StoreError(
                        f"{path}, line {number} is broken ({e}): restore it from a copy, or delete that line; "
                        f"a resume then plays its episode again."
                    ) from e
    except OSError as e:
        raise read_error(path, e) from e
