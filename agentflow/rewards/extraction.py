"""Where in a completion the answer is. Pure; ``docs/rewards.md`` states the rule for users.

What follows the end of thinking (``</think>``) counts, if anything does. In it the first of these that is there (3, 5
and 6 look at the last 10,000 characters, and at formulas of at most 2,000; 4 to 6 not at a check that is headed so):

1. the last ``\\boxed{...}`` (several that only commas, "and" or "or" separate are one list), unless a value is named
   "answer" after it, and not of a case or a check: then that; or ``<answer>``;
2. what follows the last ``####`` on its line;
3. what follows the last "answer is", "answer:", "final answer" up to where prose goes on;
4. the whole text, if it is a formula without prose;
5. the one value in bold of the last sentence that has a value;
6. the last formula in a math environment, or what the text ends with where that is said to be more than a number
   ("is (3, 4)"), or the last number, whichever ends later;
7. the whole text, if it is short.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from agentflow.rewards.boxes import after_boxes, last_boxes
from agentflow.rewards.notation import trim
from agentflow.rewards.prose import (
    CHOICE_AT_START,
    ENVIRONMENT,
    JOINED,
    NUMBER,
    SENTENCE_END,
    SHORT,
    compound_quantity,
    content_of,
    environments_from,
    is_formula,
    is_quantity,
    leading_value,
    stated_value,
    with_unit,
)
from agentflow.rewards.reply import TAIL, after_thinking, before_check, is_cut_off, is_withdrawn
from agentflow.rewards.words import last_spelled

_HASHES = re.compile(r"####[^\S\n]*(\S[^\n]*)")
_ANSWER = re.compile(
    # the final answer in metres is therefore: **5**
    r"\b(?:final\s+answer|answers?|results?|solutions?|option|choice)\b[^\n.:=]{0,40}?(?:\bis\b|\bare\b|\bequals\b|[:：=])"
    r"(?:[\s*]*(?:therefore|thus|so|simply|just)\b[,:]?)?[\s*_`:\"]*"
    # a heading, the value below it
    r"|\b(?:final\s+)?answer[\s*:]*\n[\s*]*"
    r"|đáp án(?:\s+là\b|\s*[:：])[\s*]*|(?:ответ|réponse|antwort|respuesta|resposta|risposta|答)\s*[:：][\s*]*"
    # the answer is; hence choose
    r"|(?:答案|结果|结论)(?:应该|应)?(?:是|为|[:：】])[\s*:：]*|(?:故|应|因此|所以)选(?:择)?[\s*:：]*",
    re.IGNORECASE,
)
_IS_THE = re.compile(r"\bis\s+the\s+(?:final\s+|correct\s+)?$", re.I)
_NAMED = re.compile(r"\banswer\**\s*(?:\bis\b|[:：])[\s*_`]*", re.I)
_OF_A_CASE = re.compile(r"\b(?:if|suppose|for (?:example|instance)|check(?:ing|s)?|verif\w+)\b", re.I)
_WORD_BEHIND = re.compile(r"[\s*_$]*([A-Za-z]+)")
_BOLD = re.compile(r"\*\*(?=\S)([^*\n]+)\*\*")
_CONCLUDES = re.compile(r"=|\b(?:so|thus|therefore|hence|total|that is|makes?|gives?|leav(?:es|ing))\b", re.I)
_REJECTED = re.compile(r"(?:\bnot|n't|\brather than|\binstead of)\s+[$(]?$")
_ASIDE = re.compile(  # 12 in all (4 of each kind); two letters, or Chinese, so that (3, 4) and f(3) are none
    r"(?<=[\s\u3400-\u9fff])[(（](?=[^()（）]*[^\W\d_]{2}|[^()（）]*[\u3400-\u9fff])[^()（）]*[)）][.。!]?\s*$"
)
_ARROW = re.compile(r".*(?:[⇒⟹]| → )", re.DOTALL)
_OR = re.compile(r",?\s+or\s+")


@dataclass(frozen=True)
class Extract:
    """What a completion gives as its answer, and by which rule. ``parts``: the boxes or formulas that it joins."""

    text: str
    rule: str
    parts: tuple[str, ...] = ()


def extract(completion: str | None) -> Extract | None:
    """The answer as written, None if there is none."""
    text = after_thinking(completion).strip()
    found = _first((_after_box, _boxes, _tagged, _hashes, _after_phrase), text)
    if found is None and is_cut_off(completion):
        return None
    if found is None:
        text = before_check(text)
        found = _first((_formula, _bold, _last), text)
    if found is None and 0 < len(text) <= SHORT:
        return Extract(text, "text")
    return found


def marked(completion: str | None) -> Extract | None:
    """The answer where it is marked by a box, ``<answer>`` or ``####``, else None."""
    return _first((_after_box, _boxes, _tagged, _hashes), after_thinking(completion).strip())


def numbers_of_last_sentence(completion: str | None) -> list[tuple[str, str]]:
    """All numbers of the last sentence that has one, with the word behind each ("" without): "9 hens and 10 cats"."""
    text = after_thinking(completion)[-TAIL:]
    for sentence in reversed(SENTENCE_END.split(text)):
        numbers = list(NUMBER.finditer(sentence))
        if numbers:
            words = [_WORD_BEHIND.match(sentence, match.end()) for match in numbers]
            return [(n[0].strip(), word[1] if word is not None else "") for n, word in zip(numbers, words, strict=True)]
    return []


