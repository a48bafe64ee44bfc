"""What is left to algebra: math_verify's parser and sympy, with comparisons that neither hang nor round.

Values are compared by computing them: constants to 50 digits relative to their size, expressions with letters at
fixed points. Only what cannot be computed so (sets, matrices, systems, inequalities) goes to ``math_verify.verify``.
Runs in a reward process; nothing here is bounded in time.
"""

from __future__ import annotations

import logging
import re
from fractions import Fraction
from functools import lru_cache
from typing import Any

import sympy
from latex2sympy2_extended.latex2sympy2 import NormalizationConfig, latex2sympy, normalize_latex
from math_verify import verify

from agentflow.rewards.magnitude import TooLargeError, check_size
from agentflow.rewards.quantity import Quantity

# math_verify warns once that its own time limits are off; ours kill the process instead
logging.getLogger("math_verify").setLevel(logging.ERROR)

_CONFIG = NormalizationConfig(
    basic_latex=True, units=False, malformed_operators=True, nits=True, boxed="none", equations=False
)
_RELATIONS = (sympy.StrictLessThan, sympy.LessThan, sympy.StrictGreaterThan, sympy.GreaterThan)
_LETTER = re.compile(r"\\[A-Za-z]+|[A-Za-z]")
_IMAGINARY = re.compile(r"(?<![A-Za-z\\])i(?![A-Za-z])")
_INDEX = re.compile(r"_\s*\{\s*i\s*=")
_NUMBER_BASE = re.compile(r"\d\s*_")
_TRIGONOMETRIC = re.compile(r"\\(?:sin|cos|tan|cot|sec|csc)(?![a-z])")
_DEGREES = re.compile(r"(\d+(?:\.\d+)?)\s*°")
_DIGITS = 50
_NOISE_BITS = 20
_NOISE = sympy.Float("1e-45")  # of sums of numbers near 1 that are computed to 50 digits
_MAX_DENOMINATOR = 10_000
_OPERATORS = (sympy.Sum, sympy.Product, sympy.Integral, sympy.Derivative, sympy.Limit)
_POINTS = (  # for letters in alphabetical order, rotated; no relation with small coefficients holds among them
    ("1.3247179572", "0.7390851332", "2.6854520011", "1.9021605831", "0.5671432904", "3.3598856662"),
    ("0.6434105463", "2.5029078751", "1.2824271291", "0.9159655942", "4.6692016091", "1.4513692349"),
    ("3.7320508075", "1.7320508076", "0.2614972128", "2.2955871494", "1.1319882488", "0.3036630029"),
    ("-0.8346268417", "-1.6066951524", "-2.8077702420", "-0.4749493800", "-3.2758229187", "-1.0986858055"),
    ("-2.3025850930", "0.6922006276", "-1.1865691104", "1.3063778839", "-0.3532363719", "2.5849817596"),
)


@lru_cache(maxsize=512)
def parse(text: str, imaginary: bool) -> Any:
    """A sympy object, or None if the text cannot be read. ``imaginary``: the letter i is the imaginary unit.

    Raises:
        TooLargeError: it must not be computed.
    """
    check_size(text)
    if _NUMBER_BASE.search(text):
        return None  # the parser drops the base of a number
    if _TRIGONOMETRIC.search(text):
        text = _DEGREES.sub(r"(\1\\cdot\\frac{\\pi}{180})", text)
    latex = normalize_latex(text.replace("$", "").replace("%", r"\%").replace("°", ""), config=_CONFIG)
    try:
        found = latex2sympy(latex, is_real=not imaginary, convert_degrees=False, normalization_config=None)
        exact = _exact(found.xreplace({sympy.Symbol("i", real=False): sympy.I}) if imaginary else found)
        return exact if hasattr(exact, "free_symbols") else None  # the parser leaves holes in what it half reads
    except MemoryError:
        raise
    except Exception:  # noqa: BLE001 -- whatever the parser cannot read is no mathematics; comparing texts remains
        return None


