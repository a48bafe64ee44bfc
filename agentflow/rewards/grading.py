"""The math grade: find the answer in a completion, compare it with the gold answer. Runs in a reward process."""

from __future__ import annotations

import re

from agentflow.rewards.boolean import boolean, said
from agentflow.rewards.boxes import all_boxes
from agentflow.rewards.equivalence import equivalent, is_words
from agentflow.rewards.extraction import extract, numbers_of_last_sentence
from agentflow.rewards.letters import chosen, gold_letters
from agentflow.rewards.magnitude import MAX_LENGTH, TooLargeError
from agentflow.rewards.notation import key, normalise, unwrap
from agentflow.rewards.prose import SENTENCE_END, SHORT
from agentflow.rewards.quantity import by_unit, quantity, same
from agentflow.rewards.reply import after_thinking
from agentflow.rewards.structure import collection

_MARKED = ("box", "tag", "####", "phrase")
_SAYS = re.compile(
    r"\b(?:is|are|was|were|be|on|called|named|has|have)\s+(?:an?\s+|the\s+)?|\b(?=does not\b)", re.IGNORECASE
)
_NEGATED = re.compile(r"\b(?:not|never|nor|no(?!,))\b|n't\b", re.IGNORECASE)
_WORD = re.compile(r"(?<![\\A-Za-z])[A-Za-z]{2,}")
_HEDGE = re.compile(
    r"\b(?:not?|least|most|more|less|fewer|than|or|and|between|over|under|about|except)\b|n't", re.IGNORECASE
)
_SHORT = 60  # characters; a completion that is nothing but its answer, such as "3 to 4"


def gold_answer(answer: object) -> str:
    """The gold answer as a bare expression: what follows ``####`` (GSM8K), without dollars or a box around it."""
    text = "" if answer is None else str(answer)
    if "####" in text:
        text = text.rpartition("####")[2]
    boxed = extract(text) if re.search(r"\\boxed\s*\{", text) else None
    return unwrap(boxed.text if boxed is not None else text)


def grade(completion: str | None, answer: object) -> float:
    """1.0 if the completion's answer means the same as the gold ``answer``, else 0.0.

    Raises:
        ValueError: the gold answer is empty.
        TooLargeError: the gold answer is too large to be compared with what the completion says.
    """
    gold = gold_answer(answer)
    if not gold:
        raise ValueError("the gold answer is empty")
    whole = after_thinking(completion)
    if len(whole) <= MAX_LENGTH and key(normalise(whole)) == key(normalise(gold)):
        return 1.0
    letters = gold_letters(normalise(gold))
    if letters:
        return float(sorted(chosen(completion)) == sorted(letters))
    yes = boolean(normalise(gold))
    if yes is not None:
        return float(said(completion) == yes)
    found = extract(completion)
    if found is None:
        return 0.0
    is_short = len(whole) <= _SHORT and "\n" not in whole.strip()
    if found.rule not in _MARKED and is_short and equivalent(gold, whole):
        return 1.0
    if equivalent(gold, found.text):
        return 1.0
    parts = found.parts if len(found.parts) > 1 else _spellings(found.text)
    if len(parts) > 1 and _is_one_value(parts):
        return float(equivalent(gold, parts[-1]))  # one value in two spellings is one answer
    if found.rule == "box":
        boxes, several = all_boxes(whole), collection(normalise(gold))
        if several is not None and several.kind == "list" and len(boxes) == len(several.items):
            return float(equivalent(gold, ", ".join(boxes)))  # each value in its own box
        inside = _of_a_sentence(normalise(found.text[:MAX_LENGTH]))
        return float(inside is not None and equivalent(gold, inside))
    if found.rule not in _MARKED and _stated(gold, whole):
        return 1.0
    if found.rule == "number":
        return float(_all_in_one_sentence(gold, completion))
    return 0.0


def _of_a_sentence(box: str) -> str | None:
    """The answer of a box that holds a sentence: "The answer is 42", "There are 7 such integers"."""
    found = extract(box)
    if found is None or found.rule == "phrase":
        return found.text if found is not None else None
    is_plain = len(_WORD.findall(box)) >= 3 and len(numbers_of_last_sentence(box)) == 1 and not _HEDGE.search(box)
    return found.text if is_plain and found.rule == "number" else None


def _is_one_value(parts: tuple[str, ...]) -> bool:
    try:
        return all(equivalent(parts[-1], part) for part in parts)
    except TooLargeError:  # of the answer: the gold is not among them
        return False


def _stated(gold: str, completion: str) -> bool:
    """A gold of words may be what the last sentence ends with: "The function is even"."""
    if not is_words(normalise(gold)):
        return False
    sentence = SENTENCE_END.split(completion.strip()[-SHORT:].rstrip(".!"))[-1]
    endings = [match for match in _SAYS.finditer(sentence) if not _NEGATED.search(sentence, 0, match.start())]
    return any(equivalent(gold, sentence[match.end() :]) for match in endings)  # "is on Monday": behind either word


def _spellings(text: str) -> tuple[str, ...]:
    """The members of a list that are all written differently: "7/2, or 3.5"."""
    several = collection(normalise(text[:MAX_LENGTH]))
    listed = several is not None and several.kind == "list" and len(set(several.items)) == len(several.items)
    return several.items if several is not None and listed else ()


def _all_in_one_sentence(gold: str, completion: str | None) -> bool:
    """A gold of several numbers may be answered in prose, by a sentence that has these numbers and no other."""
    several = collection(normalise(gold))
    if several is None or several.kind != "list" or not all(quantity(item) for item in several.items):
        return False
    counted = numbers_of_last_sentence(completion)
    if len(counted) != len(several.items):
        return False
    wanted, given = by_unit(several.items), by_unit(f"{number} {word}" for number, word in counted)
    if wanted is not None and given is not None and wanted.keys() == given.keys():
        return all(same(number, given[unit]) for unit, number in wanted.items())
    return equivalent(gold, ", ".join(number for number, _ in counted))
