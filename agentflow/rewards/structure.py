"""The shape of an answer: lists, sets, tuples, intervals, assignments, inequalities. Pure, on normalised text.

Elements stay text; :mod:`agentflow.rewards.equivalence` compares them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_WORD_SEPARATOR = re.compile(r"(?<![A-Za-z\\])(?:and|or|AND|OR)(?![A-Za-z])")
_LOGIC = re.compile(r"\\(?:lor|vee|cup)(?![a-zA-Z])")
_VARIABLE = r"[A-Za-z](?:_\{?\w+\}?)?'{0,2}"
_GREEK = r"\\(?:alpha|beta|gamma|delta|theta|lambda|mu|phi|omega|ell)"
_NAME = (
    rf"(?:[A-Za-z]{{3,}}(?: [A-Za-z]+){{0,3}}|{_VARIABLE}|{_GREEK}"
    rf"|[A-Za-z]\s*\([A-Za-z](?:\s*,\s*[A-Za-z])*\)|\((?:[A-Za-z]|{_GREEK})(?:\s*,\s*(?:[A-Za-z]|{_GREEK}))+\s*\))"
)
_ASSIGNMENT = re.compile(rf"({_NAME})\s*(?:=|\\in(?![a-z]))\s*(?!=)(.+)", re.DOTALL)
_RELATION = re.compile(r"\\le(?![a-z])|\\ge(?![a-z])|<|>")
_SINGLE_VARIABLE = re.compile(rf"(?:{_VARIABLE}|{_GREEK})")
_AROUND_ZERO = re.compile(rf"\|\s*(?:{_VARIABLE}|{_GREEK})\s*\|\s*(<|\\le(?![a-z]))\s*([^<>=]+)")
_OUTSIDE = re.compile(rf"\|\s*(?:{_VARIABLE}|{_GREEK})\s*\|\s*(>|\\ge(?![a-z]))\s*([^<>=]+)")
_EXCEPT = re.compile(
    rf"(?:{_VARIABLE}|{_GREEK})\s*\\ne(?![a-z])\s*([^,;<>=]+)|\\mathbb\{{R\}}\s*(?:\\setminus|\\backslash|-)\s*\\\{{([^,;]+)\\\}}"
)
_PUNCTURED = re.compile(r"([\[(][^\[\]()]*[\])])\s*(?:\\setminus(?![a-z])|\\backslash(?![a-z]))\s*\\\{([^,;]+)\\\}")
_COLUMN = re.compile(r"\\begin\{[pb]matrix\}([^&]+)\\end\{[pb]matrix\}")
_BUILDER = re.compile(
    rf"\\\{{\s*(?:{_VARIABLE}|{_GREEK})\s*(?:\\in\s*\\mathbb\{{R\}})?\s*(?:\\mid(?![a-z])|\\vert(?![a-z])|\||:)(.+)\\\}}"
)
_BOTH = re.compile(r"(?<![A-Za-z\\])and(?![A-Za-z])|\\(?:land|wedge)(?![a-z])")
_PLUS_MINUS = re.compile(r"\\(pm|mp)(?![a-zA-Z])\s*")


@dataclass(frozen=True)
class Collection:
    """Several values. ``kind``: ``list`` (bare, any order), ``set``, or the two brackets around it: ``()``, ``[)``,
    ``⟨⟩``, ...; ``union`` of intervals."""

    kind: str
    items: tuple[str, ...]


@dataclass(frozen=True)
class Assignment:
    """``x = 5``, ``f(x) = x + 1``, ``x \\in [0, 1)``."""

    name: str
    value: str


def assignment(text: str) -> Assignment | None:
    """A single name on the left of one relation, None otherwise."""
    match = _ASSIGNMENT.fullmatch(text.strip())
    if match is None or _RELATION.search(match[2]) is not None:
        return None
    return Assignment(match[1].replace(" ", ""), match[2].strip())


def collection(text: str) -> Collection | None:
    """How a text reads as several values; None for a single one."""
    text = text.strip()
    if _PLUS_MINUS.search(text):
        plus = _PLUS_MINUS.sub(lambda m: "+" if m[1] == "pm" else "-", text)
        minus = _PLUS_MINUS.sub(lambda m: "-" if m[1] == "pm" else "+", text)
        lists = [collection(plus) or Collection("list", (plus,)), collection(minus) or Collection("list", (minus,))]
        if all(part.kind == "list" for part in lists):
            return Collection("list", lists[0].items + lists[1].items)
        return Collection("list", (plus, minus))
    united = _split(text, _LOGIC)
    if len(united) > 1 and all(interval(part) is not None for part in united):
        return Collection("union", tuple(united))
    sets = [outer for part in united if (outer := _outer(part)) is not None and outer[0] == r"\{"]
    if len(united) == len(sets) > 1:
        return Collection("set", tuple(item for part in sets for item in _commas(part[2], thousands=False)))
    outer = _outer(text)
    if outer is not None:
        opening, closing, inside = outer
        items = _commas(inside, thousands=False)
        if opening == r"\{":
            return Collection("set", tuple(items))
        return Collection(opening + closing, tuple(items)) if len(items) > 1 else None
    parts = [piece for part in _split(text, _WORD_SEPARATOR) for piece in _commas(part, thousands=True)]
    parts = [part for part in parts if part]
    if len(parts) < 2:
        return None
    if "or" in text and all(interval(part) is not None for part in parts):
        return Collection("union", tuple(parts))
    name = assignment(parts[0])
    if name is not None and not any("=" in part for part in parts[1:]):
        parts[0] = name.value  # n = 2, 3, 4
    return Collection("list", tuple(parts))


def interval(text: str) -> Collection | None:
    """An interval as two endpoints in brackets, from its own notation or from an inequality in one variable."""
    text = text.strip()
    if text.replace(" ", "") == r"\mathbb{R}":
        return Collection("()", (r"-\infty", r"\infty"))
    outer = _outer(text)
    if outer is not None and outer[0] in "([":
        ends = _commas(outer[2], thousands=False)
        return Collection(outer[0] + outer[1], tuple(ends)) if len(ends) == 2 else None
    if _BOTH.search(text):
        return _both(text)
    around_zero = _AROUND_ZERO.fullmatch(text)
    if around_zero is not None:
        brackets = "[]" if "e" in around_zero[1] else "()"
        return Collection(brackets, (f"-({around_zero[2]})", around_zero[2]))
    parts = [part.strip() for part in _RELATION.split(text)]
    signs = _RELATION.findall(text)
    if "" in parts:
        return None
    upwards = [sign in ("<", r"\le") for sign in signs]
    if len(parts) == 3 and _SINGLE_VARIABLE.fullmatch(parts[1]) and len(set(upwards)) == 1:
        if not upwards[0]:
            parts, signs = parts[::-1], signs[::-1]
        opening = "[" if "e" in signs[0] else "("
        closing = "]" if "e" in signs[1] else ")"
        return Collection(opening + closing, (parts[0], parts[2]))
    if len(parts) != 2:
        return None
    left, right = parts
    up, closed = upwards[0], "e" in signs[0]
    if _SINGLE_VARIABLE.fullmatch(right) and not _SINGLE_VARIABLE.fullmatch(left):
        left, right, up = right, left, not up
    if not _SINGLE_VARIABLE.fullmatch(left):
        return None
    if up:
        return Collection("(" + ("]" if closed else ")"), (r"-\infty", right))
    return Collection(("[" if closed else "(") + ")", (right, r"\infty"))


def without_builder(text: str) -> str:
    """The condition of ``\\{x \\mid x > 2\\}``; any other text as it is."""
    match = _BUILDER.fullmatch(text.strip())
    return match[1].strip() if match is not None else text


def union(text: str) -> Collection | None:
    """Two rays: from ``|x| > 1``, ``x \\ne 2``, ``\\mathbb{R} \\setminus \\{2\\}``, or a union as it is written."""
    outside = _OUTSIDE.fullmatch(text)
    if outside is not None:
        left, right = ("]", "[") if "e" in outside[1] else (")", "(")
        return Collection("union", (rf"(-\infty,-({outside[2]}){left}", rf"{right}{outside[2]},\infty)"))
    hole = _EXCEPT.fullmatch(text)
    if hole is not None:
        value = hole[1] or hole[2]
        return Collection("union", (rf"(-\infty,{value})", rf"({value},\infty)"))
    punctured = _PUNCTURED.fullmatch(text)
    whole = interval(punctured[1]) if punctured is not None else None
    if punctured is not None and whole is not None:
        (start, end), value = whole.items, punctured[2]
        return Collection("union", (f"{whole.kind[0]}{start},{value})", f"({value},{end}{whole.kind[1]}"))
    several = collection(text)
    return several if several is not None and several.kind == "union" else None


def vector(text: str) -> str:
    """A matrix of one column written as a tuple; any other text as it is."""
    column = _COLUMN.fullmatch(text)
    rows = [row.strip() for row in column[1].split(r"\\") if row.strip()] if column is not None else []
    return f"({', '.join(rows)})" if len(rows) > 1 else text


def _both(text: str) -> Collection | None:
    """``x > 2 and x < 5`` as one interval."""
    parts = [part.strip() for part in _BOTH.split(text)]
    rays = [interval(part) if _RELATION.search(part) else None for part in parts]
    if len(rays) != 2 or rays[0] is None or rays[1] is None:
        return None
    below = next((ray for ray in rays if ray is not None and ray.items[0] == r"-\infty"), None)
    above = next((ray for ray in rays if ray is not None and ray.items[1] == r"\infty"), None)
    if below is None or above is None:
        return None
    return Collection(above.kind[0] + below.kind[1], (above.items[0], below.items[1]))


def _outer(text: str) -> tuple[str, str, str] | None:
    """Opening bracket, closing bracket and what is between, if one pair encloses the whole text."""
    for opening, closings in ((r"\{", (r"\}",)), (r"\langle", (r"\rangle",)), ("(", (")", "]")), ("[", ("]", ")"))):
        for closing in closings:
            if text.startswith(opening) and text.endswith(closing) and len(text) > len(opening) + len(closing):
                inside = text[len(opening) : -len(closing)]
                if _balanced(inside):
                    return ("⟨", "⟩", inside) if opening == r"\langle" else (opening, closing, inside)
    return None


def _balanced(text: str) -> bool:
    depth = 0
    for character in text:
        depth += (character in "([{") - (character in ")]}")
        if depth < 0:
            return False
    return depth == 0


def _depths(text: str) -> list[int]:
    depths, depth = [], 0
    for character in text:
        depth -= character in ")]}"
        depths.append(depth)
        depth += character in "([{"
    return depths


def _split(text: str, separator: re.Pattern[str]) -> list[str]:
    depths = _depths(text)
    parts, start = [], 0
    for match in separator.finditer(text):
        if depths[match.start()] == 0:
            parts.append(text[start : match.start()].strip(" ,"))
            start = match.end()
    parts.append(text[start:].strip(" ,"))
    return parts


def _commas(text: str, *, thousands: bool) -> list[str]:
    """Split at commas and semicolons outside brackets. ``thousands``: a comma in a number such as 1,234 stays."""
    depths = _depths(text)
    parts, start = [], 0
    for i, character in enumerate(text):
        if character not in ",;" or depths[i] != 0:
            continue
        next_is_space = text[i + 1 : i + 2] in (" ", "")
        if thousands and character == "," and not next_is_space and _in_number(text, start, i):
            continue
        parts.append(text[start:i].strip())
        start = i + 1
    parts.append(text[start:].strip())
    return [part for part in parts if part]


def _in_number(text: str, start: int, comma: int) -> bool:
    """Whether this comma stands between one to three digits and exactly three."""
    before = re.search(r"(?:^|[^\d,.])(\d{1,3}(?:,\d{3})*)$", text[start:comma])
    after = re.match(r",\d{3}(?!\d)", text[comma:])
    return before is not None and after is not None
