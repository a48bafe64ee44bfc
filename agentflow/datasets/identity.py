"""Ids of items: the row's own ``id``, else a hash of the raw row. And the order that a seed gives to ids."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Sequence
from typing import Any

import msgspec

from agentflow.datasets.base import Row
from agentflow.errors import DataError


def plain(value: Any) -> Any:
    """``enc_hook`` for msgspec: numpy scalars and arrays as plain Python; anything else has no place in a row."""
    to_list = getattr(value, "tolist", None)
    if callable(to_list):
        return to_list()
    raise TypeError(f"a {type(value).__module__}.{type(value).__qualname__} is not plain data")


_canonical = msgspec.json.Encoder(order="sorted", enc_hook=plain)


def canonical(row: Row) -> bytes:
    """The row as JSON with sorted keys: the same bytes whatever file format or key order it came in."""
    return _canonical.encode(row)


class Identities:
    """Gives every row its id, in order, and refuses a second row with the same one. ``noun``: what is numbered."""

    def __init__(self, source: str, noun: str) -> None:
        self._source = source
        self._noun = noun
        self._numbers = array("Q")
        self._seen: set[str] = set()
        self._copies: dict[str, int] = {}
        self.ids: list[str] = []

    def add(self, row: Row, number: int) -> None:
        """Raises DataError on a duplicate or unusable ``id`` of the row with that line or row number."""
        item_id = own_id(row)
        if item_id is None:
            raise DataError(
                f"{self._source}, {self._noun} {number}: the id is {row['id']!r}; an id must be a string or a number "
                f"(leave the column out to have ids made from the rows)."
            )
        if item_id == "":
            item_id = self._hashed(row)
        elif item_id in self._seen:
            first = self._numbers[self.ids.index(item_id)]
            raise DataError(
                f"{self._source}, {self._noun} {number}: the id {item_id!r} is used already in {self._noun} {first}; "
                f"give every row an id of its own, or leave the column out to have ids made from the rows."
            )
        self._seen.add(item_id)
        self._numbers.append(number)
        self.ids.append(item_id)

    def _hashed(self, row: Row) -> str:
        digest = hashlib.blake2b(canonical(row), digest_size=8).hexdigest()
        item_id = digest
        while item_id in self._seen:
            self._copies[digest] = self._copies.get(digest, 1) + 1
            item_id = f"{digest}-{self._copies[digest]}"
        return item_id


def own_id(row: Row) -> str | None:
    """The row's own ``id`` as a string, "" if it has none, None if it is of no use as one."""
    value = row.get("id")
    if value is None:
        return ""
    if isinstance(value, str):
        return value.strip()
    value = plain(value) if hasattr(value, "tolist") else value
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return str(value)


def shuffled(ids: Sequence[str], seed: int) -> list[int]:
    """Positions of ``ids`` in an order fixed by the seed and the ids alone, the same on every machine and Python.

    Each id is sorted by sha256 of seed and id: adding or removing rows leaves the order of the others as it was.
    """
    return sorted(range(len(ids)), key=lambda i: hashlib.sha256(f"{seed}:{ids[i]}".encode()).digest())
