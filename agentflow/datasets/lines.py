"""JSONL, CSV and TSV: an index of byte offsets is held, rows are read from the file when they are asked for."""

from __future__ import annotations

import csv
import hashlib
import io
import os
import sys
from array import array
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec

from agentflow.datasets.base import Row, See
from agentflow.errors import DataError

BOM = b"\xef\xbb\xbf"


class FileRows:
    """Rows that lie in a file as separate byte ranges.

    The file is opened anew for every row, so that nothing has to be closed, and refused once it is another file or
    has been written to: the offsets would lie.
    """

    def __init__(
        self, path: Path, stat: os.stat_result, fingerprint: str, spans: Spans, parse: Callable[[bytes], Row]
    ) -> None:
        self._path = path
        self._version = _version(stat)
        self._spans = spans
        self._parse = parse
        self.fingerprint = fingerprint

    def __len__(self) -> int:
        return len(self._spans.starts)

    def row(self, index: int) -> Row:
        """The row at ``index``; raises DataError when the file changed since it was opened."""
        try:
            with self._path.open("rb") as file:
                if _version(os.fstat(file.fileno())) != self._version:
                    raise DataError(f"{self._path} was changed while it was in use: start again with the new file.")
                file.seek(self._spans.starts[index])
                return self._parse(file.read(self._spans.lengths[index]))
        except OSError as e:
            raise DataError(f"{self._path} can no longer be read: {e.strerror}.") from e


class Spans:
    """Byte ranges of the rows: 16 bytes a row."""

    def __init__(self) -> None:
        self.starts = array("Q")
        self.lengths = array("Q")

    def add(self, start: int, end: int) -> None:
        self.starts.append(start)
        self.lengths.append(end - start)


class _Lines:
    """Iterates over the text lines of a file, keeping count of lines and bytes and hashing as it goes."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self._path = path
        self._file = file
        self._digest = hashlib.sha256()
        self.number = 0  # of the line last given out, from 1
        self.start = 0  # its byte range, without a byte order mark
        self.end = 0

    def __iter__(self) -> Iterator[bytes]:
        for line in self._file:
            self._digest.update(line)
            self.number += 1
            self.start = self.end
            self.end += len(line)
            if self.number == 1 and line.startswith(BOM):
                self.start += len(BOM)
                line = line[len(BOM) :]
            yield line

    def text(self) -> Iterator[str]:
        for line in self:
            yield decode(line, self._path, self.number)

    @property
    def fingerprint(self) -> str:
        return self._digest.hexdigest()


def read_jsonl(path: Path, see: See) -> FileRows:
    """Index a file of one JSON object a line; empty lines are skipped.

    Raises:
        DataError: a line is not UTF-8 or not JSON; names the line.
    """
    parse = msgspec.json.Decoder().decode
    spans = Spans()
    with path.open("rb") as file:
        lines = _Lines(path, file)
        for line in lines:
            if not line.strip():
                continue
            try:
                row = parse(line)
            except (msgspec.MsgspecError, UnicodeDecodeError) as e:
                decode(line, path, lines.number)  # an encoding is a clearer reason than what JSON makes of it
                raise DataError(
                    f"{path}, line {lines.number} is not JSON: {e}. A .jsonl file holds one object a line, "
                    f'such as {{"messages": [...], "answer": "42"}}.'
                ) from e
            see(row, lines.number)
            spans.add(lines.start, lines.end)
        return FileRows(path, os.fstat(file.fileno()), lines.fingerprint, spans, parse)


def read_csv(path: Path, see: See, *, delimiter: str) -> FileRows:
    """Index a table with a header line; every value is text. Quoted fields may hold line breaks.

    Raises:
        DataError: wrong encoding, a header with a missing or repeated name, a row with more or fewer fields than
            the header, a quote that never ends; names the line.
    """
    csv.field_size_limit(sys.maxsize)  # Python's own limit of 128 KiB a field is one nobody expects
    spans = Spans()
    with path.open("rb") as file:
        lines = _Lines(path, file)
        records = csv.reader(lines.text(), delimiter=delimiter, strict=True)
        number, start = 1, 0
        header: list[str] | None = None
        try:
            for fields in records:
                if header is None:
                    header = _checked_header(fields, path)
                elif fields:
                    if len(fields) != len(header):
                        raise DataError(
                            f"{path}, line {number} has {len(fields)} fields where the header has {len(header)} "
                            f"({', '.join(header)}): quote fields that hold a {_name(delimiter)}."
                        )
                    see(dict(zip(header, fields, strict=True)), number)
                    spans.add(start, lines.end)
                number, start = lines.number + 1, lines.end
        except csv.Error as e:
            raise DataError(f"{path}, line {number}: {e}; every quoted field must end with a quote.") from e
        columns = tuple(header or ())

        def parse(record: bytes) -> Row:
            text = (line.decode("utf-8") for line in io.BytesIO(record))
            (fields,) = csv.reader(text, delimiter=delimiter, strict=True)
            return dict(zip(columns, fields, strict=True))

        return FileRows(path, os.fstat(file.fileno()), lines.fingerprint, spans, parse)


def decode(data: bytes, path: Path, line: int) -> str:
    """UTF-8 text of one line; raises DataError that names file, line and byte."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as e:
        raise DataError(
            f"{path}, line {line} is not UTF-8 (byte 0x{data[e.start]:02x}): save the file as UTF-8, for instance with "
            f"iconv -f LATIN1 -t UTF-8."
        ) from e


def _checked_header(fields: list[str], path: Path) -> list[str]:
    names = [field.strip() for field in fields]
    if "" in names:
        raise DataError(f"{path}, line 1: column {names.index('') + 1} of the header has no name.")
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise DataError(f"{path}, line 1: the header names the column {twice[0]!r} twice.")
    return names


def _name(delimiter: str) -> str:
    return "tab" if delimiter == "\t" else "comma"


def _version(stat: os.stat_result) -> tuple[int, int, int]:
    return stat.st_ino, stat.st_size, stat.st_mtime_ns
