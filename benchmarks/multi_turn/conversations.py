"""Which conversations are held, as rows of a data set: lengths and a seed, no text. Pure.

The text follows from the row and from what a word costs at the endpoint, see :mod:`benchmarks.multi_turn.words`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from agentflow.errors import UsageError

WARM_UP, MEASURED = "warm-up", "measured"  # values of a row's ``part``


class Turn(msgspec.Struct, frozen=True, array_like=True):
    """One request: tokens of the user's message, and tokens that are asked for."""

    input_tokens: int
    output_tokens: int


class Conversation(msgspec.Struct, frozen=True, tag_field="workload", tag="synthetic"):
    """A conversation in numbers.

    Args:
        part: :data:`WARM_UP` or :data:`MEASURED`.
        seed: of its text, together with ``id``.
        shared_tokens: of a text before the first message that all conversations of the seed have in common.
    """

    id: str
    part: str
    seed: int
    turns: tuple[Turn, ...]
    shared_tokens: int = 0


def conversation_of(row: Mapping[str, Any]) -> Conversation:
    """Raises UsageError for a row of other data."""
    try:
        return msgspec.convert(row, Conversation)
    except msgspec.ValidationError as e:
        raise UsageError(
            f"This row is no conversation to measure ({e}): give --data multi_turn:rounds, or, to have questions "
            f"answered and tried again, name the ready-made agent multi-turn."
        ) from e


def numbered(shapes: Sequence[Sequence[Turn]], warm_up: int, seed: int, shared_tokens: int = 0) -> list[dict[str, Any]]:
    """Rows for these shapes, the first ``warm_up`` of them for warming up."""
    return [
        msgspec.to_builtins(
            Conversation(
                id=f"conversation-{number:05}",
                part=WARM_UP if number < warm_up else MEASURED,
                seed=seed,
                turns=tuple(turns),
                shared_tokens=shared_tokens,
            )
        )
        for number, turns in enumerate(shapes)
    ]


def rounds(
    conversations: int, warm_up: int, rounds: int, input_tokens: int, output_tokens: int, shared_tokens: int, seed: int
) -> list[dict[str, Any]]:
    """``warm_up`` and then ``conversations`` conversations that are all alike."""
    shape = [Turn(input_tokens, output_tokens)] * rounds
    return numbered([shape] * (warm_up + conversations), warm_up, seed, shared_tokens)
