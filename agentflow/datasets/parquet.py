"""Parquet files, through pyarrow (extra ``parquet``)."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from agentflow.datasets.base import Row, Rows, See
from agentflow.errors import DataError, MissingExtraError

_BATCH = 1024


class ArrowRows:
    """Rows of an Arrow table: columns stay compact, a row becomes Python when it is asked for."""

    def __init__(self, table: Any, fingerprint: str) -> None:
        self._table = table
        self.fingerprint = fingerprint

    def __len__(self) -> int:
        return int(self._table.num_rows)

    def row(self, index: int) -> Row:
        """The row at ``index``."""
        (row,) = self._table.slice(index, 1).to_pylist()
        found: Row = row
        return found


def read_parquet(path: Path, see: See) -> Rows:
    """Read a Parquet file.

    Raises:
        MissingExtraError: pyarrow is not installed.
        DataError: it is no Parquet file.
    """
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as e:
        raise MissingExtraError(f"Reading {path}", "parquet") from e
    try:
        table = pyarrow.parquet.read_table(path, partitioning=None)
    except (pyarrow.ArrowException, OSError) as e:
        raise DataError(f"{path} cannot be read as Parquet: {str(e).splitlines()[0].rstrip('.')}.") from e
    with path.open("rb") as file:
        fingerprint = hashlib.file_digest(file, "sha256").hexdigest()
    number = 0
    for batch in table.to_batches(max_chunksize=_BATCH):
        for row in batch.to_pylist():
            number += 1
            see(row, number)
    return ArrowRows(table, fingerprint)
