"""Do two answers mean the same? The rules, in the order they are tried; ``docs/rewards.md`` lists them."""

from __future__ import annotations

import re
from fractions import Fraction

from agentflow.rewards import proportion, quantity, structure, symbolic, units
from agentflow.rewards.computed import same_value
from agentflow.rewards.magnitude import MAX_LENGTH, TooLargeError, check_size
from agentflow.rewards.notation import key, normalise
from agentflow.rewards.structure import Collection

_CHOICE = re.compile(r"\(?\s*([A-Z])\s*\)?")
_CHOSEN = re.compile(
    r"(?:option|choice|answer)?\s*(?:\(\s*([A-Za-z])\s*\)|([A-Za-z])(?=$|\s*[.):])|\[\s*([A-Z])\s*\])", re.I
)
_LABEL = re.compile(r"(?:\(\s*[A-J]\s*\)|[A-J]\s*[.):])\s*(?=\S)")
_WORDS = re.compile(r"(?=.*[A-Za-z]{3})[A-Za-z']+(?:[ -][A-Za-z']+)*")
_SUBSCRIPT = re.compile(r"_\s*\{[^{}]*\}")  # of a sum: k = 1 is no equation
_ANGLE = re.compile(r"\\angle\s*([A-Z]{3})")
_APPROX = re.compile(r"\\approx(?![a-z])")
_BETWEEN_LETTERS = re.compile(r"\s*[A-Za-z]\s*(?:[<>]|\\[lg]e(?![a-z]))\s*[A-Za-z]\s*")
_LETTERS = re.compile(r"[A-H](?:(?:\s*(?:,|;|、|and)\s*)?[A-H])+")
_TUPLES = ("()", "⟨⟩")
_POINT = re.compile(r"^[A-Z]'?\s*(\(.*,.*\))$", re.DOTALL)  # P(3, -2)
_FUNCTION = re.compile(r"([A-Za-z])\(([a-z])\)")
_LETTER_OR_WORD = re.compile(r"\\[A-Za-z]+|[A-Za-z]{3,}|\bor\b|[A-Za-z]")  # at is a t
_PARAMETER = re.compile(
    r"(?P<formula>.+?),?\s*(?:where|for|with)?\s*(?P<name>[a-z])\s*\\in\s*\\mathbb\s*\{?\s*(?P<set>[NZ])\s*\}?",
    re.DOTALL,
)
_MAX_NESTING = 5


def equivalent(gold: str, given: str) -> bool:
    """Whether an answer means the same as the gold answer.

    Raises:
        TooLargeError: the gold answer is too large to be computed and the given one is written otherwise.
    """
    if len(given) > MAX_LENGTH or len(gold) > MAX_LENGTH:
        return gold.strip() == given.strip()
    g, p = normalise(gold), normalise(given)
    if not g or not p:
        return False
    if key(g) == key(p):
        return True
    choice = _CHOICE.fullmatch(g)
    if choice is not None:
        chosen = _CHOSEN.match(p)
        return chosen is not None and (chosen[1] or chosen[2] or chosen[3]).upper() == choice[1]
    if _LETTERS.fullmatch(g) and _LETTERS.fullmatch(p) and key(g) == "".join(sorted(set(key(g)))):
        return sorted(key(g)) == sorted(re.findall("[A-H]", p))  # of a choice: ACD is A, C and D
    if is_words(g):
        several, many = structure.collection(g), structure.collection(p)
        listed = several is not None and many is not None and _any_order(several.items, many.items, 0)
        return _bare_words(g) == _bare_words(p) or listed
    labelled = _LABEL.match(g)
    if labelled is not None:  # "(C) 36": the letter or the value
        letter, value = _CHOSEN.match(p), g[labelled.end() :].strip()
        if key(value) == key(p):
            return True
        if letter is not None and (letter[1] or letter[2] or letter[3]).upper() not in labelled[0].upper():
            return False
        return (letter is not None and letter.end() == len(p)) or equivalent(value, p)
    if _same(g, p, 0) or _same_family(g, p):
        return True
    label = _LABEL.match(p)  # "(B) 42" where the gold is 42
    return label is not None and _same(g, p[label.end() :].strip(), 0)


def _same_family(g: str, p: str) -> bool:
    """Solutions with a whole number in them, whatever its name: ``k\\pi, k \\in \\mathbb{Z}``."""
    gold, given = _PARAMETER.fullmatch(g), _PARAMETER.fullmatch(p)
    if gold is None or given is None or gold["set"] != given["set"]:
        return False
    renamed = _renamed(given["formula"], given["name"], gold["name"])
    return renamed is not None and _same(gold["formula"], renamed, 1)


