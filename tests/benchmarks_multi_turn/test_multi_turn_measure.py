"""From episodes and requests to numbers: counts, shares, windows and times that add up, errors that show."""

from __future__ import annotations

import io
import xml.etree.ElementTree as ElementTree
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from agentflow.episode import EpisodeResult, Kind, Outcome
from benchmarks.multi_turn.measure import Played, measure
from benchmarks.multi_turn.measurement import Measurement
from benchmarks.multi_turn.plot import picture
from benchmarks.multi_turn.reading import Request
from benchmarks.multi_turn.table import render


def request(turn: int, at: float, latency: float = 1.0, **fields: Any) -> Request:
    """By default answered: first piece after half the time, then two more."""
    defaults: dict[str, Any] = {
        "queue_s": 0.0,
        "arrivals_s": (latency * 0.5, latency * 0.75, latency) if not fields.get("error") else (),
        "prompt_tokens": 100 * turn,
        "cached_tokens": 100 * (turn - 1),
        "completion_tokens": 3,
        "tokens_asked": 3,
    }
    return Request("", turn, at, latency_s=latency, **{**defaults, **fields})


def episode(
    name: str, at: float, wall: float, requests: list[Request], part: str = "measured", **fields: Any
) -> Played:
    defaults: dict[str, Any] = {"outcome": Outcome.SCORED, "reward": 1.0}
    result = EpisodeResult(name, 0, 0, started_at=at, wall_s=wall, groups={"part": part}, **{**defaults, **fields})
    return Played(result, [msgspec.structs.replace(r, episode=result.id) for r in requests])


def two_clients() -> list[Played]:
    """Two clients: a warm-up each, then two conversations each of two turns; a second a request, one between them."""
    played = [episode(f"w{i}", 0.0, 4.0, [request(1, 0.0), request(2, 2.0)], part="warm-up") for i in range(2)]
    said = {"tools_s": 0.5, "preparation_s": 0.25, "input_tokens_asked": 180.0, "shared_tokens_asked": 0.0}
    for i, at in enumerate((4.0, 4.0, 8.0, 9.0)):
        played.append(episode(f"m{i}", at, 4.0, [request(1, at), request(2, at + 2.0)], metrics=said))
    return played


def shown(m: Measurement) -> str:
    console = Console(file=io.StringIO(), width=100)
    console.print(render(m))
    return console.file.getvalue()  # type: ignore[attr-defined]


def test_the_whole_counts_every_measured_request_and_none_of_the_warm_up() -> None:
    m = measure(two_clients(), 6)
    assert m.whole is not None
    assert (m.whole.requests, m.whole.errors, m.whole.episodes, m.whole.turns) == (8, 0, 4, 8)
    assert (m.whole.output_tokens, m.whole.prompt_tokens) == (24, 4 * 300)
    assert m.whole.seconds == 9.0, "from 4.0 to the end of the last episode at 13.0"
    assert (m.warm_up, m.played, m.missing, m.partial) == (2, 4, 0, False)


def test_the_steady_part_holds_exactly_what_ended_in_it() -> None:
    m = measure(two_clients(), 6)
    assert m.steady is not None
    assert m.steady.seconds == 8.0, "from the end of the warm-up at 4.0 to 12.0: the last one had started at 9.0"
    assert (m.steady.requests, m.steady.episodes) == (8, 3), "m3 ends at 13.0, its last request at 12.0"
    assert m.steady.rate(m.steady.requests) == 1.0
    later = [p for p in two_clients() if p.result.item_id != "m3"]
    later.append(episode("m3", 9.0, 5.0, [request(1, 9.0), request(2, 11.5)]))
    cut = measure(later, 6).steady
    assert cut is not None
    assert (cut.seconds, cut.requests) == (8.0, 7), "a request that ends at 12.5 is not in it"


def test_by_turn_there_are_rows_with_lengths_and_the_share_from_cache() -> None:
    m = measure(two_clients(), 6)
    assert [(row.turn, row.requests) for row in m.turns] == [(1, 4), (2, 4)]
    first, second = (row.lengths for row in m.turns)
    assert first is not None
    assert second is not None
    assert (first.prompt, first.cached_share, second.prompt, second.cached_share) == (100.0, 0.0, 200.0, 0.5)
    assert m.whole is not None
    assert m.whole.lengths is not None
    assert m.whole.lengths.cached_share == pytest.approx(400 / 1200), "over tokens, not over requests"


