"""Where in a completion the answer is. Pure; ``docs/rewards.md`` states the rule for users.

What follows the end of thinking (``</think>``) counts, if anything does. In it the first of these that is there (3 and
5 look at the last 10,000 characters, and at formulas of at most 2,000):

1. the last ``\\boxed{...}`` (several that only commas, "and" or "or" separate are one list), or ``<answer>``;
2. what follows the last ``####`` on its line;
3. what follows the last "answer is", "answer:", "final answer" up to where prose goes on;
4. the whole text, if it is a formula without prose;
5. the last formula in a math environment or the last number, whichever ends later;
6. the whole text, if it is short.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from agentflow.rewards.boxes import last_boxes
from agentflow.rewards.magnitude import MAX_LENGTH
from agentflow.rewards.notation import normalise, trim
from agentflow.rewards.proportion import time_of_day
from agentflow.rewards.quantity import quantity
from agentflow.rewards.units import FUNCTIONS, is_unit
from agentflow.rewards.words import SCALES

TAIL = 10_000  # characters; an answer that is not in a box stands at the end, and searches stay fast
_SHORT = 200  # characters: a text answer such as "east" or "no solution"

_END_TOKEN = re.compile(r"(?:\s*(?:<\|\w+\|>|</s>))+\s*$")  # where the engine leaves it in the text
_HASHES = re.compile(r"####[ \t]*([^\n]*\S)")
_ANSWER = re.compile(
    r"\b(?:final\s+answer|answers?|results?|solutions?|option|choice)\b[^\n.:=]{0,40}?(?:\bis\b|\bare\b|\bequals\b|[:：=])"
    r"(?:[\s*]*(?:therefore|thus|so|simply|just)\b[,:]?)?[\s*_`:\"]*"
    r"|\b(?:final\s+)?answer\**[\s*:]*\n+[\s*]*"
    r"|(?:答案|结果)(?:应该|应)?(?:是|为|[:：])[\s*:：]*|(?:故|应|因此|所以)选(?:择)?[\s*:：]*",
    re.IGNORECASE,
)
_ENVIRONMENT = re.compile(
    rf"\$\$(?P<display>.{{1,{MAX_LENGTH}}}?)\$\$"
    r"|(?<![\\$])\$(?P<inline>(?=\S)(?:\\.|[^$\\\n])+?(?<=\S))\$(?!\d)"
    rf"|\\\[(?P<bracket>.{{1,{MAX_LENGTH}}}?)\\\]"
    rf"|\\\((?P<paren>.{{1,{MAX_LENGTH}}}?)\\\)",
    re.DOTALL,
)
_JOINED = re.compile(r"\s*(?:,?\s*(?:and|or)|,)\s*")
_LETTER = "A-Za-z0-9_\u00c0-\u024f"  # that no number stands at; Chinese is written without spaces
_NUMBER = re.compile(
    rf"(?:(?<![A-Za-z])(?:negative|minus)\s)?(?<![{_LETTER}.\\^{{/])[-+\u2212\u2013]?\s?[$€£]?"
    r"(?:\d{1,3}(?:[,\u00a0\u2009\u202f]\d{3})+|\d{1,3}(?: \d{3})+(?!\d)|\d+)?(?:\.\d+|(?<=\d))"
    r"(?:[eE][-+]?\d+|\s*(?:×|\\times|\*|x)\s*10\s*\^\s*\{?[-+\u2212]?\d+\}?|,\d+(?![,\d])|\s+\d+/\d+|\s*/\s*\d[\d.]*"
    r"|:\d\d(?!\d)(?:\s*[ap]\.?\s?m\b\.?)?"
    rf"|\s*\^\s*(?:\{{[^{{}}]*\}}|[-+]?\d+)|\s+(?:{'|'.join(SCALES)})\b)?"
    r"(?:\s*(?:\\?%|°))?"
)
_PROSE = re.compile(r"(?<![A-Za-z\\])[A-Za-z]{2,}(?![A-Za-z])")
_NOT_PROSE = FUNCTIONS | {"pi", "inf", "infinity", "percent", "degrees", "min", "max", "gcd", "lcm"}
_CHINESE = re.compile("[\u3400-\u9fff]")
_COMMAND = re.compile(r"\\(?:text|mathrm|textbf|mbox|operatorname|begin|end)\s*\{[^{}]*\}|\\[A-Za-z]+")
_CHOICE_AT_START = re.compile(r"\(?[A-Z]\)?(?=[\s.,:;)*]|$)")
_SENTENCE_END = re.compile(r"(?<=\S)[.!?](?=\s|$)|[。\n]")
_HEDGED = re.compile(
    r"(?:not|between|(?:at|no) (?:least|most|more|less|fewer)|(?:more|less|fewer|greater) than)\b", re.I
)
_HEDGE_BEHIND = re.compile(r"\s*(?:or\s+)?(?:more|less|fewer|greater)\b", re.I)
_WITHDRAWN = re.compile(r"\b(?:wait|actually|correction|I mean|scratch that)\b", re.I)
_REJECTED = re.compile(r"(?:\bnot|n't)\s+[$(]?$")
_OR = re.compile(r",?\s+or\s+")
_CORRECTED = re.compile(r"not\b.*?\b(?:but|rather)\s+", re.I)
_COMPOUND = re.compile(r"(?<![\w.])\d[\d.,]*\s*([a-z]+),?\s+(?:and\s+)?\d[\d.,]*\s*([a-z]+)\b", re.I)


@dataclass(frozen=True)
class Extract:
    """What a completion gives as its answer, and by which rule. ``parts``: the boxes or formulas that it joins."""

    text: str
    rule: str
    parts: tuple[str, ...] = ()


def extract(completion: str | None) -> Extract | None:
    """The answer as written, None if there is none."""
    text = after_thinking(completion).strip()
    found = _first((_boxes, _tagged, _hashes, _after_phrase, _formula, _last), text)
    if found is None and 0 < len(text) <= _SHORT:
        return Extract(text, "text")
    return found


def marked(completion: str | None) -> Extract | None:
    """The answer where it is marked by a box, ``<answer>`` or ``####``, else None."""
    return _first((_boxes, _tagged, _hashes), after_thinking(completion).strip())