def _renamed(formula: str, name: str, other: str) -> str | None:
    """A formula with another letter for one of its own; None where it has that other letter already."""
    letters = _LETTER_OR_WORD.findall(formula)
    if name == other:
        return formula
    return None if other in letters else _LETTER_OR_WORD.sub(lambda m: other if m[0] == name else m[0], formula)


def is_words(text: str) -> bool:
    """Whether a normalised text is words and no number."""
    return _WORDS.fullmatch(text) is not None and quantity.quantity(text) is None


def _bare_words(text: str) -> str:
    words = re.sub(r"[^a-z0-9]+", " ", text.lower()).split()
    return " ".join(word.removesuffix("s") if len(word) > 3 else word for word in words)


def _same(g: str, p: str, depth: int) -> bool:
    if key(g) == key(p) or (is_words(g) and _bare_words(g) == _bare_words(p)):
        return True
    if depth > _MAX_NESTING or not g or not p:
        return False
    angle, reversed_angle = _ANGLE.fullmatch(g), _ANGLE.fullmatch(p)
    if angle is not None and reversed_angle is not None:
        return angle[1] == reversed_angle[1][::-1]  # not a product of three letters
    if _APPROX.search(g) or _APPROX.search(p):  # \\sqrt{2} \\approx 1.41 is both
        return any(_same(x, y, depth + 1) for x in _APPROX.split(g) for y in _APPROX.split(p))
    colon = _with_colon(g, p, depth)
    if colon is not None:
        return colon
    number, given = quantity.quantity(g), quantity.quantity(p)
    if number is not None and given is not None and quantity.same(number, given):
        return True
    if number is not None and given is None:
        comma = quantity.quantity(p, decimal_comma=True)
        if comma is not None and quantity.same(number, comma):
            return True
    several, many = _collection(g, p)
    if several is not None or many is not None:
        return _collections(several, many, g, p, depth) or _two_letters(g, p)
    if number is not None and given is not None:
        return False
    formula, unit = (g, number.unit) if number is not None else _formula_and_unit(g)
    other, unit_given = (p, given.unit) if given is not None else _formula_and_unit(p)
    if (formula, other) != (g, p):
        factor = Fraction(1) if {unit, unit_given} == {"°", "rad"} else units.conversion(unit_given, unit)
        return factor is not None and _same(formula, _times(factor, other), depth + 1)
    return _assigned(g, p, depth)


def _times(factor: Fraction, formula: str) -> str:
    return formula if factor == 1 else rf"\frac{{{factor.numerator}}}{{{factor.denominator}}}\cdot({formula})"


def _formula_and_unit(text: str) -> tuple[str, str]:
    return (text, "") if _has_relation(text) else units.without_unit(text)


def _two_letters(g: str, p: str) -> bool:
    """``a < b`` looks like an interval of a, and ``b > a`` like one of b."""
    return bool(_BETWEEN_LETTERS.fullmatch(g) and _BETWEEN_LETTERS.fullmatch(p)) and symbolic.same_inequality(g, p)


def _with_colon(g: str, p: str, depth: int) -> bool | None:
    """Times and ratios; None where the gold and the answer are neither."""
    time, other = proportion.time_of_day(g), proportion.time_of_day(p)
    if time is not None and other is not None:
        return proportion.same_time(time, other)
    if time is not None:
        return False  # 12:00 is no ratio
    ratio = proportion.ratio(g)
    given = proportion.ratio(p, in_words=ratio is not None)
    if ratio is None and given is not None:
        one_number = len(given) == 2 and all(map(quantity.quantity, given))
        return _same(g, _quotient(given), depth + 1) if one_number else None
    if ratio is None:
        return None
    if given is None:
        return len(ratio) == 2 and _same(_quotient(ratio), p, depth + 1)
    products = ((rf"({x})\cdot({given[0]})", rf"({y})\cdot({ratio[0]})") for x, y in zip(ratio, given, strict=False))
    try:
        return len(ratio) == len(given) and all(symbolic.equal(x, y) for x, y in products)
    except TooLargeError:
        for member in ratio:
            check_size(member)
        return False  # what cannot be computed is the answer's


def _quotient(members: tuple[str, ...]) -> str:
    return rf"\frac{{{members[0]}}}{{{members[1]}}}"


def _assigned(g: str, p: str, depth: int) -> bool:
    """``x = 5`` is 5 and 5 is ``x = 5``; two different names on the left are two different statements."""
    left, right = structure.assignment(g), structure.assignment(p)
    if left is not None and right is not None:
        if left.name == right.name:
            return _same(left.value, right.value, depth + 1)
        f, h = _FUNCTION.fullmatch(left.name), _FUNCTION.fullmatch(right.name)
        if f is not None and h is not None and f[1] == h[1]:  # f(n) = n + 1 is f(x) = x + 1
            renamed = _renamed(right.value, h[2], f[2])
            return renamed is not None and _same(left.value, renamed, depth + 1)
        return symbolic.equal(g, p)
    if left is not None and not _has_relation(p):
        return _same(left.value, p, depth + 1)
    if not _has_relation(g) and "=" in _SUBSCRIPT.sub("", p):
        return _same(g, p.rpartition("=")[2].strip(), depth + 1)  # the value of a chain is its last member
    return same_value(g, p)


