"""One spelling for what people and models write in many: Unicode, spacing and font commands, brackets, short fractions.

Nothing here decides what is equal; two texts that differ after :func:`normalise` may still mean the same. Pure.
"""

from __future__ import annotations

import re
from functools import lru_cache

_VULGAR = "12 13 23 14 34 15 25 35 45 16 56 17 18 38 58 78 19 110"  # numerator, then denominator
_SCRIPTS = [  # runs of raised or lowered characters
    (re.compile(f"([{characters}]+)"), str.maketrans(characters, plain), sign + r"{\1}")
    for characters, plain, sign in [("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿˣ", "0123456789+-nx", "^"), ("₀₁₂₃₄₅₆₇₈₉₊₋ₙ", "0123456789+-n", "_")]
]
_CHARACTERS = str.maketrans(
    {
        **dict.fromkeys("\u00a0\u2002\u2003\u2004\u2005\u2007\u2008\u2009\u200a\u202f\u3000\t\n\r", " "),
        **dict.fromkeys("\u200b\u200c\u200d\u2060\ufeff\u00ad", ""),
        **dict.fromkeys("\u2212\u2010\u2011\u2012\u2013\u2014\ufe63\uff0d", "-"),
        **dict.fromkeys("\u00d7\u2715\u2a2f", r"\times "),
        **dict.fromkeys("\u22c5\u00b7\u2219", r"\cdot "),
        **dict.fromkeys("“”", '"'),
        **dict.fromkeys("‘’′", "'"),
        "″": "''",
        "÷": "/",
        "⁄": "/",
        "∕": "/",
        "√": r"\sqrt ",
        "π": r"\pi ",
        "∞": r"\infty ",
        "θ": r"\theta ",
        "≤": r"\le ",
        "≥": r"\ge ",
        "≠": r"\ne ",
        "±": r"\pm ",
        "∪": r"\cup ",
        "∈": r"\in ",
        "∩": r"\cap ",
        "⩽": r"\le ",
        "≈": r"\approx ",
        "∅": r"\emptyset ",
        "…": "...",
        "ℝ": r"\mathbb{R}",
        "⩾": r"\ge ",
        "º": "°",
        "˚": "°",
        "，": ",",
        "％": "%",
        "：": ":",
        "；": ";",
        "。": ".",
        "（": "(",
        "）": ")",
        "＝": "=",
        **{
            vulgar: rf"\frac{{{fraction[0]}}}{{{fraction[1:]}}}"
            for vulgar, fraction in zip("½⅓⅔¼¾⅕⅖⅗⅘⅙⅚⅐⅛⅜⅝⅞⅑⅒", _VULGAR.split(), strict=True)
        },
        **{chr(zero + i): str(i) for zero in (0xFF10, 0x0660, 0x06F0, 0x0966) for i in range(10)},
    }
)
_FONTS = (
    "text|textbf|textit|textrm|textnormal|math(?:rm|bf|it|sf|tt)|boldsymbol|pmb|bm|underline|mbox|operatorname|rm|bf"
)
_FONT = re.compile(rf"\\(?:{_FONTS})\*?\s*(?=\{{)")
_SIZED = re.compile(r"\\(?:left|right|[bB]igg?[lrm]?)(?![a-zA-Z])\s*\.?(?=\s*(?:\\?[\[\](){}|./]|\\[a-zA-Z]|$))")
_FUNCTION_NAMES = "arc(?:sin|cos|tan|cot|sec|csc)|(?:sin|cos|tan|coth?|sec|csc)h?|log|ln|exp"
_REWRITES = [
    (re.compile(pattern), replacement)
    for pattern, replacement in [
        (r"\\(?:displaystyle|textstyle|limits)(?![a-zA-Z])", " "),
        (r",\s*\\!\s*(?=\d{3}(?!\d))", ","),  # 12,\! 345
        (r"\\!", ""),
        (r"\{\s*([,:])\s*\}", r"\1"),
        (r"\\colon(?![a-zA-Z])", ":"),
        (r"\\(?:tiny|small|normalsize|large|Large|LARGE|huge|Huge|rm|bf|it|sf|tt)(?![a-zA-Z])", " "),
        (r"\\(?:color|textcolor)\s*\{[^{}]*\}", ""),
        (r"(?<=\d)'(?=\d{3}(?!\d))", ","),  # as the Swiss group thousands
        (r"\\frac\s*\{\s*([a-z]{2,})\s*\}\s*\{\s*([a-z]+)\s*\}", r"\1/\2"),  # km/h
        (r"\\(?:begin|end)\{(?:aligned|align\*?|gathered|split|equation\*?)\}", " "),
        (r"(?<=\\\\)\s*\[[\d.]+\s*[a-z]{2}\]", ""),  # a row's extra height: \\[2pt]
        (r"(?<!\\)\\(?:[,;:> ]|q?quad(?![a-zA-Z]))|(?<!\\)~", " "),
        (r"\s+", " "),  # a pattern with two \s* in a row would try every way to share out a long run
        (r"\\[dtc]frac(?![a-zA-Z])", r"\\frac"),
        (r"\\([$%#&_])", r"\1"),
        (r"\^\s*\{?\s*\\circ\s*\}?|\\(?:degree|textdegree)s?(?![a-zA-Z])", "°"),
        (r"\\l(?:eq|eqslant)(?![a-zA-Z])", r"\\le "),
        (r"\\g(?:eq|eqslant)(?![a-zA-Z])", r"\\ge "),
        (r"\\(pmod|bmod)\s*(\w)(?!\w)", r"\\\1{\2}"),
        (r"\\neq(?![a-zA-Z])", r"\\ne "),
        (r"\\lt(?![a-zA-Z])", "<"),
        (r"\\gt(?![a-zA-Z])", ">"),
        (r"<=", r"\\le "),
        (r">=", r"\\ge "),
        (r"\*\*", "^"),
        (r"(?<![a-zA-Z\\])(?:infinity|inf)(?![a-zA-Z])", r"\\infty "),
        (r"\+\s*\\infty", r"\\infty "),
        (r"\\l(?:brace|Brace)(?![a-zA-Z])", r"\\{"),
        (r"\\r(?:brace|Brace)(?![a-zA-Z])", r"\\}"),
        (r"(?<![a-zA-Z\\])sqrt(?=\s*[({\d])", r"\\sqrt"),
        (r"(?<![a-zA-Z\\])pi(?![a-zA-Z])", r"\\pi "),
        (
            rf"(?<![a-zA-Z\\])({_FUNCTION_NAMES})(?=\s*[({{\^\\\d]|\s+(?:[a-zA-Z]|{_FUNCTION_NAMES})(?![a-zA-Z]))",
            r"\\\1 ",
        ),
        (r"\\log\s*_\s*(?:e|\{\s*e\s*\})(?![a-zA-Z])", r"\\ln "),
        (r"\\frac\s*(\d)\s*(\d)", r"\\frac{\1}{\2}"),
        (r"\\frac\s*(\d)\s*\{", r"\\frac{\1}{"),
        (r"(\\frac\s*\{[^{}]*\})\s*([0-9a-zA-Z])", r"\1{\2}"),
        (r"\\frac\s+([0-9a-zA-Z])\s*([0-9a-zA-Z])(?![0-9a-zA-Z])", r"\\frac{\1}{\2}"),
        (r"\^\s*(\\frac\s*\{[^{}]*\}\s*\{[^{}]*\})", r"^{\1}"),
        (r"(\^(?:\w|\{[^{}]*\}))(_(?:\w|\{[^{}]*\}))", r"\2\1"),
        (r"\\sqrt\s*([0-9a-zA-Z])", r"\\sqrt{\1}"),
        (r"\\sqrt\s*\(([^()]*)\)", r"\\sqrt{\1}"),
        (r"\\varnothing(?![a-zA-Z])|\\\{\s*\\\}", r"\\emptyset "),
        (r"(?<![a-zA-Z])(?:the set of )?(?:all )?(?:the )?real numbers(?![a-zA-Z])", r"\\mathbb{R}"),
        (r"\(\s*(?:approximately|approx\.?|rounded[^()]*)\s*\)", ""),
        (r"(?<![a-zA-Z\\])(?:approximately|approx\.?)(?![a-zA-Z])", r"\\approx "),
        (r"^\s*(?:∴|⇒|→|\\(?:therefore|Rightarrow|implies|rightarrow|to)(?![a-zA-Z]))", ""),
        (r"^\s*(?:=|\\approx(?![a-zA-Z]))", ""),
        (r"\]([^\[\],]+,[^\[\],]+)\[", r"(\1)"),  # open intervals as the French write them
        (r"^\]([^\[\],]+,[^\[\],]+)\]$", r"(\1]"),
        (r"^\[([^\[\],]+,[^\[\],]+)\[$", r"[\1)"),
        (r"^\{(?!\d{1,3}(?:,\d{3})+\}$)([^{}\\]*,[^{}]*)\}$", r"\\{\1\\}"),  # braces without backslashes
        (r"(?<![a-zA-Z])(?:negative|minus)\s+(?=[\d.$\\])", "-"),
        (r"\\(?:dot|bar)\s*\{(\d+)\}", r"\\overline{\1}"),
        (r"(?<=\d)_(?=\d{3}(?!\d))", ""),
        (r"\s+", " "),
    ]
]
_ROWS = re.compile(r"\\begin\{(aligned|align\*?|gathered|split|cases)\}([^&]*?(?:&\s*=[^&]*?)*)\\end\{\1\}")
_ELLIPSIS = re.compile(r"(\d{1,9}\.\d{0,9}?)(\d{1,6}?)\2+\s*(?:\.\.\.|\\[lc]?dots(?![a-z]))")
_WRAPPERS = (("$$", "$$"), ("$", "$"), (r"\(", r"\)"), (r"\[", r"\]"), ("**", "**"), ("__", "__"), ("`", "`"))
_UPRIGHT_UNITS = {
    "m": "meters", "g": "grams", "s": "seconds", "h": "hours", "l": "liters", "L": "liters", "d": "days",
    "N": "newtons", "J": "joules", "W": "watts", "V": "volts", "K": "kelvins",
}  # fmt: skip
_SPACES = re.compile(r"\s+")
_IDLE_SPACE = re.compile(r"(?<!\d) +| +(?!\d)")  # 2 1/2 is not 21/2
_SINGLE_BRACED = re.compile(r"([\^_])\{(\w)\}")