def numbers_of_last_sentence(completion: str | None) -> list[str]:
    """All numbers of the last sentence that has one: "There are 9 chickens and 10 rabbits"."""
    text = after_thinking(completion)[-TAIL:]
    for sentence in reversed(_SENTENCE_END.split(text)):
        numbers = [match[0].strip() for match in _NUMBER.finditer(sentence)]
        if numbers:
            return numbers
    return []


def after_thinking(completion: str | None) -> str:
    """What a reasoning model says after it thought; all of it where the thinking never ends. None (a message without
    content) is empty."""
    if completion is None:
        return ""
    completion = completion[:-_SHORT] + _END_TOKEN.sub("", completion[-_SHORT:])
    _, closed, answer = completion.rpartition("</think>")
    return answer if closed and answer.strip() else completion


def _first(rules: Iterable[Callable[[str], Extract | None]], text: str) -> Extract | None:
    return next((found for rule in rules if (found := rule(text)) is not None and trim(found.text)), None)


def _boxes(text: str) -> Extract | None:
    contents = last_boxes(text)
    return Extract(", ".join(contents), "box", tuple(contents)) if contents else None


def _tagged(text: str) -> Extract | None:
    lower = text.lower()
    end = lower.rfind("</answer>")
    start = lower.rfind("<answer>", 0, max(end, 0))
    content = text[start + len("<answer>") : end].strip() if start >= 0 else ""
    return Extract(content, "tag") if content else None


def _hashes(text: str) -> Extract | None:
    found = _HASHES.findall(text)
    return Extract(found[-1], "####") if found else None


def _after_phrase(text: str) -> Extract | None:
    text = text[-TAIL:]
    for match in reversed(list(_ANSWER.finditer(text))):
        if _WITHDRAWN.search(text, match.end()):
            return None
        value = _leading_value(text[match.end() :])
        if value is not None:
            return Extract(value, "phrase")
    return None


def _leading_value(rest: str) -> str | None:
    """The formula, letter or number that a text begins with; else the last number of its first sentence."""
    environments = _environments_from(rest)
    if environments is not None:
        return environments
    end = _SENTENCE_END.search(rest)
    sentence = rest[: end.start()] if end is not None else rest
    sentence = sentence.strip().strip("*_`\"'")
    if sentence.count("}") > sentence.count("{"):  # of JSON
        sentence = sentence.rstrip("}").rstrip('" ')
    sentence = _CORRECTED.sub("", sentence, count=1)
    if _HEDGED.match(sentence):
        return sentence
    compound = _compound(sentence[:_SHORT])
    if compound is not None and compound.start() == 0:
        return compound[0]
    choice = _CHOICE_AT_START.match(sentence)
    if choice is not None:
        return sentence if _is_formula(sentence) else choice[0]
    if sentence and (_is_formula(sentence) or _is_quantity(sentence)):
        return sentence
    prose = next((m for m in _PROSE.finditer(_masked(sentence)) if m[0].lower() not in _NOT_PROSE), None)
    if prose is not None and prose.start() > 0:
        if _HEDGE_BEHIND.match(sentence, prose.start()):
            return sentence
        head = re.sub(r"(?:\s(?:and|or)|[\s,;(*_–—-])+$", "", sentence[: prose.start()])
        if re.search(r"\d", head) and _is_formula(head):
            return head
    numbers = list(_NUMBER.finditer(sentence))
    if numbers:
        return numbers[-1][0]
    return sentence if sentence and len(sentence.split()) <= 3 else None


