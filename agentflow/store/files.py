"""The files of a run directory: their names, and writing a small one so that a crash leaves the old or the new."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path

from agentflow.errors import NotARunError, StoreError

MANIFEST = "run.json"
EPISODES = "episodes.jsonl"
TRACES = "traces.jsonl"
TOOLS = "tools.jsonl"
SUMMARY = "summary.json"
LOGS = "logs"
LOCK = "run.lock"


def write_atomically(path: Path, data: bytes) -> None:
    """Replace ``path`` by ``data``, durably; a reader or a crash sees the old file or the new one, never half of it.

    Raises:
        StoreError: the file cannot be written.
    """
    temporary = path.with_name(f".{path.name}.new")
    try:
        try:
            with open(temporary, "wb") as f:
                f.write(data)
                f.flush()
                os.fsync(f.fileno())
            os.replace(temporary, path)
        except OSError:
            with suppress(OSError):
                temporary.unlink()
            raise
        sync_directory(path.parent)
    except OSError as e:
        raise write_error(path, e) from e


def sync_directory(path: Path) -> None:
    """Make the names in a directory durable. File systems that cannot (some network ones say EINVAL) are let off."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    except OSError as e:
        if e.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(fd)


def write_error(path: Path, error: OSError) -> StoreError:
    """The sentence for a write that failed."""
    todo = {
        errno.ENOSPC: "free some space there",
        errno.EDQUOT: "free some of your quota there",
        errno.EACCES: "make it writable",
        errno.EROFS: "make the file system writable",
        errno.EFBIG: "raise the limit on file sizes (ulimit -f)",
    }.get(error.errno or 0, "look at the file system")
    return StoreError(
        f"Cannot write {path} ({error.strerror or error}); what was written before is intact: {todo}, "
        f"then run: agentflow resume {path.parent}"
    )


def read_error(path: Path, error: OSError) -> StoreError:
    """The sentence for a file that cannot be read."""
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        near = _near_run(path.parent)
        hint = f"; did you mean {near}?" if near else "."
        return NotARunError(
            f"{path} does not exist: {path.parent} is not a run directory, or the file was removed{hint}"
        )
    return StoreError(f"Cannot read {path}: {error.strerror or error}.")


def _near_run(missing: Path) -> Path | None:
    """A run directory beside one that does not exist, with nearly its name."""
    if missing.exists():
        return None
    try:
        names = [entry.name for entry in os.scandir(missing.parent) if entry.is_dir()]
    except OSError:
        return None
    near = get_close_matches(missing.name, names, n=3)
    return next((run for name in near if (run := missing.with_name(name)).joinpath(MANIFEST).is_file()), None)
