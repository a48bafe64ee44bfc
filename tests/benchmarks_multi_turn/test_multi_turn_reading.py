"""From a trace, as the recorder writes it, to requests."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from agentflow.episode import Call
from benchmarks.multi_turn.reading import Line, Request, requests_of


def line(
    messages: list[str],
    new: dict[str, str],
    at: float = 0.0,
    arrivals: tuple[float, ...] = (0.5, 0.6, 0.8),
    request: dict[str, Any] | None = None,
    **numbers: Any,
) -> Line:
    """A line of a trace; ``new`` are roles by hash."""
    call = Call("id", "/v1/chat/completions", at, 1.0, numbers.pop("status", 200), **numbers)
    raw = {
        "episode": "c/0",
        "attempt": 0,
        "call": msgspec.to_builtins(call),
        "api": call.api,
        "request": {"model": "m", "messages": messages, "stream": True, "max_tokens": 3, **(request or {})},
        "response": {"id": "id"},
        "messages": {name: {"role": role, "content": "text"} for name, role in new.items()},
        "arrivals_s": arrivals,
    }
    return msgspec.json.decode(msgspec.json.encode(raw), type=Line)


def test_the_turn_is_the_number_of_messages_of_the_user_however_short_the_trace_writes_them() -> None:
    trace = [
        line(["s", "u1"], {"s": "system", "u1": "user"}, at=1),
        line(["#0", "a1", "t1"], {"a1": "assistant", "t1": "tool"}, at=2),
        line(["#1", "a2", "u2"], {"a2": "assistant", "u2": "user"}, at=3),
        line(["#2", "a1", "u1"], {}, at=4),
    ]
    assert [request.turn for request in requests_of("c/0", trace)] == [1, 1, 2, 3]


def test_a_probe_is_no_request_but_its_line_is_still_counted_in_the_trace() -> None:
    trace = [
        line(["p"], {"p": "user"}, at=1, arrivals=(), request={"stream": False, "max_tokens": 1}),
        line(["u1"], {"u1": "user"}, at=2),
        line(["#1", "a1", "u2"], {"a1": "assistant", "u2": "user"}, at=3),
    ]
    assert [request.turn for request in requests_of("c/0", trace)] == [1, 2]


def test_a_streamed_request_for_one_token_is_no_probe() -> None:
    assert len(requests_of("c/0", [line(["u"], {"u": "user"}, request={"max_tokens": 1})])) == 1


def test_what_was_added_is_told_from_the_previous_prompt_in_order_of_starts() -> None:
    trace = [
        line(["u1", "a1", "u2"], {"u1": "user", "a1": "assistant", "u2": "user"}, at=2, prompt_tokens=190,
             completion_tokens=30, cached_tokens=128),
        line(["u1"], {}, at=1, prompt_tokens=100, completion_tokens=40),
    ]  # fmt: skip
    first, second = requests_of("c/0", trace)
    assert (first.added_tokens, first.input_tokens) == (100, 100)
    assert (second.added_tokens, second.input_tokens) == (90, 50), "the previous reply is the conversation's own"
    assert second.cached_tokens == 128


def test_delays_come_from_the_pieces() -> None:
    [request] = requests_of("c/0", [line(["u"], {"u": "user"}, completion_tokens=4, queue_s=0.1)])
    assert request.ttft_s == 0.5
    assert request.gaps_s == pytest.approx([0.1, 0.2])
    assert request.tpot_s == pytest.approx(0.3 / 3), "three tokens after the first came in two pieces"
    assert (request.ended_at, request.queue_s, request.tokens_asked) == (1.0, 0.1, 3)


def test_a_reply_in_one_piece_or_unstreamed_has_no_time_between() -> None:
    one = Request("c/0", 1, 0.0, 0.0, 1.0, arrivals_s=(0.5,), completion_tokens=9)
    assert (one.ttft_s, one.gaps_s, one.tpot_s) == (0.5, [], None)
    unstreamed = Request("c/0", 1, 0.0, 0.0, 1.0, completion_tokens=9)
    assert (unstreamed.ttft_s, unstreamed.gaps_s, unstreamed.tpot_s) == (None, [], None)


@pytest.mark.parametrize(
    ("numbers", "error"),
    [
        ({"status": 400, "error": "too long"}, "too long"),
        ({"status": 503}, "HTTP 503"),
        ({"status": 200, "error": "w0 broke off a stream"}, "w0 broke off a stream"),
        ({"status": 0, "error": "the agent went away"}, "the agent went away"),
        ({"status": 200}, ""),
    ],
)
def test_whatever_is_no_whole_reply_is_an_error(numbers: dict[str, Any], error: str) -> None:
    [request] = requests_of("c/0", [line(["u"], {"u": "user"}, **numbers)])
    assert request.error == error


def test_a_body_that_was_no_json_object_is_a_request_as_well() -> None:
    call = Call("id", "/v1/chat/completions", 0.0, 1.0, 400, error="no JSON")
    [request] = requests_of("c/0", [Line(call=call, request="{broken")])
    assert (request.error, request.turn) == ("no JSON", 1)
