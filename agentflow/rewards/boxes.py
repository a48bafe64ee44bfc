"""The boxes of a completion: ``\\boxed{...}``, ``\\fbox{...}``, ``\\boxed 5``. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

_BOX = re.compile(r"(?:\\f(?:rame)?box|\\?(?<![A-Za-z])boxed)\s*(?=\{)")
_UNBRACED = re.compile(r"(\\(?:boxed|fbox))\s*(-?\d+(?:\.\d+)?|[A-Za-z](?![A-Za-z]))")
_IDLE_BETWEEN_BOXES = re.compile(r"\\(?:text|quad|[()\[\]])|[\s$,;.*{}]")
_BRACES = re.compile(r"\\.|[{}]", re.DOTALL)
_FORMULA_END = re.compile(r"(?<!\\)\$|\\[)\]]")


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


def all_boxes(text: str) -> list[str]:
    """What each box holds, whatever stands between them."""
    return [box.content for box in _closed_boxes(_UNBRACED.sub(r"\1{\2}", text))]


def after_boxes(text: str) -> str:
    """What follows the last box; empty where there is none."""
    text = _UNBRACED.sub(r"\1{\2}", text)
    boxes = _closed_boxes(text)
    return text[boxes[-1].end :] if boxes else ""


@dataclass(frozen=True)
class _Box:
    start: int
    end: int
    content: str


def _closed_boxes(text: str) -> list[_Box]:
    """The boxes that are closed and hold something; of nested ones the outermost.

    One that is not closed ends with its formula (``$\\boxed{42$``); with the text it is cut off, and no box.
    """
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
    unclosed = [brace for brace in open_braces if brace in starts and (not boxes or brace > boxes[-1].end)]
    if unclosed:
        end = _FORMULA_END.search(text, unclosed[-1])
        content = text[unclosed[-1] + 1 : end.start()] if end is not None else ""
        if end is not None and content.strip():
            boxes.append(_Box(starts[unclosed[-1]], end.start(), content))
    return boxes
