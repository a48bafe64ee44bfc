"""Does a completion say yes or no? Pure."""

from __future__ import annotations

import re

from agentflow.rewards.extraction import marked
from agentflow.rewards.notation import normalise
from agentflow.rewards.reply import TAIL, after_thinking

_SAYS = {"yes": True, "true": True, "no": False, "false": False}
_FIRST = re.compile(
    r"[\s*_\"'`]*(yes|no|true|false)(?=[\s*_\"'`]*(?:$|[.,;:!—-]|\n|\s(?:because|since|as|it)\b))", re.I
)
_STATED = re.compile(r"\banswer(?:\s+is)?[\s:*_]*(yes|no|true|false)\b", re.I)
_IS = re.compile(r"\bis\s+(not\s+|in)?[*_]*(true|false)(?=[*_\s.]*$)", re.I)


def boolean(text: str) -> bool | None:
    """A gold answer that is a yes or a no, None for any other."""
    return _SAYS.get(text.strip(" .").lower())


def said(completion: str | None) -> bool | None:
    """What a completion says: what it marks as its answer begins with, else it, else its last words "is true"."""
    found = marked(completion)
    if found is not None:
        first = _FIRST.match(normalise(found.text))
        return None if first is None else _SAYS[first[1].lower()]
    text = after_thinking(completion).strip()
    tail = text[-TAIL:]
    stated = _STATED.findall(tail)
    if stated:
        return _SAYS[stated[-1].lower()]
    first = _FIRST.match(text)
    if first is not None:
        return _SAYS[first[1].lower()]
    last = _IS.search(tail)
    return None if last is None else _SAYS[last[2].lower()] != bool(last[1])
