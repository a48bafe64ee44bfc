"""The data of ``multi_turn:rounds`` and ``multi_turn:bfcl``; ``python -m benchmarks.multi_turn`` makes other sizes."""

from __future__ import annotations

from typing import Any

from benchmarks.multi_turn import conversations

CLIENTS, ROUNDS, INPUT_TOKENS, OUTPUT_TOKENS = 256, 5, 512, 64


def rounds() -> list[dict[str, Any]]:
    """For 256 clients: 256 conversations to warm up and 512 measured, 5 rounds of 512 tokens in and 64 out."""
    return conversations.rounds(2 * CLIENTS, CLIENTS, ROUNDS, INPUT_TOKENS, OUTPUT_TOKENS, 0, seed=1)


def bfcl() -> list[dict[str, Any]]:
    """Golden replay of the 200 conversations of ``multi_turn_base``, the first 32 to warm up."""
    from benchmarks.multi_turn.replay import replays

    return replays("multi_turn_base", None, 32)
