"""What stands in a pipe or a file."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from report_samples import result_of
from rich.padding import Padding
from rich.text import Text

from agentflow.metrics import Scoring, summarize
from agentflow.report import final_table, show_run
from agentflow.report.output import Output


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def piped(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[[], str]:
    """What was printed so far, to something that is no terminal and 100 columns wide."""
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    monkeypatch.setenv("COLUMNS", "100")
    return lambda: capsys.readouterr().out


def test_no_line_of_a_piped_table_ends_in_spaces_and_all_that_it_says_is_there(piped, run, printed):
    show_run(run)
    lines = piped().splitlines()
    assert [line.rstrip(" ") for line in lines] == lines
    assert [line.rstrip(" ") for line in printed(show_run, run, width=100).splitlines()] == lines
    assert len(lines) > 10


def test_tables_of_groups_and_workers_are_trimmed_as_well(piped):
    results = [result_of(f"i{k}", groups={"level": str(k % 2)}, worker=f"w-{k % 2}") for k in range(8)]
    final_table(summarize(results, Scoring()), Path("r"))
    text = piped()
    assert "level" in text
    assert "w-1" in text
    assert not [line for line in text.splitlines() if line.endswith(" ")]


def test_what_goes_on_in_the_same_line_goes_on_there(piped):
    console = Output()
    console.print("one", Text("two  "), end="")
    console.print("three   ")
    console.print()
    console.print("a\n\nb")
    assert piped() == "one two  three\n\na\n\nb\n"


def test_a_terminal_gets_what_rich_gives_it(monkeypatch):
    monkeypatch.setenv("COLUMNS", "20")
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setattr(sys, "stdout", Terminal())
    Output().print(Padding("word", (0, 1, 0, 1)))
    assert " word" + " " * 15 in sys.stdout.getvalue()  # type: ignore[attr-defined]