def test_percentiles_are_those_of_agentflow_over_all_gaps_together() -> None:
    slow = request(1, 0.0, latency=4.0, arrivals_s=(1.0, 2.0, 4.0))
    m = measure([episode("a", 0.0, 5.0, [slow]), episode("b", 0.0, 5.0, [request(1, 0.0)])], 2)
    assert m.whole is not None
    delays = m.whole.delays
    assert delays.itl is not None
    assert delays.ttft is not None
    assert delays.itl.p50 == pytest.approx((0.25 + 1.0) / 2), "gaps 0.25, 0.25, 1, 2"
    assert delays.ttft.p50 == pytest.approx(0.75)
    assert delays.tpot is not None
    assert delays.tpot.p50 == pytest.approx((0.25 + 1.5) / 2)


def test_a_reply_without_pieces_counts_in_latency_alone_and_the_table_says_so() -> None:
    held_back = request(1, 0.0, latency=9.0, arrivals_s=())
    m = measure([episode("a", 0.0, 9.0, [held_back]), episode("b", 0.0, 5.0, [request(1, 0.0)])], 2)
    assert m.whole is not None
    assert (m.whole.requests, m.whole.delays.streamed) == (2, 1)
    assert m.whole.delays.ttft is not None
    assert m.whole.delays.ttft.p99 == 0.5
    assert m.whole.delays.latency is not None
    assert m.whole.delays.latency.p50 == 5.0
    assert "1 of 2 replies" in shown(m)


def test_the_times_of_an_episode_add_up() -> None:
    waited = [request(1, 0.0, queue_s=0.4), request(2, 2.0)]
    m = measure([episode("a", 0.0, 4.0, waited, metrics={"tools_s": 0.5, "preparation_s": 0.25})], 1)
    t = m.times
    assert t is not None
    assert (t.wall, t.model, t.queue, t.tools, t.preparation) == pytest.approx((4.0, 1.6, 0.4, 0.5, 0.25))
    assert t.harness == pytest.approx(4.0 - 2.0 - 0.5 - 0.25)


def test_of_an_agent_that_says_nothing_of_its_tools_they_are_in_the_rest() -> None:
    m = measure([episode("a", 0.0, 4.0, [request(1, 0.0)])], 1)
    assert m.times is not None
    assert m.times.tools is None
    assert m.times.harness == pytest.approx(3.0)
    assert "tools, harness" in shown(m)


def test_requests_side_by_side_are_not_counted_twice() -> None:
    m = measure([episode("a", 0.0, 4.0, [request(1, 0.0, 2.0), request(1, 1.0, 2.0)])], 1)
    assert m.times is not None
    assert m.times.model == pytest.approx(3.0)


@given(
    st.lists(
        st.tuples(st.floats(0, 5), st.floats(0, 2), st.floats(0, 1), st.floats(0, 0.5), st.floats(0, 0.5)),
        min_size=1,
        max_size=8,
    )
)
def test_the_parts_add_up_whatever_they_are(drawn: list[tuple[float, float, float, float, float]]) -> None:
    played = []
    for n, (at, latency, queue, tools, preparation) in enumerate(drawn):
        asked = [request(1, at, latency, queue_s=min(queue, latency))]
        metrics = {"tools_s": tools, "preparation_s": preparation}
        played.append(episode(str(n), at, latency + tools + preparation + 0.1, asked, metrics=metrics))
    t = measure(played, len(played)).times
    assert t is not None
    assert t.tools is not None
    assert t.model + t.queue + t.tools + t.preparation + t.harness == pytest.approx(t.wall)
    assert t.harness == pytest.approx(0.1, abs=1e-6)


def test_errors_and_unfinished_episodes_are_counted_and_shown() -> None:
    refused = [request(1, 0.0), request(2, 2.0, error="the context is full")]
    played = [
        episode("a", 0.0, 3.0, refused, outcome=Outcome.FAILED, reward=None, kind=Kind.CONTEXT_OVERFLOW, error="Full."),
        episode("b", 0.0, 9.0, [], outcome=Outcome.LOST, reward=None, kind=Kind.UNREACHABLE),
        episode("c", 0.0, 4.0, [request(1, 0.0), request(2, 2.0)]),
    ]
    m = measure(played, 3)
    assert m.whole is not None
    assert (m.whole.requests, m.whole.errors) == (3, 1)
    assert (m.turns[1].requests, m.turns[1].errors) == (1, 1)
    assert m.whole.turns == 3, "a turn whose request was refused is none"
    assert m.whole.episodes == 2, "a lost one was not played to an end"
    assert [(f.error, f.requests, f.example) for f in m.failures] == [("the context is full", 1, "a/0")]
    assert {(u.what, u.example) for u in m.unfinished} == {
        ("failed: context_overflow", "a/0"),
        ("lost: unreachable", "b/0"),
    }
    text = shown(m)
    for part in (
        "the context is full",
        "1 episode lost: unreachable",
        "1 episode failed: context_overflow",
        "Full.",
        "+ 1 error",
    ):
        assert part in text
    assert m.whole.delays.latency is not None
    assert m.whole.delays.latency.p99 == 1.0, "an error's latency is no reply's"


