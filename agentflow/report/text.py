"""Text for a terminal: what models, agents and files wrote is shown as it is and can do nothing."""

from __future__ import annotations

from rich.text import Text

_NAMED = {"\t": "    ", "\r": ""}


def plain(text: str, style: str = "") -> Text:
    """Text without markup. Control characters (escape sequences move the cursor and rename windows) become visible."""
    if not text.isprintable():
        text = "".join(map(_visible, text))
    return Text(text, style)


def _visible(character: str) -> str:
    code = ord(character)
    if character in _NAMED:
        return _NAMED[character]
    if character == "\n" or character.isprintable():
        return character
    if code < 0x20:
        return chr(0x2400 + code)  # the control pictures block
    return f"\\u{code:04x}"


def first_line(text: str, limit: int) -> str:
    """The first line, shortened with an ellipsis."""
    line = text.strip().partition("\n")[0]
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"


def number(value: float | None) -> str:
    """A reward or a metric."""
    if value is None:
        return "–"
    return f"{value:,.3f}" if abs(value) < 1000 else f"{value:,.0f}"


def count(n: int) -> str:
    """950, 12,400, 3.21 M."""
    return f"{n:,}" if n < 1_000_000 else f"{n / 1e6:,.2f} M"


def percent(share: float | None) -> str:
    """Of a share between 0 and 1. Only a whole is 100 %, only nothing is 0 %."""
    if share is None:
        return "–"
    text = f"{share * 100:.1f}"
    if text == "100.0" and share < 1:
        text = ">99.9"
    elif text == "0.0" and share > 0:
        text = "<0.1"
    return f"{text.removesuffix('.0')} %"


def seconds(value: float | None) -> str:
    """A latency."""
    if value is None:
        return "–"
    if value < 0.9995:
        return f"{value * 1000:.0f} ms"
    return f"{value:.2f} s" if value < 9.995 else f"{value:,.1f} s"


def clock(value: float) -> str:
    """A duration as m:ss or h:mm:ss."""
    whole = int(value)
    hours, minutes, rest = whole // 3600, whole // 60 % 60, whole % 60
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def plural(n: int, noun: str) -> str:
    """1 episode, 2 episodes."""
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"
