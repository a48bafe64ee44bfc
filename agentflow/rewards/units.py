"""Units as people write them behind a number or a formula: which they are, and what one is in another. Pure."""

from __future__ import annotations

import re
from fractions import Fraction

_ALIASES = {
    "%": "percent percentage pct per\u00a0cent",
    "°": "degree degrees deg 度",
    "°c": "°\u00a0c degrees\u00a0celsius celsius",
    "°f": "°\u00a0f degrees\u00a0fahrenheit fahrenheit",
    "rad": "rad radian radians",
    "$": "dollar dollars usd bucks 美元",
    "€": "euro euros eur",
    "£": "pound\u00a0sterling gbp",
    "cent": "cent cents ¢",
    "mm": "mm millimeter millimeters millimetre millimetres 毫米",
    "cm": "cm centimeter centimeters centimetre centimetres 厘米",
    "m": "m meter meters metre metres 米",
    "km": "km kilometer kilometers kilometre kilometres 千米 公里",
    "in": "in inch inches",
    "ft": "ft foot feet",
    "yd": "yd yard yards",
    "mi": "mi mile miles",
    "mg": "mg milligram milligrams",
    "g": "g gram grams 克",
    "kg": "kg kilogram kilograms 千克 公斤",
    "lb": "lb lbs pound pounds",
    "oz": "oz ounce ounces",
    "ml": "ml milliliter milliliters millilitre millilitres",
    "l": "l liter liters litre litres",
    "gal": "gal gallon gallons",
    "s": "s sec secs second seconds 秒",
    "min": "min mins minute minutes 分钟",
    "h": "h hr hrs hour hours 小时",
    "d": "day days 天",
    "wk": "week weeks",
    "mo": "month months",
    "yr": "yr yrs year years",
    "mph": "mph",
    "km/h": "kmh km/h kph kmph",
    "m/s": "m/s",
    "n": "newton newtons",
    "j": "joule joules",
    "w": "watt watts",
    "v": "volt volts",
    "k": "kelvin kelvins",
    "hz": "hz hertz",
}
_UNITS = {alias.replace("\u00a0", " "): unit for unit, aliases in _ALIASES.items() for alias in aliases.split(" ")}
_UNITS |= {unit: unit for unit in _ALIASES}
_SIZES: tuple[dict[str, int | str], ...] = (  # in each, multiples of the first
    {"mm": 1, "cm": 10, "m": 1000, "km": 1_000_000, "in": "25.4", "ft": "304.8", "yd": "914.4", "mi": 1_609_344},
    {"mg": 1, "g": 1000, "kg": 1_000_000},
    {"oz": 1, "lb": 16},
    {"ml": 1, "l": 1000},
    {"s": 1, "min": 60, "h": 3600, "d": 86_400, "wk": 604_800},
    {"mo": 1, "yr": 12},
    {"cent": 1, "$": 100},
)
_SIZE = {unit: (kind, Fraction(size)) for kind, sizes in enumerate(_SIZES) for unit, size in sizes.items()}
FUNCTIONS = frozenset({"sin", "cos", "tan", "cot", "sec", "csc", "log", "ln", "exp", "sqrt", "mod", "and", "or"}) | {
    *("arcsin", "arccos", "arctan", "sinh", "cosh", "tanh")
}
_UNSPACED = "[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]"  # Chinese, Japanese, Korean: a unit stands at its number
_UNIT_TEXT = re.compile(
    rf"(?P<words>{_UNSPACED}+|[A-Za-z%°¢$€£][A-Za-z .'/-]*)?(?:\s*\^\s*\{{?\s*(?P<power>[23])\s*\}}?)?"
)
_UNIT_BEHIND = re.compile(
    r"(?P<formula>.*?[^\s+*/=<>^_({\[-])\s+(?P<unit>(?P<words>(?:(?:sq|square|cu|cubic) )?[A-Za-z]{2,}(?:/[a-z]+)?"
    r"(?: per [a-z]+)?)\.?(?:\s*\^\s*(?:\{\s*[23]\s*\}|[23]))?)",
    re.DOTALL,
)
_COMPARED = re.compile(r"\b(?:more|less|fewer|greater|than|or|not|to)\b|以[上下内]|[多到]")
_SQUARED = re.compile(r"^(sq|square|squared|cu|cubic)\s+|\s+(squared|cubed)$")


def named(word: str) -> str | None:
    """Canonical unit of a word, also of a single letter such as h; None for a word that is no known unit."""
    return _UNITS.get(word.lower())


def conversion(unit: str, other: str) -> Fraction | None:
    """How many of ``other`` one ``unit`` is (10 mm to a cm, 100 mm^2 to a cm^2); None if they measure different things.

    A missing unit and an unknown one are forgiven: they are whatever the other is.
    """
    if unit == other or not (is_known(unit) and is_known(other)):
        return Fraction(1)
    (name, power), (other_name, other_power) = _parts(unit), _parts(other)
    if name not in _SIZE or other_name not in _SIZE or power != other_power:
        return None
    (kind, size), (other_kind, other_size) = _SIZE[name], _SIZE[other_name]
    return (size / other_size) ** power if kind == other_kind else None


def is_known(unit: str) -> bool:
    """Whether a canonical unit, with or without a power, is one of ours."""
    return _parts(unit)[0] in _ALIASES


def _parts(unit: str) -> tuple[str, int]:
    name, _, power = unit.partition("^")
    return name, int(power or 1)


def without_unit(text: str) -> tuple[str, str]:
    """A formula and the known unit behind it ("" without one): ``18\\pi cm ^2``, ``2\\sqrt{5} units``."""
    match = _UNIT_BEHIND.fullmatch(text)
    if match is None:
        return text, ""
    unit = "" if match["words"].lower().split()[-1] in ("unit", "units") else unit_of(" " + match["unit"])
    known = unit == "" or (unit is not None and is_known(unit))
    return (match["formula"], unit or "") if known else (text, "")


def unit_of(text: str) -> str | None:
    """Canonical unit of what follows a number; "" for nothing, None if it is no unit."""
    rest = text.strip()
    if not rest:
        return ""
    match = _UNIT_TEXT.fullmatch(rest)
    if match is None or match["words"] is None:
        return None
    words = match["words"].strip(" .").lower()
    squared = _SQUARED.search(words)
    power = match["power"] or ""
    if squared is not None:
        power = "3" if "cu" in squared[0] else "2"
        words = _SQUARED.sub("", words)
    if _COMPARED.search(words):
        return None
    known = _UNITS.get(words)
    if known is None and not re.match(_UNSPACED, words):
        parts = words.split()
        spaced = text[0] == " "
        if not spaced or not parts or any(p in FUNCTIONS for p in parts) or not any(len(p) >= 3 for p in parts):
            return None  # letters that stand at a number are algebra: 2ab, 5x
    elif len(words) == 1 and words.isascii() and words.isalpha() and not (power and text[0] == " "):
        return None  # 5 m is five times m; normalise() spells \\text{m} out
    return (known or words) + (f"^{power}" if power else "")
