"""Serve agents that speak the Responses API or Anthropic's Messages API on a worker that only serves chat completions.

One package a dialect, :mod:`.responses` and :mod:`.messages`, each with the same four names, all without I/O:

- ``to_chat(body)``: the agent's request as a chat completions request;
- ``from_chat(body, chat)``: the worker's chat reply as a reply in the dialect;
- ``Stream(body)``: the same for a streamed reply, chunk by chunk;
- ``error(status, message, details=None)``: an error body in the dialect; for a TranslationError pass its ``details``.

Fields that a chat endpoint may know (``top_k``, ``seed``, ``chat_template_kwargs``, ...) go on untouched; what a chat
endpoint cannot do is refused with a :class:`TranslationError`, never dropped.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class TranslationError(Exception):
    """One sentence that says what cannot be said in the other dialect, where it stands, and what to do.

    Raised by ``to_chat`` the request is at fault (HTTP 400), raised by ``from_chat`` the worker's reply (HTTP 502).

    Args:
        details: what an SDK understands by itself and recovers from; goes into the error body.
    """

    def __init__(self, message: str, details: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.details = details
