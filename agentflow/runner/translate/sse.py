"""Server-sent events as both dialects write them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec


def event(data: Mapping[str, Any]) -> bytes:
    """One event; its name is its ``type``."""
    return b"event: %b\ndata: %b\n\n" % (data["type"].encode(), msgspec.json.encode(data))