def _has_relation(text: str) -> bool:
    return re.search(r"[=<>]|\\(?:le|ge|ne|in|approx|equiv)(?![a-z])", _SUBSCRIPT.sub("", text)) is not None


def _collection(g: str, p: str) -> tuple[Collection | None, Collection | None]:
    """Both as several values; an inequality only where the other side is an interval or an inequality too."""
    if g.startswith("(") or p.startswith("("):
        g, p = _POINT.sub(r"\1", g), _POINT.sub(r"\1", p)
    several, many = structure.collection(g), structure.collection(p)
    if several is None and many is not None and many.kind in _TUPLES:
        several = structure.collection(structure.vector(g))
    elif many is None and several is not None and several.kind in _TUPLES:
        many = structure.collection(structure.vector(p))
    left, right = _interval(g), _interval(p)
    if left is not None and right is not None:
        return left, right
    return several, many


def _interval(text: str) -> Collection | None:
    name = structure.assignment(text)
    text = structure.without_builder(name.value if name is not None else text)
    return structure.union(text) or structure.interval(text)


def _collections(a: Collection | None, b: Collection | None, g: str, p: str, depth: int) -> bool:
    if a is None or b is None:
        return _one_and_several(a, b, g, p, depth)
    if "union" in (a.kind, b.kind):
        return a.kind == b.kind and _any_order(a.items, b.items, depth)
    if "set" in (a.kind, b.kind):
        if {a.kind, b.kind} <= {"set", "list"}:
            return _same_set(a.items, b.items, depth)
        return False
    if a.kind == b.kind == "list":
        return _any_order(a.items, b.items, depth)
    if b.kind == "list" and (a.kind[0] == "[" or a.kind[1] == "]") and len(a.items) == 2:
        return False  # the interval [1, 3] is not 1 and 3
    if _one_name(a) or _one_name(b):
        return False  # x = 1 or x = 3 is not (1, 3)
    pair = len(a.items) == 2 and len(b.items) == 2
    if not {a.kind, b.kind} & {"list", "⟨⟩"} and a.kind != b.kind and pair:
        return False  # [2, 5) is not [2, 5]
    return _in_order(a.items, b.items, depth)


def _one_name(several: Collection) -> bool:
    names = [left.name for left in map(structure.assignment, several.items) if left is not None]
    return len(names) > 1 and len(set(names)) == 1


def _one_and_several(a: Collection | None, b: Collection | None, g: str, p: str, depth: int) -> bool:
    """A set of one is its element; x = {1, 2} is {1, 2}; everything else has another number of values."""
    if a is not None and b is None:
        right = structure.assignment(p)
        if right is not None:
            return _same(g, right.value, depth + 1)
        return len(a.items) == 1 and not _is_empty(a.items[0]) and _same(a.items[0], p, depth + 1)
    left = structure.assignment(g)
    if left is not None:
        return _same(left.value, p, depth + 1)
    return b is not None and len(b.items) == 1 and not _is_empty(b.items[0]) and _same(g, b.items[0], depth + 1)


def _is_empty(text: str) -> bool:
    return text.strip() == r"\emptyset"


def _in_order(a: tuple[str, ...], b: tuple[str, ...], depth: int) -> bool:
    return len(a) == len(b) and all(_same(x, y, depth + 1) for x, y in zip(a, b, strict=True))


def _any_order(a: tuple[str, ...], b: tuple[str, ...], depth: int) -> bool:
    if len(a) != len(b):
        return False
    if _in_order(a, b, depth):
        return True
    names = {x.name for x in map(structure.assignment, a) if x is not None}
    if len(names) > 1 and not any(map(structure.assignment, b)):
        return False  # x = 1, y = 2 given as 2, 1
    counted, given = quantity.by_unit(a), quantity.by_unit(b)
    if counted is not None and given is not None and counted.keys() == given.keys():
        return all(quantity.same(number, given[unit]) for unit, number in counted.items())
    left = list(b)
    for x in a:
        match = next((i for i, y in enumerate(left) if _same(x, y, depth + 1)), None)
        if match is None:
            return False
        del left[match]
    return True


def _same_set(a: tuple[str, ...], b: tuple[str, ...], depth: int) -> bool:
    if not all(any(_same(x, y, depth + 1) for y in b) for x in a):
        return False
    return all(any(_same(x, y, depth + 1) for x in a) for y in b)
