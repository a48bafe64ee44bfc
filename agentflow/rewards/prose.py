"""Values as they stand in prose: numbers, quantities, formulas in math environments. Pure."""

from __future__ import annotations

import re

from agentflow.rewards.magnitude import MAX_LENGTH
from agentflow.rewards.notation import normalise
from agentflow.rewards.proportion import time_of_day
from agentflow.rewards.quantity import quantity
from agentflow.rewards.units import FUNCTIONS, named, without_unit
from agentflow.rewards.words import SCALES

SHORT = 200  # characters: a text answer such as "east" or "no solution"

ENVIRONMENT = re.compile(
    rf"\$\$(?P<display>.{{1,{MAX_LENGTH}}}?)\$\$"
    r"|(?<![\\$])\$(?P<inline>(?=\S)(?:\\.|[^$\\\n])+?(?<=\S))\$(?!\d)"
    rf"|\\\[(?P<bracket>.{{1,{MAX_LENGTH}}}?)\\\]"
    rf"|\\\((?P<paren>.{{1,{MAX_LENGTH}}}?)\\\)"
    rf"|\\begin\{{(?:align|equation|gather)\*?\}}(?P<lines>.{{1,{MAX_LENGTH}}}?)\\end\{{(?:align|equation|gather)\*?\}}",
    re.DOTALL,
)
_LINES = re.compile(r"\\begin\{(aligned|align\*?|gathered|split)\}(.*)\\end\{\1\}", re.DOTALL)
JOINED = re.compile(r"\s*(?:,?\s*(?:and|or)|,)\s*")
_LETTER = r"A-Za-z\d_\u00c0-\u024f"  # that no number stands at; Chinese is written without spaces
_ROOT = r"(?<![A-Za-z\\])(?:sqrt ?\([^()\n]{1,40}\)|√ ?(?:\([^()\n]{1,40}\)|\d+))"
_SURD = rf"(?:\d+ ?[-+±\u2212] ?)?(?:\d+ ?\*? ?)?{_ROOT}"  # 3 + 2 sqrt(5), without a math environment
_SIGN = rf"(?:(?<![A-Za-z])(?:negative|minus)\s)?(?<![{_LETTER}.\\^{{/])[-+\u2212\u2013]?\s?[$€£]?"
_WHOLE = "|".join(
    [
        r"\d{1,3}(?:\.\d{3})+,\d\d?(?!\d)",  # 4.500,00
        r"\d{1,3}(?:[,'’\u00a0\u2009\u202f]\d{3})+|\d{1,3}(?: \d{3})+(?!\d)",  # 1,234,567
        r"\d{1,2}(?:,\d\d)+,\d{3}",  # 12,34,567
        r"\d+",
    ]
)
_DECIMALS = r"\.\d+|[¼½¾\u2150-\u215e]|(?<=\d)"
_BEHIND = "|".join(
    [
        r"[eE][-+]?\d+",
        r"\s*(?:×|\\times|\*|x)\s*10\s*(?:\^\s*\{?[-+\u2212]?\d+\}?|[⁺⁻]?[⁰¹²³⁴-⁹]+)",
        r",\d+(?![,\d])",  # 3,14
        r"\s+\d+/\d+|\s*/\s*\d[\d.]*",
        r"(?::\d+){2,}|(?: : \d+)+|:\d\d(?!\d)(?:\s*[aApP]\.?\s?[mM]\b\.?)?|:\d+",  # ratios and times
        r"\s*\^\s*(?:\{[^{}]*\}|[-+]?\d+)",
        rf"\s+(?:{'|'.join(SCALES)})\b|[万亿]",
    ]
)
NUMBER = re.compile(
    rf"(?:(?<![\w.^{{/])[-\u2212]?(?:\({_SURD}\)|{_SURD})(?: ?/ ?\d+)?)"
    rf"|{_SIGN}(?:{_WHOLE})?(?:{_DECIMALS})(?:{_BEHIND})?(?:\s*(?:\\?%|°))?"
)
_THOUSANDS = re.compile(r"[kK](?![\w'])")
_UNIT_WORD = re.compile(r"\s?([A-Za-z]{2,})(?![A-Za-z])")
_PROSE = re.compile(r"(?<![A-Za-z\\])[A-Za-z]{2,}(?![A-Za-z])")
_NOT_PROSE = FUNCTIONS | {"pi", "inf", "infinity", "percent", "degrees", "min", "max", "gcd", "lcm"}
# letters that no formula has: Cyrillic, Hebrew, Arabic, Devanagari, Japanese, Chinese, Korean
_FOREIGN = re.compile("[\u0400-\u052f\u05d0-\u05ea\u0620-\u064a\u0905-\u0939\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_COMMAND = re.compile(r"\\(?:text|mathrm|textbf|mbox|operatorname|begin|end)\s*\{[^{}]*\}|\\[A-Za-z]+")
_CAPITALS = re.compile(r"(?:[A-Z]|[IVX]{1,4})(?:\s*(?:,|and|&|,\s*and)\s*(?:[A-Z]|[IVX]{1,4})(?![\w']))+")
CHOICE_AT_START = re.compile(r"\(?[A-Z]\)?(?=[\s.,:;)*]|$)")
SENTENCE_END = re.compile(r"(?<=\S)[.!?](?=[*_]*(?:\s|$))|[。\n]")
_HEDGED = re.compile(
    r"(?:not|between|(?:at|no) (?:least|most|more|less|fewer)|(?:more|less|fewer|greater) than)\b", re.I
)
_HEDGE_BEHIND = re.compile(r"\s*(?:or\s+)?(?:more|less|fewer|greater)\b", re.I)
_CORRECTED = re.compile(r"not\b.*?\b(?:but|rather)\s+", re.I)
_NUMBER_AND_WORD = r"\d[\d.,]*\s*[a-z]+"
_COMPOUND = re.compile(rf"(?<![\w.]){_NUMBER_AND_WORD}(?:,?\s+(?:and\s+)?{_NUMBER_AND_WORD})+\b", re.I)
_STATED = re.compile(r".*(?:\b(?:is|are|equals|becomes|to)\s+|[为是])([^\n]+)$")
_STATED_IN_BRACKETS = re.compile(
    r".*(?:\b(?:is|are|equals|becomes|lies|located)\s+(?:at\s+)?|[为是在]\s*)([(\[{（][^\n]*[,，][^\n]*[)\]}）])$"
)
_MORE_THAN_A_NUMBER = re.compile(  # 2x, \pi, 12π, infinity, 3:4; not "a 5"
    r"(?<![A-Za-z\\])(?!a\s+\d)[A-Za-z](?![A-Za-z])|\\[a-z]|[π∞]|\binfinity\b|^\d+(?:\s*:\s*\d+)+$"
)


def leading_value(rest: str) -> str | None:
    """The formula, letter or number that a text begins with; else the last number of its first sentence."""
    environments = environments_from(rest)
    if environments is not None:
        return environments
    end = SENTENCE_END.search(rest)
    sentence = (rest[: end.start()] if end is not None else rest)[:MAX_LENGTH]
    sentence = sentence.strip().strip("*_`\"'")
    if sentence.count("}") > sentence.count("{"):  # of JSON
        sentence = sentence.rstrip("}").rstrip('" ')
    sentence = _CORRECTED.sub("", sentence, count=1)
    if _HEDGED.match(sentence):
        return sentence
    compound = compound_quantity(sentence[:SHORT])
    if compound is not None and compound.start() == 0:
        return compound[0]
    capitals = _CAPITALS.match(sentence)
    if capitals is not None:
        return capitals[0]
    choice = CHOICE_AT_START.match(sentence)
    if choice is not None:
        return sentence if is_formula(sentence) else choice[0]
    if sentence and (is_formula(sentence) or is_quantity(sentence)):
        return sentence
    prose = next((m for m in _PROSE.finditer(_masked(sentence)) if m[0].lower() not in _NOT_PROSE), None)
    if prose is not None and prose.start() > 0:
        if _HEDGE_BEHIND.match(sentence, prose.start()):
            return sentence
        head = re.sub(r"(?:\s(?:and|or)|[\s,;(*_–—-])+$", "", sentence[: prose.start()])
        if re.search(r"\d", head) and is_formula(head):
            return head
    numbers = list(NUMBER.finditer(sentence))
    if numbers:
        return numbers[-1][0]
    return sentence if sentence and len(sentence.split()) <= 3 else None


def environments_from(rest: str) -> str | None:
    """Formulas in math environments that a text begins with, joined by commas, "and" or "or"."""
    match = ENVIRONMENT.match(rest)
    if match is None:
        return None
    contents = []
    while match is not None:
        contents.append(content_of(match))
        joined = JOINED.match(rest, match.end())
        match = ENVIRONMENT.match(rest, joined.end()) if joined is not None and joined[0].strip() else None
    return ", ".join(contents)


def compound_quantity(text: str) -> re.Match[str] | None:
    """The last quantity in units that go together: "2 hours 30 minutes"."""
    found = [match for match in _COMPOUND.finditer(text) if quantity(normalise(match[0])) is not None]
    return found[-1] if found else None


def with_unit(text: str, number: re.Match[str]) -> str:
    """A number of a text with the known unit behind it, where there is one: "75 cents", but not "5 in all"."""
    if _THOUSANDS.match(text, number.end()):
        return f"{number[0].strip()} thousand"  # 14k
    word = _UNIT_WORD.match(text, number.end())
    has_unit = word is not None and named(word[1]) is not None and word[1].lower() != "in"
    return text[number.start() : word.end() if word is not None and has_unit else number.end()].strip()


def stated_value(text: str) -> str | None:
    """What a text ends with, if that is said to be something and is more than a number: "is 12π cm²", "at (3, 4)"."""
    stated = _STATED_IN_BRACKETS.search(text)
    if stated is not None and is_formula(stated[1]):
        return stated[1]
    stated = _STATED.search(text)
    if stated is None or not _MORE_THAN_A_NUMBER.search(stated[1]):
        return None
    has_value = is_formula(stated[1]) or is_formula(without_unit(normalise(stated[1]))[0])
    return stated[1] if has_value else None


def content_of(match: re.Match[str]) -> str:
    """What stands inside of a math environment; of one with several lines the last, behind its &."""
    content = next(group for group in match.groups() if group is not None)
    lines = _LINES.fullmatch(content.strip()) if match["lines"] is None else None
    if lines is not None or match["lines"] is not None:
        content = lines[2] if lines is not None else content
        return str(content.rstrip("\\ \n").rpartition(r"\\")[2].rpartition("&")[2])
    return str(content)


def _masked(text: str) -> str:
    return _COMMAND.sub(lambda m: " " * len(m[0]), text)


def is_quantity(text: str) -> bool:
    """A number, perhaps with a unit of a word or two; longer is prose."""
    text = normalise(text) if len(text) <= SHORT else ""
    if time_of_day(text) is not None:
        return True
    number = quantity(text)
    return number is not None and len(number.unit.split()) <= 2


def is_formula(text: str) -> bool:
    """No words but names of functions, and something to compute with; dollars of a price are no environment."""
    if "\n" in text.strip() or text.count("$") % 2 or text.startswith("#") or _FOREIGN.search(text):
        return False
    words = [word.lower() for word in _PROSE.findall(_masked(text))]
    return (
        all(word in _NOT_PROSE for word in words) and re.search(r"[\d=\\^+]|^[A-Za-z]$|^\([A-Z]\)$", text) is not None
    )
