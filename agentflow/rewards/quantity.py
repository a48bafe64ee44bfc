"""Numbers as people write them, exactly: separators, fractions, mixed numbers, percent, currency, units. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction

from agentflow.rewards.units import conversion, named, unit_of
from agentflow.rewards.words import part, scale, spelled

SIGNIFICANT = 6  # a decimal stands for a number that it does not equal only with so many significant digits
_MAX_EXPONENT = 1000

_CURRENCY = "[$€£¥₹]"
_GROUPED = r"(?:\d{1,3}(?:[, ]\d{3})+|\d{1,2}(?:,\d\d)+,\d{3})"  # 1,234,567; 12,34,567 as in India
_DECIMAL = rf"(?:(?:{_GROUPED}|\d+)(?:\.\d*)?|\.\d+)"
_TEN = r"(?:\\times|\\cdot|[x*])\s*10\s*\^\s*(?:\{\s*([+-]?\s*\d+)\s*\}|([+-]?\d+))"
_FRACTION = r"\\frac\s*\{\s*(-?[\d.,]+)\s*\}\s*\{\s*(-?[\d.,]+)\s*\}"
_PLAIN = re.compile(rf"({_DECIMAL})(?:[eE]([+-]?\d+)|\s*{_TEN})?")
_POWER_OF_TEN = re.compile(r"10\s*\^\s*(?:\{\s*([+-]?\d+)\s*\}|([+-]?\d+))(?![\d.^])")
_REPEATING = re.compile(r"(\d*)\.(\d*)\s*\\overline\s*\{\s*(\d+)\s*\}")
_LATEX_FRACTION = re.compile(_FRACTION)
_SLASHED = re.compile(r"(\d[\d,]*(?:\.\d+)?)\s*/\s*(\d[\d,]*(?:\.\d+)?)")
_MIXED = re.compile(rf"(\d+)\s*{_FRACTION}|(\d+)\s+(?:and\s+)?(\d+)\s*/\s*(\d+)")
_PRIME = r"\s*(?:'|\^\s*\{?\s*\\prime\s*\}?)"
_MINUTES = re.compile(rf"(\d+)\s*°\s*(\d+){_PRIME}(?:\s*(\d+){_PRIME}{_PRIME})?")
_BASE = re.compile(r"\s*_\s*(?:\{\s*\(?([^{}()]+?)\)?\s*\}|(\w))|\s*\(?\s*base[ -]\s*(\w+)\s*\)?", re.IGNORECASE)
_PART = re.compile(rf"({_DECIMAL}) ?([A-Za-z]+)")
_COMPOUND = re.compile(rf"{_DECIMAL} ?[A-Za-z]+(?:,? ?(?:and )?{_DECIMAL} ?[A-Za-z]+)+")  # 1h 30min, 1 day and 2 hours
_ORDINAL = re.compile(r"\s*\^?\s*\{?\s*(?:st|nd|rd|th)\s*\}?(?![A-Za-z])")


@dataclass(frozen=True)
class Quantity:
    """A number with what was written around it.

    Args:
        value: exact; a percentage is its number (28 for 28 %).
        ulp: value of the last decimal place where it was written as a decimal with at least six significant digits,
            0 where only the exact value counts.
        unit: canonical name where known ("cm", "%", "°"), the words as written elsewhere, "" without.
        largest_unit: the first of several ("h" of 2 hours 30 minutes, whose unit is "min"), "" for one or none.
        base: of the number system, as written ("" for none given).
    """

    value: Fraction
    ulp: Fraction = Fraction(0)
    unit: str = ""
    largest_unit: str = ""
    base: str = ""


def quantity(text: str, *, decimal_comma: bool = False) -> Quantity | None:
    """Read a normalised text that is a number and nothing but a number; None if it is not.

    ``decimal_comma``: read ``3,14`` as 3.14.
    """
    text = text.strip()
    if _COMPOUND.fullmatch(text):
        return _sum(_PART.findall(text))
    text = re.sub(r"^(?:Rs\.?|USD|EUR|GBP|INR)\s*(?=\d)", "", text)
    negative = False
    currency = ""
    while text and (text[0] in "+-" or re.match(_CURRENCY, text)):
        if text[0] in "+-":
            if negative:
                return None
            negative = text[0] == "-"
        elif currency:
            return None
        else:
            currency = text[0]
        text = text[1:].lstrip()
    if decimal_comma:
        text = re.sub(r"^(\d{1,3}(?:\.\d{3})+),(\d+)(?!\d|,)", lambda m: m[1].replace(".", "") + "." + m[2], text)
        text = re.sub(r"^(\d+),(\d+)(?!\d|,)", r"\1.\2", text)
    read = _unsigned(text) or _in_words(text)
    if read is None:
        return None
    number, rest = read
    power_of_ten, rest = scale(rest)
    number = replace(number, value=number.value * 10**power_of_ten, ulp=number.ulp * 10**power_of_ten)
    base, ordinal = _BASE.match(rest), _ORDINAL.match(rest)
    if base is not None and number.value.denominator == 1 and re.match(r"\d+", text):
        number, rest = replace(number, base=_digits(base[1] or base[2] or base[3])), rest[base.end() :]
    elif ordinal is not None and number.value.denominator == 1:
        rest = rest[ordinal.end() :]
    unit = unit_of(rest)
    if unit is None:
        return None
    if negative:
        number = replace(number, value=-number.value)
    return replace(number, unit=currency or unit)


def same(gold: Quantity, given: Quantity) -> bool:
    """Whether two numbers with their units say the same.

    A missing unit or base is forgiven; two known ones that measure different things are not. 100 cm are 1 m,
    28 % is both 28 and 0.28, and 2 hours 30 minutes are both 150 and 2.5.
    """
    if gold.base and given.base and gold.base != given.base:
        return False
    factor = conversion(given.unit, gold.unit)
    if factor is None:
        return False
    if _close(gold, replace(given, value=given.value * factor, ulp=given.ulp * factor)):
        return True
    if (gold.unit == "%") != (given.unit == "%"):
        return _close(_fraction_of(gold), _fraction_of(given))
    return "" in (gold.unit, given.unit) and _close(_in_largest_unit(gold), _in_largest_unit(given))


def by_unit(items: Iterable[str]) -> dict[str, Quantity] | None:
    """Numbers that each have a unit of their own, None for others: 9 hens and 10 cats are not 10 hens and 9 cats."""
    numbers = [quantity(item) for item in items]
    found = {number.unit.removesuffix("s"): number for number in numbers if number is not None and number.unit}
    return found if len(found) == len(numbers) else None


def _sum(parts: Iterable[tuple[str, str]]) -> Quantity | None:
    """1 hour 30 minutes, in the last unit; None for units that do not go together, or not in this order."""
    total: Quantity | None = None
    for digits, word in parts:
        value, unit = _decimal(digits), named(word)
        if value is None or unit is None:
            return None
        if total is None:
            total = Quantity(value, unit=unit, largest_unit=unit)
            continue
        factor = conversion(total.unit, unit)
        if factor is None or factor <= 1:
            return None
        total = replace(total, value=total.value * factor + value, unit=unit)
    return total


def _in_largest_unit(number: Quantity) -> Quantity:
    factor = conversion(number.unit, number.largest_unit)
    return number if factor is None else replace(number, value=number.value * factor)


def _fraction_of(number: Quantity) -> Quantity:
    return replace(number, value=number.value / 100, ulp=number.ulp / 100) if number.unit == "%" else number


def _close(a: Quantity, b: Quantity) -> bool:
    # 0.333333 stands for 1/3, 33.3 does not stand for 100/3; of two decimals the shorter must be the longer, rounded
    return a.value == b.value or abs(a.value - b.value) <= max(a.ulp, b.ulp) / 2


def _in_words(text: str) -> tuple[Quantity, str] | None:
    read = spelled(text)
    if read is None:
        return None
    denominator, rest = part(read[1])
    return Quantity(Fraction(read[0], denominator)), rest


def _digits(base: str) -> str:
    """A base as its digits: "two" is "2"."""
    read = spelled(base)
    return str(read[0]) if read is not None and not read[1] else base.lower()


def _unsigned(text: str) -> tuple[Quantity, str] | None:
    minutes = _MINUTES.match(text)
    if minutes is not None:
        sixtieths = Fraction(int(minutes[2]), 60) + Fraction(int(minutes[3] or 0), 3600)
        return Quantity(int(minutes[1]) + sixtieths), "°" + text[minutes.end() :]
    mixed = _MIXED.match(text)
    if mixed is not None:
        whole, top, bottom = (mixed[1], mixed[2], mixed[3]) if mixed[1] else (mixed[4], mixed[5], mixed[6])
        if not (top.isdigit() and bottom.isdigit() and int(top) < int(bottom)):
            return None  # 4 10/3 is no mixed number, nor is it a number with a unit
        return Quantity(int(whole) + Fraction(int(top), int(bottom))), text[mixed.end() :]
    for pattern in (_LATEX_FRACTION, _SLASHED):
        match = pattern.match(text)
        if match is not None:
            top_value, bottom_value = _decimal(match[1]), _decimal(match[2])
            if top_value is None or not bottom_value:
                return None
            return Quantity(top_value / bottom_value), text[match.end() :]
    repeating = _REPEATING.match(text)
    if repeating is not None:
        whole, fixed, period = repeating[1] or "0", repeating[2], repeating[3]
        shift = 10 ** len(fixed)
        value = Fraction(int(whole + fixed), shift) + Fraction(int(period), shift * (10 ** len(period) - 1))
        return Quantity(value), text[repeating.end() :]
    power = _POWER_OF_TEN.match(text)
    if power is not None:
        exponent = int(power[1] or power[2])
        return (Quantity(Fraction(10) ** exponent), text[power.end() :]) if abs(exponent) <= _MAX_EXPONENT else None
    plain = _PLAIN.match(text)
    if plain is None or len(plain[1]) > _MAX_EXPONENT:
        return None
    exponent = int((plain[2] or plain[3] or plain[4] or "0").replace(" ", ""))
    value_or_none = _decimal(plain[1])
    if value_or_none is None or abs(exponent) > _MAX_EXPONENT:
        return None
    scale = Fraction(10) ** exponent
    return Quantity(value_or_none * scale, _ulp(plain[1]) * scale), text[plain.end() :]


def _decimal(text: str) -> Fraction | None:
    digits = text.replace(" ", "")
    if "," in digits:
        if re.fullmatch(r"-?(?:\d{1,3}(?:,\d{3})+|\d{1,2}(?:,\d\d)+,\d{3})(?:\.\d*)?", digits) is None:
            return None
        digits = digits.replace(",", "")
    try:
        return Fraction(digits if not digits.endswith(".") else digits + "0")
    except ValueError:
        return None


def _ulp(text: str) -> Fraction:
    whole, point, places = text.partition(".")
    significant = len((re.sub(r"\D", "", whole) + places).lstrip("0"))
    if not point or not places or significant < SIGNIFICANT:
        return Fraction(0)
    return Fraction(1, 10 ** len(places))
