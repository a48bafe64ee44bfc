"""Episode keys: unguessable, and known as ours long after the episode is over without keeping a list of them."""

from __future__ import annotations

import hmac
import re
import secrets
from hashlib import blake2b

_STEM = 22  # characters: 128 random bits
_LENGTH = _STEM + 22
_KEY = re.compile(rf"/[\w-]{{{_STEM}}}[0-9a-f]{{{_LENGTH - _STEM}}}(?![\w-])", re.ASCII)


def hide(url: str) -> str:
    """``url`` with ``***`` in place of an episode key in its path."""
    return _KEY.sub("/***", url)


class Keys:
    """Makes keys; a key carries a code that only this runner can compute."""

    def __init__(self) -> None:
        self._secret = secrets.token_bytes(32)

    def new(self) -> str:
        """A fresh key, safe in a URL's path."""
        stem = secrets.token_urlsafe(16)
        return stem + self._code(stem)

    def made(self, key: str) -> bool:
        """True for a key that :meth:`new` has returned."""
        return len(key) == _LENGTH and hmac.compare_digest(key[_STEM:].encode(), self._code(key[:_STEM]).encode())

    def _code(self, stem: str) -> str:
        return blake2b(stem.encode(), key=self._secret, digest_size=11).hexdigest()