@lru_cache(maxsize=4096)
def normalise(text: str) -> str:
    """``text`` without its math environment, in one spelling, spaces collapsed, without a full stop at its end."""
    for run, plain, braced in _SCRIPTS:
        text = run.sub(braced, text).translate(plain)
    text = _ELLIPSIS.sub(r"\1\\overline{\2}", text.translate(_CHARACTERS))  # 0.333... is 1/3
    text = unwrap(_SPACES.sub(" ", text).strip())
    text = _SIZED.sub("", text)
    text = _without_fonts(text.replace(r"\text{,}", ","))
    text = _ROWS.sub(lambda m: re.sub(r"\\\\", ", ", m[2].replace("&", " ").rstrip("\\ ")), text)  # a system
    for pattern, replacement in _REWRITES:
        text = pattern.sub(replacement, text)
    return trim(text)


def _without_fonts(text: str) -> str:
    for font in reversed(list(_FONT.finditer(text))):  # nested ones from the inside: \textbf{\text{(A)}}
        group = group_at(text, font.end())
        if group is None:
            continue
        content, end = group[0].strip(), group[1]
        before = text[: font.start()].rstrip(" \\,;:!~")[-1:]
        if before.isalnum() or before in ("}", ")"):
            content = _UPRIGHT_UNITS.get(content, content)  # upright after a value: metres, not the variable m
        text = f"{text[: font.start()]} {content} {text[end:]}"
    return text


