"""Data sets: files, the Hugging Face hub, rows from Python. See ``docs/data.md``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from agentflow.datasets.base import Dataset, preview
from agentflow.datasets.files import SUFFIXES, file_reader, missing
from agentflow.datasets.hub import SHORT_NAMES, hub_name, read_hub
from agentflow.datasets.memory import pack_rows
from agentflow.datasets.selection import Options, select
from agentflow.errors import DataError

__all__ = ["PYTHON", "Dataset", "is_function", "open_dataset", "preview", "rows_dataset"]

PYTHON = "python"  # the source of rows that were given as objects

_FUNCTION = re.compile(r"(?:[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*|.+\.py):[A-Za-z_]\w*")


def open_dataset(
    source: str,
    *,
    limit: int | None = None,
    shuffle: bool = False,
    seed: int = 1,
    prompt_column: str | None = None,
    answer_column: str | None = None,
    template: str | None = None,
) -> Dataset:
    """Open a file (.jsonl, .ndjson, .json, .csv, .tsv, .parquet), ``gsm8k``, ``math500``, ``aime24``, ``aime25``, or
    any ``org/name[:split]`` of the Hugging Face hub. Every row is checked once, here.

    Args:
        source: what to open; a file wins over a name.
        limit: take the first so many items, after the shuffle.
        shuffle: order the items by a hash of seed and id.
        seed: of the shuffle.
        prompt_column: its text becomes the user's message.
        answer_column: its value becomes ``answer``.
        template: text of the user's message, with ``{column}`` for a column's value.

    Raises:
        DataError: nothing there, nothing in it, or something wrong with it; names file and line.
        MissingExtraError: Parquet or the hub needs a package that is not installed.
    """
    options = Options(limit, shuffle, seed, prompt_column, answer_column, template)
    path = Path(source).expanduser()
    if path.exists():
        read, noun = file_reader(path)
        return select(source, read, options, noun=noun)
    if is_function(source):
        raise DataError(f"{source} names a function: its rows come from a runner (rows_dataset takes them).")
    name = hub_name(source)
    if name is not None and path.suffix.lower() not in SUFFIXES:
        return select(source, lambda see: read_hub(name, see), options)
    if path.suffix or path.parent != Path("."):
        raise missing(path)
    near = get_close_matches(source, SHORT_NAMES, n=1)
    raise DataError(
        f"{source!r} is no file here and no data set's name"
        + (f"; did you mean {near[0]!r}?" if near else f": give a file, {', '.join(SHORT_NAMES)}, or org/name.")
    )


def rows_dataset(
    rows: Iterable[Mapping[str, Any]],
    *,
    source: str = PYTHON,
    limit: int | None = None,
    shuffle: bool = False,
    seed: int = 1,
    prompt_column: str | None = None,
    answer_column: str | None = None,
    template: str | None = None,
) -> Dataset:
    """A data set of rows given from Python or sent by a runner; the rest as in :func:`open_dataset`.

    Raises:
        DataError: a row is no mapping, or holds something that cannot be sent to another process.
    """
    options = Options(limit, shuffle, seed, prompt_column, answer_column, template)
    return select(source, lambda see: pack_rows(rows, see), options)


def is_function(source: str) -> bool:
    """Whether ``source`` is ``module:function`` or ``file.py:function``; a short name with a split is not."""
    if _FUNCTION.fullmatch(source) is None or Path(source).exists():
        return False
    return source.partition(":")[0] not in SHORT_NAMES
