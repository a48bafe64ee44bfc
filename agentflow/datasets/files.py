"""Which reader a file gets, and what is wrong with a file before anything of it can be read."""

from __future__ import annotations

import codecs
import hashlib
from collections.abc import Callable
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from agentflow.datasets.base import Rows, See
from agentflow.datasets.lines import BOM, decode, read_csv, read_jsonl
from agentflow.datasets.memory import pack_rows
from agentflow.datasets.parquet import read_parquet
from agentflow.errors import DataError

SUFFIXES = (".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".parquet")
_DELIMITERS = {".csv": ",", ".tsv": "\t"}
_WIDE_BOMS = (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def file_reader(path: Path) -> tuple[Callable[[See], Rows], str]:
    """How to read this file, and what its rows are counted in ("line" or "row").

    Raises:
        DataError: it is missing, a directory, not readable, empty, of an unknown kind, or UTF-16.
    """
    suffix = path.suffix.lower()
    if path.is_dir():
        inside = sorted(p.name for p in path.iterdir() if p.suffix.lower() in SUFFIXES)
        hint = f"name a file in it, such as {path / inside[0]}" if inside else "name a file"
        raise DataError(f"{path} is a directory: {hint}.")
    if not path.exists():
        raise missing(path)
    if suffix not in SUFFIXES:
        raise DataError(f"{path} has no known kind: give a file that ends in {', '.join(SUFFIXES)}.")
    if not path.is_file():
        raise DataError(f"{path} is not a regular file: rows are read from it more than once, so copy it into one.")
    _check_start(path, text=suffix != ".parquet")
    if suffix == ".json" and not _looks_like_jsonl(path):
        return partial(_read_json, path), "row"
    if suffix == ".parquet":
        return partial(read_parquet, path), "row"
    if suffix in _DELIMITERS:
        return partial(read_csv, path, delimiter=_DELIMITERS[suffix]), "line"
    return partial(read_jsonl, path), "line"


def missing(path: Path) -> DataError:
    """The error for a file that is not there, with the nearest name beside it."""
    folder = path.parent
    if not folder.is_dir():
        return DataError(f"{path} does not exist: there is no directory {folder}.")
    near = get_close_matches(path.name, [p.name for p in folder.iterdir()], n=1)
    hint = f"did you mean {folder / near[0]}?" if near else f"look at what is in {folder.resolve()}."
    return DataError(f"{path} does not exist; {hint}")


def _check_start(path: Path, *, text: bool) -> None:
    try:
        with path.open("rb") as file:
            start = file.read(1024)
    except OSError as e:
        raise DataError(f"{path} cannot be read: {e.strerror}.") from e
    if not start or start == BOM:
        raise DataError(f"{path} is empty.")
    if text and (start.startswith(_WIDE_BOMS) or b"\0" in start):
        raise DataError(f"{path} is UTF-16 or binary, not UTF-8 text: save it as UTF-8, for instance with iconv.")


def _looks_like_jsonl(path: Path) -> bool:
    """Many files named .json hold JSON lines: the first line is an object of its own and more follow."""
    with path.open("rb") as file:
        first = file.readline().removeprefix(BOM)
        if not file.read(64).strip():
            return False
    try:
        return isinstance(msgspec.json.decode(first), dict)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return False


def _read_json(path: Path, see: See) -> Rows:
    data = path.read_bytes()
    text = data.removeprefix(BOM)
    try:
        rows = _rows_of_document(msgspec.json.decode(text), path)
    except (msgspec.MsgspecError, UnicodeDecodeError) as e:
        for number, line in enumerate(text.splitlines(), 1):
            decode(line, path, number)
        raise DataError(f"{path} is not JSON: {_with_line(str(e), text)}.") from e
    return pack_rows(rows, see, fingerprint=hashlib.sha256(data).hexdigest())


def _rows_of_document(document: Any, path: Path) -> list[Any]:
    if isinstance(document, list):
        return document
    if isinstance(document, dict):
        lists = [key for key, value in document.items() if isinstance(value, list)]
        if len(lists) == 1 and len(document) == 1:
            rows: list[Any] = document[lists[0]]
            return rows
        keys = ", ".join(map(repr, list(document)[:8]))
        raise DataError(
            f"{path} holds one object (with {keys or 'nothing'}), not a list of rows: save the list alone, "
            f"or one row a line as .jsonl."
        )
    raise DataError(f"{path} holds neither a list nor an object: it must be a list of rows.")


def _with_line(message: str, text: bytes) -> str:
    """msgspec counts bytes; editors count lines."""
    before, found, position = message.rpartition("(byte ")
    if not found:
        return message
    line = text.count(b"\n", 0, int(position.rstrip(")"))) + 1
    return f"{before.strip()} (line {line})"
