"""The steady part of a run, and how much went on at once: exact, by hand and by hypothesis."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.multi_turn.window import InFlight, Span, course, in_flight, steady

MOMENTS = st.integers(0, 50)
SPANS = st.builds(lambda start, length: Span(float(start), float(start + length)), MOMENTS, st.integers(1, 20))


def test_it_begins_with_the_end_of_the_warm_up_and_ends_when_the_first_client_finds_nothing() -> None:
    warm_up = [Span(0, 10), Span(0, 12)]
    measured = [Span(10, 20), Span(12, 25), Span(20, 33), Span(25, 31)]
    assert steady(warm_up, measured) == Span(12, 31), "25: the last one starts; 31: the first end after that"


def test_without_a_warm_up_it_begins_when_the_first_wave_has_started() -> None:
    measured = [Span(0, 10), Span(1, 12), Span(2, 14), Span(10, 20), Span(12, 21), Span(14, 22)]
    assert steady([], measured) == Span(2, 20)


def test_all_at_once_is_steady_until_the_first_is_done() -> None:
    assert steady([], [Span(0, 10), Span(1, 12), Span(2, 14)]) == Span(2, 10)


def test_too_few_conversations_have_no_steady_part() -> None:
    assert steady([], []) is None
    assert steady([Span(0, 10), Span(0, 30)], [Span(10, 20)]) is None, "it was over before the warm-up was"


@given(st.lists(SPANS, max_size=5), st.lists(SPANS, min_size=1, max_size=20))
def test_no_warm_up_reaches_into_it_and_no_client_runs_out_within(warm_up: list[Span], measured: list[Span]) -> None:
    window = steady(warm_up, measured)
    if window is None:
        return
    assert window.seconds > 0
    assert all(span.end <= window.start for span in warm_up)
    last_start = max(span.start for span in measured)
    assert not [span for span in measured if last_start < span.end < window.end]


def test_the_mean_weighs_by_time_and_what_lies_outside_does_not_count() -> None:
    spans = [Span(0, 4), Span(2, 6), Span(9, 30)]
    assert in_flight(spans, Span(2, 10)) == InFlight((2 * 2 + 2 * 1 + 1 * 1) / 8, 2)


def test_one_that_ends_as_another_starts_is_not_beside_it() -> None:
    assert in_flight([Span(0, 5), Span(5, 10)], Span(0, 10)) == InFlight(1.0, 1)


@given(st.lists(SPANS, max_size=20), SPANS)
def test_the_mean_times_the_time_is_the_time_of_all(spans: list[Span], within: Span) -> None:
    inside = sum(max(0.0, min(s.end, within.end) - max(s.start, within.start)) for s in spans)
    found = in_flight(spans, within)
    assert found.mean * within.seconds == pytest.approx(inside)
    assert found.mean <= found.most <= len(spans)
    moments = [s.start for s in spans] + [within.start]
    assert found.most == max(
        sum(s.start <= at < s.end for s in spans) if within.start <= at < within.end else 0 for at in moments
    )


@given(st.lists(SPANS, max_size=20), SPANS, st.integers(1, 30))
def test_the_course_has_the_same_mean_as_the_whole(spans: list[Span], within: Span, points: int) -> None:
    found = course(spans, within, points)
    assert len(found) == points
    assert sum(found) / points == pytest.approx(in_flight(spans, within).mean, abs=1e-9)
