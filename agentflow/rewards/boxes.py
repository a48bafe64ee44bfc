"""The boxes of a completion: ``\\boxed{...}``, ``\\fbox{...}``, ``\\boxed 5``. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

_BOX = re.compile(r"\\(?:boxed|fbox)\s*(?=\{)")
_UNBRACED = re.compile(r"(\\(?:boxed|fbox))\s*(-?\d+(?:\.\d+)?|[A-Za-z](?![A-Za-z]))")
_IDLE_BETWEEN_BOXES = re.compile(r"\\(?:text|quad|[()\[\]])|[\s$,;.*{}]")
_BRACES = re.compile(r"\\.|[{}]", re.DOTALL)


def last_boxes(text: str) -> list[str]:
    """What the last box holds, after the boxes before it that only commas, "and" or "or" separate from it."""
    text = _UNBRACED.sub(r"\1{\2}", text)
    boxes = _closed_boxes(text)
    if not boxes:
        return []
    contents = [boxes[-1].content]
    for earlier, later in zip(boxes[-2::-1], boxes[:0:-1], strict=True):
        between = text[earlier.end : later.start]
        if _IDLE_BETWEEN_BOXES.sub("", between) not in ("", "and", "or") or not between.strip():
            break
        if earlier.content not in contents:
            contents.insert(0, earlier.content)
    return contents


@dataclass(frozen=True)
class _Box:
    start: int
    end: int
    content: str


def _closed_boxes(text: str) -> list[_Box]:
    """The boxes that are closed and hold something; of nested ones the outermost."""
    starts = {match.end(): match.start() for match in _BOX.finditer(text)}
    boxes: list[_Box] = []
    open_braces: list[int] = []
    for brace in _BRACES.finditer(text) if starts else ():
        if brace[0] == "{":
            open_braces.append(brace.start())
        elif brace[0] == "}" and open_braces:
            opened = open_braces.pop()
            start = starts.get(opened)
            content = text[opened + 1 : brace.start()]
            if start is not None and content.strip():
                while boxes and boxes[-1].start > start:
                    boxes.pop()
                boxes.append(_Box(start, brace.end(), content))
    return boxes