def test_what_the_endpoint_does_not_count_is_no_zero() -> None:
    said = {"input_tokens_asked": 90.0}
    silent = request(1, 0.0, prompt_tokens=0, completion_tokens=0)
    m = measure([episode("a", 0.0, 1.0, [silent], metrics=said)], 1)
    assert m.whole is not None
    assert (m.whole.requests, m.whole.uncounted, m.whole.lengths, m.input_measured) == (1, 1, None, None)
    text = shown(m)
    assert "1 of 1 replies: the endpoint told no usage" in text
    assert [line.split()[-1] for line in text.splitlines() if "tokens/s" in line] == ["–", "–"]
    counted = request(1, 0.0, prompt_tokens=100, completion_tokens=20)
    both = measure([episode("a", 0.0, 1.0, [silent]), episode("b", 0.0, 1.0, [counted])], 2)
    assert both.whole is not None
    assert both.whole.lengths is not None
    assert (both.whole.uncounted, both.whole.lengths.prompt, both.whole.lengths.output) == (1, 100.0, 20.0)


def test_a_run_that_is_over_without_a_request_does_not_say_yet() -> None:
    m = measure([episode("a", 0.0, 1.0, [], outcome=Outcome.FAILED, reward=None, kind=Kind.EXCEPTION)], 1)
    assert "nothing: no request was made" in shown(m)


def test_a_stopped_run_says_partial_in_table_and_picture() -> None:
    cancelled = episode("c", 4.0, 1.0, [], outcome=Outcome.CANCELLED, reward=None)
    m = measure([*two_clients(), cancelled], 10)
    assert (m.partial, m.missing) == (True, 4)
    assert "PARTIAL: 4 of 10 conversations not played" in shown(m)
    assert "PARTIAL" in picture(m)


def test_a_run_without_any_request_still_has_a_report() -> None:
    m = measure([], 5)
    assert (m.whole, m.steady, m.times, m.turns) == (None, None, None, [])
    assert "PARTIAL: 5 of 5" in shown(m)
    assert "no conversation has come to its end yet" in shown(m)
    ElementTree.fromstring(picture(m))


def test_the_order_of_episodes_changes_nothing() -> None:
    played = two_clients()
    before = measure(played, 6)
    Random(3).shuffle(played)
    assert measure(played, 6) == before


def test_without_a_steady_part_the_table_says_why() -> None:
    few = [episode("w", 0.0, 9.0, [request(1, 0.0)], part="warm-up"), episode("m", 0.0, 4.0, [request(1, 0.0)])]
    m = measure(few, 2)
    assert m.steady is None
    assert "too few conversations" in shown(m)


def test_asked_and_measured_lengths_stand_side_by_side() -> None:
    played = two_clients()
    m = measure(played, 6)
    assert m.input_asked == 90.0, "180 over two messages"
    assert m.whole is not None
    assert m.whole.lengths is not None
    assert m.whole.lengths.output_asked == 3.0
    assert "90.0 tokens a message asked for" in shown(m)


def test_the_state_of_the_cache_is_said_and_a_cache_that_was_warm_already_is_found_out() -> None:
    assert m_cache(cached=0) == [
        "warmed by 2 other conversations",
        "conversations have nothing in common but the chat template",
    ]
    assert "has seen these conversations before" in m_cache(cached=900)[-1]
    unknown = measure([episode("a", 0.0, 4.0, [request(1, 0.0, cached_tokens=0)])], 1)
    assert unknown.cache[0].startswith("as the endpoint was found")
    assert "tells of no cached tokens" in unknown.cache[-1]


def m_cache(cached: int) -> list[str]:
    """Of a run whose first prompts have so many of 1,000 tokens from the cache."""
    played = []
    for p in two_clients():
        first, second = p.requests
        requests = [
            msgspec.structs.replace(first, prompt_tokens=1000, cached_tokens=cached),
            msgspec.structs.replace(second, prompt_tokens=1100, cached_tokens=1000),
        ]
        played.append(Played(p.result, requests))
    return measure(played, 6).cache


def test_everything_serialises_and_comes_back() -> None:
    m = measure(two_clients(), 6, "title")
    assert msgspec.json.decode(msgspec.json.encode(m), type=Measurement) == m


def test_the_picture_is_an_svg_with_four_panels_and_escapes_its_title() -> None:
    m = measure(two_clients(), 6, "<model> & data")
    root = ElementTree.fromstring(picture(m))
    texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert texts[0] == "<model> & data"
    for panel in ("first token, by turn", "between tokens, by turn", "prompt tokens, by turn"):
        assert panel in texts
    assert "steady part" in texts