def unwrap(text: str) -> str:
    """Take off math environments, boxes and Markdown emphasis that enclose the whole text."""
    before = None
    while before != text:
        before, text = text, trim(text)
        for opening, closing in _WRAPPERS:
            inner = text[len(opening) : -len(closing)]
            whole = len(text) > len(opening) + len(closing) and text.startswith(opening) and text.endswith(closing)
            if whole and not text.endswith("\\" + closing) and closing not in inner.replace("\\" + closing, ""):
                text = inner
                break
        for command in (r"\boxed", r"\fbox", r"\framebox"):
            if text.startswith(command):
                group = group_at(text, len(command))
                if group is not None and group[1] == len(text):
                    text = group[0]
    return text


def group_at(text: str, position: int) -> tuple[str, int] | None:
    """Content of the brace group that opens at ``position`` (after spaces) and where it ends; None without one."""
    while position < len(text) and text[position].isspace():
        position += 1
    if position >= len(text) or text[position] != "{":
        return None
    depth = 0
    i = position
    while i < len(text):
        if text[i] == "\\":
            i += 2
            continue
        depth += (text[i] == "{") - (text[i] == "}")
        if depth == 0:
            return text[position + 1 : i], i + 1
        i += 1
    return None


def trim(text: str) -> str:
    """Without surrounding space and without the punctuation that ends a sentence or clause."""
    text = text.strip()
    while (text and text[-1] in ".,;:" and not text.endswith((r"\,", r"\;", r"\:", "..."))) or text.endswith(r"\\"):
        text = text[: -2 if text.endswith(r"\\") else -1].rstrip()
    return text


def key(text: str) -> str:
    """What must be the same for two normalised texts to be the same writing: spaces and idle braces do not count."""
    return _SINGLE_BRACED.sub(r"\1\2", _IDLE_SPACE.sub("", text))
