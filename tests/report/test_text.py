"""Numbers and words as people read them, and what a model wrote can do nothing to the terminal."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from agentflow.report.text import clock, count, first_line, number, percent, plain, plural, seconds


@given(st.text())
def test_whatever_was_written_no_control_character_reaches_the_terminal_and_no_markup_is_read(text):
    console = Console(file=io.StringIO(), width=10_000, force_terminal=True, color_system="truecolor")
    console.print(plain(text), soft_wrap=True)
    shown = console.file.getvalue()
    assert all(c.isprintable() or c == "\n" for c in shown)


def test_markup_is_shown_as_it_was_written():
    assert plain("[bold]x[/bold] [/red] :smile:").plain == "[bold]x[/bold] [/red] :smile:"
    assert plain("a\x1b]0;title\x07b\tc\r\n").plain == "a␛]0;title␇b    c\n"


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (number(None), "–"),
        (number(0.12345), "0.123"),
        (number(-12345.6), "-12,346"),
        (percent(None), "–"),
        (percent(0.0), "0 %"),
        (percent(1.0), "100 %"),
        (percent(0.99999), ">99.9 %"),
        (percent(0.00001), "<0.1 %"),
        (percent(0.125), "12.5 %"),
        (seconds(None), "–"),
        (seconds(0.2), "200 ms"),
        (seconds(0.9999), "1.00 s"),
        (seconds(12.34), "12.3 s"),
        (count(999), "999"),
        (count(12_400), "12,400"),
        (count(3_210_000), "3.21 M"),
        (clock(59.9), "0:59"),
        (clock(3725), "1:02:05"),
        (plural(1, "item"), "1 item"),
        (plural(0, "item"), "0 items"),
        (first_line("one\ntwo", 10), "one"),
        (first_line("x" * 20, 10), "x" * 9 + "…"),
    ],
)
def test_formats(shown, expected):
    assert shown == expected
