"""Options by which rows are chosen and made into items: the same for ``run`` and ``data``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS = (
    click.option("--limit", type=int, metavar="N", help="Only the first N items (after --shuffle)."),
    click.option("--shuffle", is_flag=True, default=None, help="Shuffle the items, by --seed."),
    click.option("--prompt-column", metavar="COLUMN", help="Its text becomes the user's message."),
    click.option("--answer-column", metavar="COLUMN", help="Its value becomes the answer."),
    click.option("--template", metavar="TEXT", help="The user's message, with {column} for a column's value."),
)


def selection_options(command: F) -> F:
    """Adds them, in this order, to a click command."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command
