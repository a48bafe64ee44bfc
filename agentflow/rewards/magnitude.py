"""The static guard: how many digits would the numbers in this expression need? Found out without computing any.

sympy and its parser compute ``5^{5^{5^5}}`` or ``(10^8)!`` with all their digits, for hours. The estimate here is an
upper bound on the decimal logarithm of the size of every part, by a walk over the text; letters count as 10.
"""

from __future__ import annotations

import math
import re

MAX_DIGITS = 50_000  # 2004! has 5,750; arithmetic on twice this many is still done in milliseconds
MAX_LENGTH = 2_000  # characters; no answer of a benchmark comes near, and the parser is quadratic in places
MAX_DEPTH = 40  # of nested brackets; the parser recurses

_TOKEN = re.compile(r"\d+(?:\.\d+)?|\\[a-zA-Z]+|\*\*|.", re.DOTALL)
_OPEN, _CLOSE = "({[", ")}]"


class TooLargeError(Exception):
    """The expression is not computed: its numbers are too large, or it is too long or too deep."""


def check_size(expression: str) -> None:
    """Raises TooLargeError for power towers, giant factorials and binomials, over-long and over-deep texts."""
    if len(expression) > MAX_LENGTH:
        raise TooLargeError(f"it is longer than {MAX_LENGTH} characters")
    depth = deepest = 0
    for character in expression:
        depth += (character in _OPEN) - (character in _CLOSE)
        deepest = max(deepest, depth)
    if deepest > MAX_DEPTH:
        raise TooLargeError(f"its brackets are nested more than {MAX_DEPTH} deep")
    _Estimate(_TOKEN.findall(expression.replace(" ", ""))).product()


class _Estimate:
    """Recursive descent; every method returns an upper bound of log10 of what it read, at least 0."""

    def __init__(self, tokens: list[str]) -> None:
        self._tokens = tokens
        self._i = 0

    def _peek(self) -> str:
        return self._tokens[self._i] if self._i < len(self._tokens) else ""

    def product(self, *, inside: bool = False) -> float:
        """Everything up to the bracket that closes: sums are no larger than products of what exceeds 2."""
        size = 0.0
        while self._peek():
            if self._peek() in _CLOSE:
                if inside:
                    break
                self._i += 1
                continue
            size = _checked(size + self._powered())
        return size

    def _powered(self) -> float:
        base = self._atom()
        while self._peek() in ("^", "**", "!"):
            if self._peek() == "!":
                self._i += 1
                base = _factorial(base)
                continue
            self._i += 1
            while self._peek() in ("+", "-"):
                self._i += 1
            exponent = self._powered()  # the exponent binds to the right: 9^9^9 is 9^(9^9)
            base = _power(base, exponent)
        return base

    def _atom(self) -> float:
        token = self._peek()
        self._i += 1
        if token in _OPEN:
            size = self.product(inside=True)
            self._i += 1
            return size
        if token[0].isdecimal():
            value = float(token) if len(token) < 300 else math.inf
            return len(token) if math.isinf(value) else math.log10(max(value, 1.0))
        if token in (r"\binom", r"\dbinom", r"\tbinom"):
            top = self._atom() if self._peek() else 0.0
            return _power(math.log10(2), top)  # n over k is below 2^n
        if token == r"\exp":
            return _power(math.log10(math.e), self._atom() if self._peek() else 0.0)
        return 1.0 if token.isalpha() else 0.0


def _power(base: float, exponent: float) -> float:
    # a base of size 1 or less (1, 0.5, an unknown symbol's sign) still has a numerator and denominator that grow
    return _checked(max(base, math.log10(2)) * 10 ** min(exponent, 12.0))


def _factorial(size: float) -> float:
    n = 10 ** min(size, 12.0)
    return _checked(n * max(size, 0.1))


def _checked(size: float) -> float:
    if size > MAX_DIGITS:
        raise TooLargeError(f"its numbers would need more than {MAX_DIGITS} digits")
    return size
