"""A source of rows with ids, a recipe and a selection: the one implementation of Dataset."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from agentflow.channel.messages import MAX_ROW_BYTES
from agentflow.datasets.base import Row, Rows, See
from agentflow.datasets.identity import Identities, plain, shuffled
from agentflow.datasets.recipes import Recipe, RecipeMismatch, choose_recipe
from agentflow.episode import Item
from agentflow.errors import DataError


@dataclass(frozen=True)
class Options:
    """What the user may say about any source: which rows, and which columns make prompt and answer."""

    limit: int | None = None
    shuffle: bool = False
    seed: int = 1
    prompt_column: str | None = None
    answer_column: str | None = None
    template: str | None = None


_sendable = msgspec.msgpack.Encoder(enc_hook=plain)


class SelectedRows:
    """Implements :class:`agentflow.datasets.base.Dataset`."""

    def __init__(self, source: str, rows: Rows, recipe: Recipe, ids: Sequence[str], order: Sequence[int]) -> None:
        self._rows = rows
        self._recipe = recipe
        self._order = order
        self.source = source
        self.recipe = recipe.name
        self.fingerprint = rows.fingerprint
        self.ids: Sequence[str] = (
            ids if isinstance(order, range) and len(order) == len(ids) else [ids[i] for i in order]
        )

    def __len__(self) -> int:
        return len(self._order)

    def item(self, index: int) -> Item:
        """Item at ``index`` of the selection, its ``data`` with the recipe applied."""
        return Item(self.ids[index], index, self._recipe.apply(self.raw(index)))

    def raw(self, index: int) -> Row:
        """The row at ``index`` of the selection as the source has it."""
        return self._rows.row(self._order[index])


def select(source: str, read: Callable[[See], Rows], options: Options, *, noun: str = "row") -> SelectedRows:
    """Read a source once from end to end (ids, recipe, every row checked), then choose from it.

    Args:
        source: its name in messages.
        read: builds the rows and calls what it is given once for each.
        noun: what the numbers that ``read`` passes count, "line" or "row" (from 1).

    Raises:
        DataError: the source is empty, or a row is no object, cannot be sent to a runner, has a duplicate id or
            does not fit the recipe.
    """
    if options.limit is not None and options.limit < 1:
        raise DataError(f"A limit of {options.limit} leaves nothing to run: give at least 1.")
    survey = _Survey(source, noun, options)
    rows = read(survey.see)
    if survey.recipe is None:
        raise DataError(f"{source} is empty: it has no rows.")
    ids = survey.identities.ids
    order: Sequence[int] = shuffled(ids, options.seed) if options.shuffle else range(len(ids))
    return SelectedRows(source, rows, survey.recipe, ids, order[: options.limit])


class _Survey:
    """Looks at every row once, gives it an id and tries the recipe on it: no run stops on row 900,000."""

    def __init__(self, source: str, noun: str, options: Options) -> None:
        self._source = source
        self._noun = noun
        self._options = options
        self.identities = Identities(source, noun)
        self.recipe: Recipe | None = None

    def see(self, row: Any, number: int) -> None:
        if not isinstance(row, dict):
            raise DataError(
                f"{self._source}, {self._noun} {number}: the row is {_kind(row)}, not an object with named columns "
                f'such as {{"messages": [...], "answer": "42"}}.'
            )
        if self.recipe is None:
            o = self._options
            self.recipe = choose_recipe(
                row, prompt_column=o.prompt_column, answer_column=o.answer_column, template=o.template
            )
        try:
            given = self.recipe.apply(row)
        except RecipeMismatch as e:
            raise DataError(
                f"{self._source}, {self._noun} {number}: {e} (recipe {self.recipe.name!r}, chosen by the first row "
                f"and the options; a prompt column, an answer column or a template choose otherwise)."
            ) from e
        try:
            size = len(_sendable.encode(given))
        except (TypeError, ValueError, OverflowError) as e:
            raise DataError(
                f"{self._source}, {self._noun} {number} cannot be sent to a runner: {e}; rows hold text, numbers, "
                f"lists and objects."
            ) from e
        if size > MAX_ROW_BYTES:
            raise DataError(
                f"{self._source}, {self._noun} {number} has {size >> 20} MiB as an agent receives it; a row may have "
                f"{MAX_ROW_BYTES >> 20}: keep large things in files, and their paths in the row."
            )
        self.identities.add(row, number)


def _kind(value: Any) -> str:
    names = {str: "text", int: "a number", float: "a number", bool: "true or false", list: "a list", type(None): "null"}
    return names.get(type(value), f"a {type(value).__name__}")