def _first(rules: Iterable[Callable[[str], Extract | None]], text: str) -> Extract | None:
    return next((found for rule in rules if (found := rule(text)) is not None and trim(found.text)), None)


def _after_box(text: str) -> Extract | None:
    """An answer that is named after the last box: "a step gives \\boxed{2}, final answer: 3"."""
    rest = after_boxes(text)[-TAIL:]
    named = [match for match in _NAMED.finditer(rest) if not _is_of_a_case(rest, match)]
    if not named:
        return None
    rest = rest[named[-1].end() :]
    environments = environments_from(rest)
    if environments is not None:
        return Extract(environments, "phrase")
    end = SENTENCE_END.search(rest)
    value = (rest[: end.start()] if end is not None else rest).strip(" *_`")
    names_one = is_formula(value) or is_quantity(value) or CHOICE_AT_START.fullmatch(value)
    return Extract(value, "phrase") if names_one else None


def _is_of_a_case(text: str, named: re.Match[str]) -> bool:
    """An answer of a special case or of a check: "if n = 3, the answer is 6"."""
    sentence = SENTENCE_END.split(text[max(0, named.start() - SHORT) : named.start()])[-1]
    return _OF_A_CASE.search(sentence) is not None


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
    return Extract(found[-1].rstrip(), "####") if found else None


def _after_phrase(text: str) -> Extract | None:
    text = _without_aside(text[-TAIL:])
    for match in reversed(list(_ANSWER.finditer(text))):
        if is_withdrawn(text, match.end()):
            return None
        turned_round = _IS_THE.search(text, max(0, match.start() - SHORT), match.start())
        if turned_round is not None and not _NAMED.match(text, match.start()):  # "12 is the answer, since ..."
            found = _last(text[: turned_round.start()])
            return Extract(found.text, "phrase", found.parts) if found is not None else None
        value = leading_value(text[match.end() :])
        if value is not None:
            return Extract(value, "phrase")
    return None


def _formula(text: str) -> Extract | None:
    formulas = [match for match in ENVIRONMENT.finditer(text) if len(text) <= SHORT]
    if len(formulas) > 1 and JOINED.sub("", ENVIRONMENT.sub("", text)).strip(" .") == "":
        return Extract(", ".join(map(content_of, formulas)), "formula")
    found = 0 < len(text) <= SHORT and (is_formula(text) or is_quantity(text))
    return Extract(_ARROW.sub("", text), "formula") if found else None


def _bold(text: str) -> Extract | None:
    text = text[-TAIL:]
    found = list(_BOLD.finditer(text))
    if not found:
        return None
    value, rest = found[-1][1].strip(), text[found[-1].end() :]
    numbers = list(NUMBER.finditer(value))
    if len(numbers) == 1 and numbers[0].start() == 0:  # **$5 more**
        value = with_unit(value, numbers[0])
    end = SENTENCE_END.search(rest)
    sentence, after = (rest[: end.start()], rest[end.end() :]) if end is not None else (rest, "")
    alone = len(found) == 1 or SENTENCE_END.search(text, found[-2].end(), found[-1].start()) is not None
    explained = alone and not _CONCLUDES.search(sentence) and not re.search(r"\d|\$|\\[(\[]", after)
    return Extract(value, "bold") if explained and (is_formula(value) or is_quantity(value)) else None


def _last(text: str) -> Extract | None:
    text = _without_aside(text[-TAIL:])
    environments = [m for m in ENVIRONMENT.finditer(text) if content_of(m).strip() and not _is_rejected(text, m)]
    ends = [m.end() for m in environments]
    numbers = [
        m
        for m in NUMBER.finditer(text)
        if (i := bisect_right(ends, m.start())) == len(ends) or m.start() < environments[i].start()
        if not _is_rejected(text, m)
    ]
    if environments and (not numbers or numbers[-1].end() <= environments[-1].end()):
        contents = [content_of(environments[-1])]
        following = environments[-1].start()
        for match in reversed(environments[:-1]):
            between = JOINED.fullmatch(text, match.end(), following)
            if between is None or not between[0].strip():
                break
            contents.insert(0, content_of(match))
            following = match.start()
        return Extract(", ".join(contents), "formula")
    stated = stated_value(text[-SHORT:].rstrip(" .。"))
    if stated is not None:
        return Extract(stated, "formula")
    if not numbers:
        spelled = last_spelled(text)
        return Extract(spelled, "number") if spelled is not None else None
    if len(numbers) > 1 and _OR.fullmatch(text, numbers[-2].end(), numbers[-1].start()):
        return Extract(text[numbers[-2].start() : numbers[-1].end()], "number")
    start = max(0, numbers[-1].start() - SHORT)
    compound = compound_quantity(text[start : start + 2 * SHORT])
    whole = compound is not None and compound.start() < numbers[-1].start() - start < compound.end()
    return Extract(compound[0], "text") if compound and whole else Extract(with_unit(text, numbers[-1]), "number")


def _without_aside(text: str) -> str:
    """A text without the brackets at its end: "12 in all (4 of each kind)". Not without those of f(3)."""
    aside = _ASIDE.search(text)
    sentence = SENTENCE_END.split(text[: aside.start()])[-1] if aside is not None else ""
    if aside is None or not NUMBER.search(sentence) or _ANSWER.search(aside[0]):
        return text
    return text[: aside.start()]


def _is_rejected(text: str, match: re.Match[str]) -> bool:
    return _REJECTED.search(text, max(0, match.start() - 20), match.start()) is not None
