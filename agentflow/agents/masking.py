"""Keep keys out of error texts."""

from __future__ import annotations

from collections.abc import Iterable

SHORTEST_SECRET = 8  # a shorter value is a word or a number that texts contain anyway


def mask(text: str, secrets: Iterable[str]) -> str:
    """The text with every secret in it replaced by ``***``, and what UTF-8 cannot carry (lone surrogates) by ``?``."""
    text = text.encode("utf-8", "replace").decode()
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= SHORTEST_SECRET:
            text = text.replace(secret, "***")
    return text
