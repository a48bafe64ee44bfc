"""Times of day and ratios: the two things that people write with a colon. Pure, on normalised text."""

from __future__ import annotations

import re
from dataclasses import dataclass

_TIME = re.compile(r"(\d{1,2})(?:\s*:\s*([0-5]\d)(?:\s*:\s*([0-5]\d))?)?\s*(?:([ap])\.?\s*m\.?)?", re.IGNORECASE)
_TO = re.compile(r"\s+to\s+")
_NOON = 12 * 3600


@dataclass(frozen=True)
class Time:
    """A time of day. ``seconds`` since midnight; ``is_marked``: a.m. or p.m. was said."""

    seconds: int
    is_marked: bool


def time_of_day(text: str) -> Time | None:
    """``12:30``, ``3:05 p.m.``, ``3 PM``; None for what is no time, such as 3:4 and 12."""
    match = _TIME.fullmatch(text.strip())
    if match is None or (match[2] is None and match[4] is None):
        return None
    hour = int(match[1])
    if hour > 24 or (match[4] is not None and not 1 <= hour <= 12):
        return None
    if match[4] is not None:
        hour = hour % 12 + (12 if match[4].lower() == "p" else 0)
    return Time(hour * 3600 + int(match[2] or 0) * 60 + int(match[3] or 0), match[4] is not None)


def same_time(a: Time, b: Time) -> bool:
    """Whether two times are one; a missing a.m. or p.m. is forgiven, so that 3:30 is 3:30 p.m."""
    if a.seconds == b.seconds:
        return True
    marked, bare = (a, b) if a.is_marked else (b, a)
    morning = bare.seconds < _NOON + 3600  # 13:30 says p.m. itself
    return a.is_marked != b.is_marked and morning and marked.seconds % _NOON == bare.seconds % _NOON


def ratio(text: str, *, in_words: bool = False) -> tuple[str, ...] | None:
    """The members of ``3:4`` or ``1:2:3``, None for what is no ratio. ``in_words``: ``3 to 4`` is one too."""
    if re.search(r"[{(\[][^})\]]*:", text):
        return None
    members = tuple(member.strip() for member in (_TO.split(text) if in_words and ":" not in text else text.split(":")))
    return members if len(members) > 1 and all(members) else None
