"""Which part of a completion can hold its answer: no thinking, no check, nothing beyond the model's own turn. Pure."""

from __future__ import annotations

import re

TAIL = 10_000  # characters; an answer that is not in a box stands at the end, and searches stay fast

_LAST = 200  # characters; in which tokens stand that the engine left in the text
_END_TOKEN = re.compile(r"(?:\s*(?:<\|\w+\|>|</s>))+\s*$")
_END_OF_TURN = re.compile(r"(?<=\S)\s*(?:<\|(?:eot_id|im_end|endoftext|end_of_text|return)\|>|<end_of_turn>|</s>)")
_NEXT_QUESTION = re.compile(r"\n\s*(?:Q|Question|Problem|Human|User)[ \t]*\d*[ \t]*[:：]")
_ANSWERED = re.compile(r"\\boxed|####|\banswer\**\s*(?:is\b|[:：])", re.I)
_CLOSING = re.compile(r"\n[ \t]*(?:let me know|feel free|would you like|I hope (?:this|that))\b", re.I)
_CHECK = re.compile(r"\n[#* \t]*(?:verification|verifying|check|checking)\b[*_]*\s*(?:[:：]|\n)", re.I)
_FOUND_WRONG = re.compile(r"\b(?:mistake|error|wrong|incorrect|not|instead)\b|n't\b", re.I)
_WITHDRAWN = re.compile(r"\b(?:wait|actually|correction|I mean|scratch that)\b", re.I)


def after_thinking(completion: str | None) -> str:
    """What a reasoning model says after it thought, all of it where the thinking never ends, in its own turn.

    A turn ends at the token that ends it, or where a model that has answered asks itself the next question. None (a
    message without content) is empty.
    """
    if completion is None:
        return ""
    ended = _END_OF_TURN.search(completion)
    completion = completion[: ended.start()] if ended is not None else completion
    completion = completion[:-_LAST] + _END_TOKEN.sub("", completion[-_LAST:])
    _, closed, answer = completion.rpartition("</think>")
    text = answer if closed and answer.strip() else completion
    answered = _ANSWERED.search(text)
    following = _NEXT_QUESTION.search(text, answered.end()) if answered is not None else None
    return text[: following.start()] if following is not None else text


def is_cut_off(completion: str | None) -> bool:
    """Whether it ends in the middle of thinking: what stands last there is no answer, unless it is marked as one."""
    return completion is not None and "<think>" in completion and "</think>" not in completion


def is_withdrawn(text: str, position: int) -> bool:
    """Whether what stands before a position is taken back after it."""
    return _WITHDRAWN.search(text, position) is not None


def before_check(text: str) -> str:
    """A text without the check that it ends with, unless that finds a mistake, and without closing courtesies."""
    start = max(0, len(text) - TAIL)
    closing = _CLOSING.search(text, start)
    text = text[: closing.start()].rstrip() if closing is not None else text
    found = list(_CHECK.finditer(text, start))
    if not found or is_withdrawn(text, found[-1].end()) or _FOUND_WRONG.search(text, found[-1].end()):
        return text
    return text[: found[-1].start()].rstrip()
