"""Progress on a terminal and in a log."""

from __future__ import annotations

import io
import threading

import pytest
from report_samples import call, result_of
from rich.console import Console

from agentflow.episode import Outcome
from agentflow.metrics import Scoring, summarize
from agentflow.report import Progress, progress
from agentflow.report.progress import Tally, display, line


def results():
    return [
        result_of("a", (call(0),)),
        result_of("b", (call(0),), reward=0.0),
        result_of("c", (call(0),), outcome=Outcome.FAILED),
        result_of("d", outcome=Outcome.LOST),
        result_of("e", outcome=Outcome.LOST, final=False),
    ]


def test_a_line_for_a_log_by_hand():
    tally = Tally(8)
    for r in results():
        tally.add(r)
    assert line(tally, 60.0) == (
        "[1:00] 4/8 episodes, 2 scored, 1 failed, 1 lost, 1 retried, reward 0.333 (n=3), 1 tok/s, 1:00 left"
    )


def test_the_mean_so_far_is_the_headline_where_each_item_has_one_episode():
    tally = Tally(4, failed_reward=-1.0)
    for r in results():
        tally.add(r)
    assert tally.mean == summarize(results(), Scoring(failed_reward=-1.0)).reward.mean


def test_before_the_first_result_nothing_is_claimed():
    assert line(Tally(8), 3.0) == "[0:03] 0/8 episodes"
    assert line(Tally(1), 3.0) == "[0:03] 0/1 episode"
    assert Tally(8).mean is None
    assert Tally(8).left_s(3.0) is None


def test_results_from_before_a_resume_count_but_say_nothing_about_speed():
    tally = Tally(6)
    for r in results()[:3]:
        tally.add(r, earlier=True)
    assert tally.left_s(10.0) is None
    tally.add(result_of("x", (call(0),)))
    assert tally.left_s(10.0) == 20.0
    assert tally.tokens_per_s(10.0) == pytest.approx(1.2)


def test_without_a_terminal_there_are_plain_lines_and_messages_as_they_were_written():
    out = io.StringIO()
    with Progress(4, Console(file=out, width=20), now=lambda: 5.0) as shown:
        for r in results():
            shown.update(r)
        shown.message("worker [bold]w-0[/bold]\x1b[2J restarted after a long long while")
    text = out.getvalue()
    assert "worker [bold]w-0[/bold]␛[2J restarted after a long long while\n" in text
    assert text.splitlines()[-1].startswith("[0:00] 4/4 episodes, 2 scored, 1 failed, 1 lost, 1 retried")
    assert "left" not in text
    assert "\x1b" not in text


def test_a_log_gets_lines_while_the_run_goes_on(monkeypatch):
    printed = threading.Event()

    class Out(io.StringIO):
        def write(self, text):
            if "1/4 episodes" in text:
                printed.set()
            return super().write(text)

    monkeypatch.setattr(progress, "LINE_EVERY_S", 0.01)
    with Progress(4, Console(file=Out())) as shown:
        shown.update(results()[0])
        assert printed.wait(60)


def test_the_last_line_of_a_log_is_printed_once(monkeypatch):
    printed = threading.Event()

    class Out(io.StringIO):
        def write(self, text):
            written = super().write(text)
            if "1/1 episode," in text:
                printed.set()
            return written

    monkeypatch.setattr(progress, "LINE_EVERY_S", 0.01)
    out = Out()
    with Progress(1, Console(file=out)) as shown:
        shown.update(results()[0])
        assert printed.wait(60)
    assert out.getvalue().count("1/1 episode,") == 1


def test_the_progress_of_a_resume_begins_with_what_is_stored():
    out = io.StringIO()
    with Progress(3, Console(file=out, width=100), now=lambda: 5.0, earlier=results()[:2]) as shown:
        shown.update(results()[2])
    assert out.getvalue().startswith("[0:00] 3/3 episodes, 2 scored, 1 failed, reward 0.333 (n=3)")


def test_a_log_that_stands_still_says_so_from_time_to_time(monkeypatch):
    lines = threading.Semaphore(0)

    class Out(io.StringIO):
        def write(self, text):
            if "0/4 episodes" in text:
                lines.release()
            return super().write(text)

    monkeypatch.setattr(progress, "LINE_EVERY_S", 0.01)
    monkeypatch.setattr(progress, "SILENCE_S", 0.03)
    with Progress(4, Console(file=Out())):
        assert lines.acquire(timeout=60)
        assert lines.acquire(timeout=60)


def test_on_a_terminal_the_display_is_live_and_leaves_nothing_behind():
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=80)
    with Progress(4, console, now=lambda: 5.0) as shown:
        for r in results():
            shown.update(r)
        shown.message("hello")
    assert "hello" in out.getvalue()
    assert out.getvalue().endswith("\x1b[2K")  # the last thing is that its lines are erased


def test_the_display_of_two_lines():
    tally = Tally(8)
    for r in results():
        tally.add(r)
    console = Console(file=io.StringIO(), width=80)
    console.print(display(tally, 60.0))
    first, second = console.file.getvalue().splitlines()
    assert first.split()[1:] == ["4/8", "1:00", "1:00", "left"]
    assert " ".join(second.split()) == "reward 0.333 n=3 2 scored 1 failed 1 lost 1 retried 1 tok/s"


def test_the_display_of_a_run_of_nothing_does_not_divide_by_it():
    Console(file=io.StringIO()).print(display(Tally(0), 0.0))
