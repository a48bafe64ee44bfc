"""Numbers as words: three, twenty-one, 2.5 million, the base of ``1011_{two}``. Pure."""

from __future__ import annotations

import re

_UNITS = [
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"),
    *("thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"),
]
_TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
_VALUES = {word: i for i, word in enumerate(_UNITS)} | {word: 10 * i for i, word in enumerate(_TENS, start=2)}
_SPELLED = re.compile(
    rf"(?:({'|'.join(_TENS)})(?:[ -]({'|'.join(_UNITS[1:10])}))?|({'|'.join(reversed(_UNITS))}))(?![A-Za-z-])",
    re.IGNORECASE,
)
_PARTS = {"half": 2, "third": 3, "quarter": 4, "fourth": 4, "fifth": 5, "sixth": 6, "eighth": 8, "tenth": 10}
_PART = re.compile(rf"[ -](?:halves|({'|'.join(_PARTS)})s?)(?![A-Za-z-])", re.IGNORECASE)
_SPELLED_IN_TEXT = re.compile(rf"(?<![A-Za-z-])(?:{_SPELLED.pattern})(?:{_PART.pattern})?", re.IGNORECASE)
SCALES = {"hundred": 2, "thousand": 3, "million": 6, "billion": 9, "trillion": 12}
_CHINESE_SCALES = {"万": 4, "亿": 8}
_SCALE = re.compile(rf"\s*(?:({'|'.join(SCALES)})(?![A-Za-z])|([万亿]))", re.IGNORECASE)


def spelled(text: str) -> tuple[int, str] | None:
    """The number from 0 to 99 that a text begins with in words, and what follows it."""
    match = _SPELLED.match(text)
    if match is None:
        return None
    return sum(_VALUES[word.lower()] for word in match.groups() if word is not None), text[match.end() :]


def last_spelled(text: str) -> str | None:
    """The last number of a text that is written in words; "one" is none, for it is seldom meant as a number."""
    found = [match[0] for match in _SPELLED_IN_TEXT.finditer(text) if match[0].lower() != "one"]
    return found[-1] if found else None


def part(text: str) -> tuple[int, str]:
    """The denominator that a text begins with as a word (" thirds": 3; 1 without one), and what follows it."""
    match = _PART.match(text)
    return (_PARTS[(match[1] or "half").lower()], text[match.end() :]) if match is not None else (1, text)


def scale(text: str) -> tuple[int, str]:
    """The power of ten that a text begins with as a word (million: 6; 0 without one), and what follows it."""
    match = _SCALE.match(text)
    if match is None:
        return 0, text
    return SCALES[match[1].lower()] if match[1] else _CHINESE_SCALES[match[2]], text[match.end() :]
