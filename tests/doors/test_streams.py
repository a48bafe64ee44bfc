"""Streams: handed on byte for byte, understood on the way, whole or visibly not."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentflow.runner.assemble import assembler
from agentflow.runner.dialect import Dialect
from agentflow.runner.numbers import Numbers, numbers
from agentflow.runner.relay import Relay, ThinnedRelay, TranslatedRelay
from agentflow.runner.sse import EventCutter
from agentflow.runner.translate import messages, responses
from tests.scripted import chat_chunks, tool_call


def sse(events: Iterable[dict[str, Any]], done: bool = True) -> bytes:
    wire = ""
    for event in events:
        name = f"event: {event['type']}\n" if "type" in event else ""
        wire += f"{name}data: {json.dumps(event)}\n\n"
    return (wire + ("data: [DONE]\n\n" if done else "")).encode()


CALLS = [tool_call("add", {"a": 1}, "call_1"), tool_call("mul", {"b": 2}, "call_2")]
CHAT = sse(chat_chunks("Grüße and  more words", tool_calls=CALLS, finish_reason="tool_calls", include_usage=True))
MESSAGES = sse(
    [
        {"type": "message_start", "message": {"id": "msg_1", "type": "message", "role": "assistant", "content": [],
         "usage": {"input_tokens": 7, "cache_read_input_tokens": 3, "output_tokens": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "he"}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "llo"}},
        {"type": "content_block_stop", "index": 0},
        {"type": "content_block_start", "index": 1,
         "content_block": {"type": "tool_use", "id": "toolu_1", "name": "add", "input": {}}},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": '{"a":'}},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": " 1}"}},
        {"type": "content_block_stop", "index": 1},
        {"type": "message_delta", "delta": {"stop_reason": "max_tokens"}, "usage": {"output_tokens": 5}},
        {"type": "message_stop"},
    ],
    done=False,
)  # fmt: skip
RESPONSE = {
    "id": "resp_1", "status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"},
    "output": [{"type": "function_call", "id": "fc_1"}, {"type": "message", "id": "msg_1"}],
    "usage": {"input_tokens": 4, "input_tokens_details": {"cached_tokens": 2}, "output_tokens": 3},
}  # fmt: skip
RESPONSES = sse(
    [
        {"type": "response.created", "response": {"id": "resp_1", "output": []}},
        {"type": "response.output_item.done", "item": RESPONSE["output"][0]},
        {"type": "response.incomplete", "response": RESPONSE},
    ],
    done=False,
)
COMPLETIONS = sse(
    [
        {"id": "cmpl-1", "choices": [{"index": 0, "text": "he", "finish_reason": None}]},
        {"id": "cmpl-1", "choices": [{"index": 0, "text": "llo", "finish_reason": "length"}]},
        {"id": "cmpl-1", "choices": [], "usage": {"prompt_tokens": 2, "completion_tokens": 2}},
    ]
)
STREAMS = {
    Dialect.CHAT: CHAT,
    Dialect.MESSAGES: MESSAGES,
    Dialect.RESPONSES: RESPONSES,
    Dialect.COMPLETIONS: COMPLETIONS,
}


def pieces(wire: bytes, cuts: Iterable[int]) -> list[bytes]:
    at = sorted({c % (len(wire) + 1) for c in cuts} | {0, len(wire)})
    return [wire[a:b] for a, b in itertools.pairwise(at)]


def relayed(relay: Relay, chunks: Iterable[bytes]) -> bytes:
    out = b"".join(relay.feed(chunk) for chunk in chunks)
    return out + relay.finish()


@given(st.sampled_from(sorted(STREAMS)), st.lists(st.integers(min_value=0), max_size=20))
def test_wherever_a_stream_is_cut_the_bytes_and_the_reply_are_the_same(dialect: Dialect, cuts: list[int]) -> None:
    wire = STREAMS[dialect]
    one, many = Relay(dialect), Relay(dialect)
    assert relayed(one, [wire]) == relayed(many, pieces(wire, cuts)) == wire
    assert one.reply() == many.reply()
    assert one.whole
    assert many.whole


@given(st.lists(st.integers(min_value=0), max_size=20))
def test_pieces_are_the_events_with_something_that_the_model_wrote_wherever_the_stream_is_cut(cuts: list[int]) -> None:
    deltas = MESSAGES.count(b'"content_block_delta"')
    expected = {Dialect.CHAT: 4 + 2 * 2, Dialect.MESSAGES: deltas, Dialect.RESPONSES: 0, Dialect.COMPLETIONS: 2}
    for dialect, wire in STREAMS.items():
        relay = Relay(dialect)
        relayed(relay, pieces(wire, cuts))
        assert relay.pieces == expected[dialect], dialect
    for module, dialect in ((responses, Dialect.RESPONSES), (messages, Dialect.MESSAGES)):
        translated = TranslatedRelay(dialect, module.Stream({"model": "m", "stream": True, "max_tokens": 10}))
        relayed(translated, pieces(CHAT, cuts))
        assert translated.pieces == 4 + 2 * 2, dialect


@given(st.lists(st.integers(min_value=0), max_size=20))
def test_only_the_usage_chunk_is_taken_out_and_still_counted(cuts: list[int]) -> None:
    relay = ThinnedRelay(Dialect.CHAT)
    out = relayed(relay, pieces(CHAT, cuts))
    assert out == sse(chat_chunks("Grüße and  more words", tool_calls=CALLS, finish_reason="tool_calls"))
    reply = relay.reply()
    assert reply is not None
    assert numbers(Dialect.CHAT, reply).completion_tokens == 5


def test_a_chat_stream_is_assembled_into_the_reply_it_stands_for() -> None:
    relay = Relay(Dialect.CHAT)
    relayed(relay, [CHAT])
    reply = relay.reply()
    assert reply is not None
    message = reply["choices"][0]["message"]
    assert message["content"] == "Grüße and more words"
    assert [{k: v for k, v in call.items() if k != "index"} for call in message["tool_calls"]] == CALLS
    assert reply["object"] == "chat.completion"
    assert numbers(Dialect.CHAT, reply) == Numbers("chatcmpl-1", 10, 5, 0, 2, False)


def test_logprobs_and_reasoning_are_kept_whole() -> None:
    a = assembler(Dialect.CHAT)
    assert a is not None
    for i in range(2):
        delta = {"reasoning_content": f"r{i}", "content": f"c{i}"}
        a.feed({"choices": [{"index": 0, "delta": delta, "logprobs": {"content": [{"token": f"t{i}"}]}}]})
    choice = a.reply()["choices"][0]
    assert choice["message"] == {"reasoning_content": "r0r1", "content": "c0c1"}
    assert choice["logprobs"] == {"content": [{"token": "t0"}, {"token": "t1"}]}


def test_a_part_without_an_index_is_kept_beside_those_that_have_one() -> None:
    a = assembler(Dialect.CHAT)
    assert a is not None
    for part in (
        {"id": "a", "function": {"name": "f"}},
        {"index": 0, "id": "b"},
        {"index": 0, "function": {"name": "g"}},
    ):
        a.feed({"choices": [{"index": 0, "delta": {"tool_calls": [part]}}]})
    calls = a.reply()["choices"][0]["message"]["tool_calls"]
    assert [(c["id"], c["function"]["name"]) for c in calls] == [("a", "f"), ("b", "g")]


def test_two_choices_are_kept_apart_and_both_must_finish() -> None:
    a = assembler(Dialect.CHAT)
    assert a is not None
    a.feed({"choices": [{"index": 0, "delta": {"content": "a"}}, {"index": 1, "delta": {"content": "b"}}]})
    a.feed({"choices": [{"index": 1, "delta": {"content": "B"}, "finish_reason": "stop"}]})
    assert not a.complete
    a.feed({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    assert a.complete
    assert [c["message"]["content"] for c in a.reply()["choices"]] == ["a", "bB"]


def test_messages_completions_and_responses_streams_have_their_numbers() -> None:
    def read(dialect: Dialect) -> tuple[dict[str, Any], Numbers]:
        relay = Relay(dialect)
        relayed(relay, [STREAMS[dialect]])
        reply = relay.reply()
        assert reply is not None
        return reply, numbers(dialect, reply)

    reply, found = read(Dialect.MESSAGES)
    assert found == Numbers("msg_1", 10, 5, 3, 1, True)
    assert [b.get("text") or b.get("input") for b in reply["content"]] == ["hello", {"a": 1}]
    reply, found = read(Dialect.COMPLETIONS)
    assert found == Numbers("cmpl-1", 2, 2, 0, 0, True)
    assert reply["choices"][0]["text"] == "hello"
    reply, found = read(Dialect.RESPONSES)
    assert found == Numbers("resp_1", 4, 3, 2, 1, True)
    assert reply == RESPONSE


@pytest.mark.parametrize("dialect", sorted(STREAMS))
def test_a_stream_without_its_end_is_not_whole_but_what_came_is_kept(dialect: Dialect) -> None:
    events = EventCutter().feed(STREAMS[dialect])
    relay = Relay(dialect)
    relayed(relay, [b"".join(e.wire for e in events[:1])])
    assert not relay.whole
    assert relay.reply()


def test_an_error_event_is_remembered() -> None:
    relay = Relay(Dialect.CHAT)
    relayed(relay, [b'data: {"error": {"message": "boom", "code": 500}}\n\n'])
    assert relay.error == "boom"


@pytest.mark.parametrize("end", [b"\n\n", b"\r\n\r\n", b"\r\r"])
def test_events_may_end_in_any_of_the_three_ways(end: bytes) -> None:
    nl = end[: len(end) // 2]
    wire = b"event: x" + nl + b"data: a" + nl + b"data: b" + end + b": ping" + end + b"data:c" + end
    assert [e.data for e in EventCutter().feed(wire)] == [b"a\nb", b"", b"c"]


@pytest.mark.parametrize(("dialect", "module"), [(Dialect.RESPONSES, responses), (Dialect.MESSAGES, messages)])
@given(cuts=st.lists(st.integers(min_value=0), max_size=12))
def test_a_translated_stream_is_recorded_as_the_agent_saw_it(dialect: Dialect, module: Any, cuts: list[int]) -> None:
    body = {"model": "m", "stream": True, "max_tokens": 10}
    relay = TranslatedRelay(dialect, module.Stream(body))
    handed = relayed(relay, pieces(CHAT, cuts))
    assert relay.whole
    seen = Relay(dialect)
    relayed(seen, [handed])
    assert seen.whole
    assert relay.reply() == seen.reply()
    reply = relay.reply()
    assert reply is not None
    assert numbers(dialect, reply).tool_calls == 2
    assert numbers(dialect, reply).completion_tokens == 5


def test_a_translated_stream_that_breaks_is_not_whole() -> None:
    relay = TranslatedRelay(Dialect.MESSAGES, messages.Stream({"model": "m"}))
    handed = relayed(relay, [CHAT[: len(CHAT) // 3]])
    assert not relay.whole
    assert b"message_stop" not in handed