def has_imaginary(text: str) -> bool:
    """Whether the letter i stands for the imaginary unit: not where it counts the terms of a sum."""
    return _IMAGINARY.search(text) is not None and _INDEX.search(text) is None


def equal(gold: str, given: str) -> bool:
    """Whether two normalised texts mean the same mathematical object.

    Raises:
        TooLargeError: the gold answer must not be computed. A given answer that must not be is unequal to one that
            may: it would have more digits than the gold.
    """
    gold, given = _capitals_apart(gold, given)
    imaginary = has_imaginary(gold) or has_imaginary(given)
    a = parse(gold, imaginary)
    try:
        b = parse(given, imaginary)
    except TooLargeError:
        return False
    if a is None or b is None:
        return False
    if isinstance(a, sympy.Eq) and isinstance(b, sympy.Eq):
        return _equations(a, b)
    if isinstance(a, _RELATIONS) and isinstance(b, _RELATIONS) and _inequalities(a, b):
        return True
    if isinstance(a, sympy.Expr) and isinstance(b, sympy.Expr):
        decided = _expressions(a, b)
        if decided is not None:
            return decided
    if isinstance(a, sympy.MatrixBase) and isinstance(b, sympy.MatrixBase):
        decisions = [_expressions(x, y) for x, y in zip(a.flat(), b.flat(), strict=False)]
        if a.shape != b.shape or None not in decisions:
            return a.shape == b.shape and all(decisions)
    return bool(verify(a, b, timeout_seconds=None))


def same_inequality(gold: str, given: str) -> bool:
    """Whether two inequalities say the same of the same letters: ``a \\le b`` and ``b \\ge a``."""
    a, b = parse(gold, False), parse(given, False)
    return isinstance(a, _RELATIONS) and isinstance(b, _RELATIONS) and _inequalities(a, b)


def stands_for(number: Quantity, expression: str) -> bool | None:
    """Whether a decimal of six significant digits or more, or an exact number, is the value of this constant.

    None if the expression is no real constant.

    Raises:
        TooLargeError: as :func:`parse`.
    """
    parsed = parse(expression, has_imaginary(expression))
    if not isinstance(parsed, sympy.Expr) or parsed.free_symbols:
        return None
    constant = parsed.doit()
    exact = _rational(number.value)
    value = constant if constant.is_Rational else _value(constant, {})
    if value is None or not value.is_real or not value.is_finite:
        return None
    equal = value == exact if value.is_Rational else _near(value, exact.n(_DIGITS))
    return equal or (bool(number.ulp) and bool(abs(value - exact) <= _rational(number.ulp) / 2))


def _rational(value: Fraction) -> Any:
    return sympy.Rational(value.numerator, value.denominator)


def _exact(found: Any) -> Any:
    """Decimals as the fractions that were written, not as the floats that the parser makes of them."""
    floats = found.atoms(sympy.Float) if isinstance(found, sympy.Basic | sympy.MatrixBase) else ()
    return found.xreplace({f: _written(str(f.n(15))) for f in floats}) if floats else found


def _written(decimal: str) -> Any:
    fraction = sympy.Rational(decimal)
    # sympy raises an integer to a fraction by computing its powers up to the denominator
    return fraction if fraction.q <= _MAX_DENOMINATOR else sympy.Float(decimal, _DIGITS + 10)


def _equations(a: Any, b: Any) -> bool:
    """Equations are the same when one is a constant times the other, else when they have the same solutions."""
    if not all(isinstance(side, sympy.Expr) for side in (*a.args, *b.args)):
        return bool(verify(a, b, timeout_seconds=None))  # x = an interval
    left, right = a.lhs - a.rhs, b.lhs - b.rhs
    names = sorted(left.free_symbols | right.free_symbols, key=str)
    if left.free_symbols != right.free_symbols or not names:
        return bool(verify(a, b, timeout_seconds=None))
    ratios = _ratios(left, right, names)
    if len(ratios) >= 3 and all(_near(ratio, ratios[0]) for ratio in ratios):
        return True
    return bool(verify(a, b, timeout_seconds=None))


