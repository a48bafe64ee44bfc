"""Server-sent events: cut a byte stream into events as it arrives."""

from __future__ import annotations

import re
from typing import NamedTuple

_END = re.compile(rb"\r\n\r\n|\n\n|\r\r")
DONE = b"[DONE]"


class Event(NamedTuple):
    """``data`` is the payload; ``wire`` the event's bytes as they came, with the empty line that ends it."""

    data: bytes
    wire: bytes


class EventCutter:
    """Feed it chunks, get the events that they complete. ``rest`` is what no event has ended yet."""

    def __init__(self) -> None:
        self.rest = b""

    def feed(self, chunk: bytes) -> list[Event]:
        """Events completed by ``chunk``, in order."""
        buffer = self.rest + chunk if self.rest else chunk
        events = []
        start = 0
        for end in _END.finditer(buffer):
            wire = buffer[start : end.end()]
            events.append(Event(_data(wire), wire))
            start = end.end()
        self.rest = buffer[start:]
        return events


def _data(wire: bytes) -> bytes:
    if (
        wire.startswith(b"data: ") and wire.find(b"\n") >= len(wire) - 2
    ):  # one data line and nothing else, by far the most
        return wire[6:].rstrip(b"\r\n")
    lines = (line[5:].removeprefix(b" ") for line in wire.splitlines() if line.startswith(b"data:"))
    return b"\n".join(lines)
