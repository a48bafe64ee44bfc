"""Which letters of a multiple choice a completion chooses. Pure."""

from __future__ import annotations

import re

from agentflow.rewards.extraction import marked
from agentflow.rewards.notation import normalise
from agentflow.rewards.reply import TAIL, after_thinking

_MARKUP = re.compile(r"\\(?:text|textbf|textit|mathrm|mathbf|mathbb|boxed|fbox|mbox)\s*\{([^{}]*)\}")
_LETTERS = r"[(\[]?(?P<first>{one})(?![\w'])[)\]]?(?P<more>(?:\s*(?:,|and|or|&|/)\s*[(\[]?[A-Z](?![\w'])[)\]]?)*)"
_MARKED = re.compile(
    r"\s*(?i:(?:the\s+)?(?:correct\s+)?(?:option|choice|answer)s?\s*:?\s*(?:is\s+)?)?"
    + _LETTERS.format(one="[A-Z]|[a-z](?=[)\\].:,]|\\s*$)")
)
_FILLER = (
    r"(?:[\s:=]|\b(?:I\s+(?:think|believe|guess)|it|is|are|be|would|must|should|therefore|thus|so"
    r"|option|choice|answer|letter|the|correct)\b){0,12}+"
)
_PHRASE = re.compile(
    r"\b(?:[Aa]nswers?|ANSWER|[Cc]orrect\s+(?:option|choice)|[Cc]ho(?:o?se|ice(?=\s+is\b|\s*[:=]))|[Pp]ick|[Ss]elect|go(?:ing)?\s+with)\b"
    + _FILLER
    + _LETTERS.format(one=r"[A-Z]|(?<=[(\[])[a-z](?=[)\]])|[a-z](?=[.,)]?\s*(?:$|\n))")
)
_CHINESE = re.compile(r"(?:答案(?:是|为|[:：】])|选(?:择|项)?)[\s:：]*" + _LETTERS.format(one="[A-Z]"))
_LABEL = re.compile(r"\s*(?:\(([A-Z])\)|([A-Z])[.):](?!\S*[A-Z]\.))")
_PRAISED = re.compile(
    r"(?<![\w'])(?:\(?([A-Z])\)?|\(([a-z])\))\s+(?:is|seems|must be)\s+(?:the\s+)?"
    r"(?:only\s+)?(?:correct|right|best|answer|true)\b"
)
_NO_ARTICLE = "A(?=\\s+(?:and|or)\\s+[A-Z]\\b)|A(?!\\s+[a-z])"
_ALONE = re.compile(r"(?<![\w'\\^{])" + _LETTERS.format(one=_NO_ARTICLE + "|I(?!\\s+[a-z])|[B-HJ-Z]"))
_JOINED = re.compile("[A-Z]{2,8}")  # ABD
_REJECTED = re.compile(r"\b(?:not|isn't|nor|than|reject|rule out|eliminate|exclude)\s+\(?$", re.I)


def chosen(completion: str | None) -> tuple[str, ...]:
    """The chosen letters as capitals, in order; empty if there are none, several where it chooses several or wavers.

    They are those that the completion marks (a box, ``<answer>``, ``####``, "the answer is (B)", "I choose B"), else
    that of the option with which a single line begins, that which "is correct", or the last capital that stands alone
    (not the article A, not I, not one that is rejected).
    """
    found = marked(completion)
    if found is not None:
        return _marked(normalise(found.text))
    text = after_thinking(completion).strip()[-TAIL:]
    text = re.sub(r"[*_`$\"]|\\[()\[\]]", "", text)
    before = None
    while before != text:
        before, text = text, _MARKUP.sub(r"\1", text)
    for pattern in (_PHRASE, _CHINESE):
        phrases = list(pattern.finditer(text))
        if phrases:
            return _all(phrases[-1])
    label = _LABEL.match(text)
    if label is not None and "\n" not in text:
        return ((label[1] or label[2]),)
    praised = _PRAISED.findall(text)
    if praised:
        return ("".join(praised[-1]).upper(),)
    text = text.rstrip(" .")
    whole = _MARKED.fullmatch(text) or _MARKED.fullmatch(text.partition("\n")[0].rstrip(" ."))
    if whole is not None or _JOINED.fullmatch(text):
        return _all(whole) if whole is not None else _marked(text)
    alone = [
        match
        for match in _ALONE.finditer(text)
        if not _REJECTED.search(text, max(0, match.start() - 20), match.start())
    ]
    return _all(alone[-1]) if alone else ()


def gold_letters(answer: str) -> tuple[str, ...]:
    """The letters of a gold answer that is nothing but letters of options: ``B``, ``(B)``, ``A, C``; else none."""
    found = re.fullmatch(_LETTERS.format(one="[A-Z]"), answer.strip(), re.DOTALL)
    return _all(found) if found is not None else ()


def _marked(text: str) -> tuple[str, ...]:
    if _JOINED.fullmatch(text) and list(text) == sorted(set(text)):
        return tuple(text)
    match = _MARKED.match(text)
    if match is None:
        return ()
    ends = match[0][-1] in ")]" or re.match(r"\s*(?:$|[.:,;)])", text[match.end() :]) is not None
    return _all(match) if ends else ()


def _all(match: re.Match[str]) -> tuple[str, ...]:
    return tuple(letter.upper() for letter in [match["first"], *re.findall(r"[A-Z]", match["more"])])