def _environments_from(rest: str) -> str | None:
    """Formulas in math environments that a text begins with, joined by commas, "and" or "or"."""
    match = _ENVIRONMENT.match(rest)
    if match is None:
        return None
    contents = []
    while match is not None:
        contents.append(_content(match))
        joined = _JOINED.match(rest, match.end())
        match = _ENVIRONMENT.match(rest, joined.end()) if joined is not None and joined[0].strip() else None
    return ", ".join(contents)


def _formula(text: str) -> Extract | None:
    formulas = [match for match in _ENVIRONMENT.finditer(text) if len(text) <= _SHORT]
    if len(formulas) > 1 and _JOINED.sub("", _ENVIRONMENT.sub("", text)).strip(" .") == "":
        return Extract(", ".join(map(_content, formulas)), "formula")
    found = 0 < len(text) <= _SHORT and (_is_formula(text) or _is_quantity(text))
    return Extract(text, "formula") if found else None


def _last(text: str) -> Extract | None:
    text = text[-TAIL:]
    environments = [m for m in _ENVIRONMENT.finditer(text) if _content(m).strip() and not _is_rejected(text, m)]
    ends = [m.end() for m in environments]
    numbers = [
        m
        for m in _NUMBER.finditer(text)
        if (i := bisect_right(ends, m.start())) == len(ends) or m.start() < environments[i].start()
        if not _is_rejected(text, m)
    ]
    if environments and (not numbers or numbers[-1].end() <= environments[-1].end()):
        contents = [_content(environments[-1])]
        following = environments[-1].start()
        for match in reversed(environments[:-1]):
            between = _JOINED.fullmatch(text, match.end(), following)
            if between is None or not between[0].strip():
                break
            contents.insert(0, _content(match))
            following = match.start()
        return Extract(", ".join(contents), "formula")
    if not numbers:
        return None
    if len(numbers) > 1 and _OR.fullmatch(text, numbers[-2].end(), numbers[-1].start()):
        return Extract(text[numbers[-2].start() : numbers[-1].end()], "number")
    start = max(0, numbers[-1].start() - _SHORT)
    compound = _compound(text[start : start + 2 * _SHORT])
    whole = compound is not None and compound.start() < numbers[-1].start() - start < compound.end()
    return Extract(compound[0], "text") if compound and whole else Extract(numbers[-1][0].strip(), "number")


def _is_rejected(text: str, match: re.Match[str]) -> bool:
    return _REJECTED.search(text, max(0, match.start() - 10), match.start()) is not None


def _compound(text: str) -> re.Match[str] | None:
    """The last quantity in two units: "2 hours 30 minutes"."""
    found = [match for match in _COMPOUND.finditer(text) if is_unit(match[1]) and is_unit(match[2])]
    return found[-1] if found else None


def _content(match: re.Match[str]) -> str:
    return next(group for group in match.groups() if group is not None)


def _masked(text: str) -> str:
    return _COMMAND.sub(lambda m: " " * len(m[0]), text)


def _is_quantity(text: str) -> bool:
    """A number, perhaps with a unit of a word or two; longer is prose."""
    text = normalise(text) if len(text) <= _SHORT else ""
    if time_of_day(text) is not None:
        return True
    number = quantity(text)
    return number is not None and len(number.unit.split()) <= 2


def _is_formula(text: str) -> bool:
    """No words but names of functions, and something to compute with; dollars of a price are no environment."""
    if "\n" in text.strip() or text.count("$") % 2 or text.startswith("#") or _CHINESE.search(text):
        return False
    words = [word.lower() for word in _PROSE.findall(_masked(text))]
    return (
        all(word in _NOT_PROSE for word in words) and re.search(r"[\d=\\^+]|^[A-Za-z]$|^\([A-Z]\)$", text) is not None
    )
