"""What a data set is to the rest of the house, and what a source of rows is to a data set."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from agentflow.episode import Item

Row = dict[str, Any]

See = Callable[[Any, int], None]
"""Called by a source once for each row, in order, with the row and its line or row number; raises DataError."""


class Dataset(Protocol):
    """A sized set of items with random access; it never holds a million parsed rows.

    Attributes:
        source: the file, hub name or function that it was opened from.
        recipe: name of the rule that makes ``messages`` and ``answer`` ("none": rows are passed as they are).
        fingerprint: sha256 of the raw bytes of the file, or of the rows where there is no file. Covers the whole
            source, whatever was selected.
        ids: item ids in order of selection; unique.
    """

    @property
    def source(self) -> str: ...
    @property
    def recipe(self) -> str: ...
    @property
    def fingerprint(self) -> str: ...
    @property
    def ids(self) -> Sequence[str]: ...

    def __len__(self) -> int: ...

    def item(self, index: int) -> Item:
        """Item at ``index`` of the selection, its ``data`` with the recipe applied."""

    def raw(self, index: int) -> Row:
        """The row at ``index`` of the selection as the source has it."""


class Rows(Protocol):
    """Rows of one source, read on demand."""

    @property
    def fingerprint(self) -> str: ...

    def __len__(self) -> int: ...

    def row(self, index: int) -> Row:
        """The row at ``index`` of the source; raises DataError when the source changed under us."""


def preview(dataset: Dataset, n: int = 3) -> list[Item]:
    """The first ``n`` items as an agent receives them."""
    return [dataset.item(index) for index in range(min(n, len(dataset)))]