def _inequalities(a: Any, b: Any) -> bool:
    """Whether one inequality is a positive constant times the other."""
    (small, large), (less, more) = ((r.lts, r.gts) for r in (a, b))
    left, right = large - small, more - less
    names = sorted(left.free_symbols | right.free_symbols, key=str)
    if isinstance(a, _RELATIONS[::2]) != isinstance(b, _RELATIONS[::2]) or not names:
        return False
    ratios = _ratios(left, right, names)
    return len(ratios) >= 3 and all(r.is_positive and _near(r, ratios[0]) for r in ratios)


def _ratios(left: Any, right: Any, names: list[Any]) -> list[Any]:
    ratios = []
    for point in _points(names):
        x, y = _value(left, point), _value(right, point)
        if x is not None and y is not None and x.is_finite and y.is_finite and y != 0 and x != 0:
            ratios.append(x / y)
    return ratios


def _capitals_apart(gold: str, given: str) -> tuple[str, str]:
    """The parser makes small letters of capitals. Where one text has a letter in both cases they are told apart."""
    letters = [set(_LETTER.findall(text)) for text in (gold, given)]
    both = {letter for found in letters for letter in found if letter.isupper() and letter.lower() in found}
    if not both:
        return gold, given

    def apart(match: re.Match[str]) -> str:
        return f"{match[0].lower()}_{{88}}" if match[0] in both else match[0]

    return _LETTER.sub(apart, gold), _LETTER.sub(apart, given)


def _expressions(a: Any, b: Any) -> bool | None:
    """True or False where both can be computed, None where not."""
    a, b = (e.doit() if e.has(*_OPERATORS) else e for e in (a, b))
    if a == b:
        return True
    if isinstance(a, sympy.Rational) and isinstance(b, sympy.Rational):
        return False
    if a.free_symbols != b.free_symbols and not (a.free_symbols and b.free_symbols):
        # a letter may still drop out: x - x + 2
        names = sorted(a.free_symbols | b.free_symbols, key=str)
    elif a.free_symbols != b.free_symbols:
        return None
    else:
        names = sorted(a.free_symbols, key=str)
    if not names:
        a, b = a.doit(), b.doit()
        if a.is_Rational and b.is_Rational:
            return bool(a == b)
        x, y = _value(a, {}), _value(b, {})
        return None if x is None or y is None else _near(x, y)
    if a.has(*_OPERATORS) or b.has(*_OPERATORS):
        return None
    compared = 0
    for number, point in enumerate(_points(names)):
        x, y = _value(a, point), _value(b, point)
        if x is None or y is None:
            return None
        if not (x.is_finite and y.is_finite):
            continue
        if number >= 3 and not (x.is_real and y.is_real):
            continue  # roots and logarithms of letters are meant where they are real
        if not _near(x, y):
            return False
        compared += 1
    return True if compared >= 2 else None


def _points(names: list[Any]) -> list[dict[Any, Any]]:
    precision = _DIGITS + 10
    return [
        {name: sympy.Float(row[i % len(row)], precision) + i // len(row) for i, name in enumerate(names)}
        for row in _POINTS
    ]


def _value(expression: Any, point: dict[Any, Any]) -> Any:
    """The number that it is at this point, to 50 digits; None if it is none there."""
    try:
        value = expression.xreplace(point).doit().evalf(_DIGITS)
    except (TypeError, ValueError, ArithmeticError, AttributeError, NotImplementedError, RecursionError):
        return None
    if not value.is_number or value.is_finite is None:
        return None
    # what evalf cannot tell from zero comes back with next to no precision
    noise = {
        part: sympy.S.Zero
        for part in value.atoms(sympy.Float)
        if part._prec < _NOISE_BITS or (point and abs(part) < _NOISE)
    }
    return value.xreplace(noise) if noise else value


def _near(x: Any, y: Any) -> bool:
    """Equal to 30 digits, relative to their size."""
    if x == y:
        return True
    if not (x.is_finite and y.is_finite):
        return False
    size = max(abs(x), abs(y))
    difference = abs((x - y).evalf(_DIGITS))
    return bool(difference <= size * sympy.Rational(1, 10**30))
