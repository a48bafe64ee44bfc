"""Rewards that need no algebra: fast, exact, safe on an event loop."""

from __future__ import annotations

import re
import unicodedata

from agentflow.rewards.extraction import extract
from agentflow.rewards.letters import chosen
from agentflow.rewards.notation import normalise
from agentflow.rewards.quantity import quantity, same
from agentflow.rewards.reply import after_thinking

_LETTER = re.compile(r"(?:option|choice|answer)?\s*\(?\s*([A-Za-z])\s*\)?(?=$|\s*[.):,])", re.IGNORECASE)
_QUOTES = str.maketrans("‘’“”", "''\"\"")
_MARKUP = " *_`\"'"


def gsm8k_reward(completion: str | None, answer: object) -> float:
    """1.0 if the number in the completion is the gold number, else 0.0.

    The number is found by the rule of :func:`agentflow.rewards.math_reward` and compared exactly, with separators,
    currency, units and percent understood. The gold answer may be GSM8K's text with ``####``.

    Raises:
        ValueError: the gold answer is no number.
    """
    gold = quantity(normalise(str(answer).rpartition("####")[2]))
    if gold is None:
        raise ValueError(f"the gold answer {str(answer)[-100:]!r} is no number")
    found = extract(completion)
    given = None if found is None else quantity(normalise(found.text).rpartition("=")[2])
    return float(given is not None and same(gold, given))


def exact_match(completion: str | None, answer: object, *, ignore_case: bool = True) -> float:
    """1.0 if the completion, or the answer that it marks (a box, ``####``, "the answer is"), is the gold answer as
    written, else 0.0. Spaces, Markdown and quotes around it, a final full stop and, unless told otherwise, case do not
    count.

    Raises:
        ValueError: the gold answer is None.
    """
    gold = _gold(answer, ignore_case)
    found = extract(completion)
    marked = [found.text, normalise(found.text)] if found is not None else []
    given = [after_thinking(completion), *marked]
    return float(bool(gold) and any(_plain(text, ignore_case) == gold for text in given))


def choice(completion: str | None, answer: object) -> float:
    """1.0 if the letter that the completion chooses is the gold letter, else 0.0.

    The letter is the one that the completion marks as its answer (a box, ``####``, "the answer is (B)"), else the last
    capital letter that stands alone.

    Raises:
        ValueError: the gold answer is no letter.
    """
    gold = _LETTER.match(normalise(str(answer)))
    if gold is None:
        raise ValueError(f"the gold answer {str(answer)[:100]!r} is no letter")
    return float(chosen(completion) == (gold[1].upper(),))


def contains(completion: str | None, answer: object, *, ignore_case: bool = True) -> float:
    """1.0 if the gold answer occurs in the completion (after its thinking) as whole words, a number as a whole number
    with its sign and decimals, else 0.0.

    Raises:
        ValueError: the gold answer is None.
    """
    gold = _gold(answer, ignore_case)
    text = _plain(after_thinking(completion), ignore_case)
    before = r"(?<![\w.,+-])" if gold[:1].isdigit() else r"(?<![^\W_])"  # 3 does not occur in -3, nor in 0.3
    after = r"(?!\w|[.,]\d)" if gold[-1:].isdigit() else r"(?![^\W_])"
    found = re.search(before + re.escape(gold) + after, text) if gold else None
    return float(found is not None)


def _gold(answer: object, ignore_case: bool) -> str:
    if answer is None:
        raise ValueError("the gold answer is None")
    return _plain(str(answer), ignore_case)


def _plain(text: str, ignore_case: bool) -> str:
    text = " ".join(unicodedata.normalize("NFC", text).translate(_QUOTES).split())
    text = text.strip(_MARKUP).removesuffix(".").rstrip(_MARKUP)
    return text.casefold() if ignore_case else text
