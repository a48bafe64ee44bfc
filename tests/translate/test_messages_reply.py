"""What a chat reply becomes as a Messages reply, whole and streamed; the anthropic SDK's own types are the judge."""

from __future__ import annotations

from typing import Any

import pytest
from anthropic.types import Message, RawMessageStreamEvent
from pydantic import BaseModel, TypeAdapter
from translate_door import call, chat, chunks, events, streamed

from agentflow.runner.translate import TranslationError, messages
from agentflow.runner.translate.messages import NO_COUNT_TOKENS, error, from_chat

EVENT: TypeAdapter[RawMessageStreamEvent] = TypeAdapter(RawMessageStreamEvent)
ADD = call("call_a", "add", '{"a": 1, "b": 2}')
BODY = {"model": "default", "max_tokens": 20, "messages": [], "stop_sequences": ["END"]}
REPLIES = {
    "text": chat("Hello there"),
    "thought and text": chat("Hello", thought="let me see"),
    "call": chat("", ADD),
    "call called stop": chat("", ADD, finish="stop"),
    "everything": chat("calling", ADD, call("call_b", "add", "{}"), thought="hm"),
    "no arguments": chat("", call("call_b", "now", "")),
    "cut text": chat("Hel", finish="length"),
    "cut thought": chat("", thought="let me", finish="length"),
    "stopped by a word": chat("Hel", stop_reason="END"),
    "stopped by a token": chat("Hel", stop_reason=128001),
    "stopped by a word, said as SGLang says it": chat("Hel", matched_stop="END"),
    "filtered": chat("Hel", finish="content_filter"),
    "empty": chat(""),
    "thought only": chat("", thought="hm"),
}


def no_unknown_fields(value: Any, where: str = "") -> None:
    """The SDK's types let unknown fields through: find those that it has no name for."""
    if isinstance(value, BaseModel):
        assert not value.model_extra, f"{where}: {value.model_extra}"
        for name in type(value).model_fields:
            no_unknown_fields(getattr(value, name), f"{where}.{name}")
    elif isinstance(value, list):
        for i, item in enumerate(value):
            no_unknown_fields(item, f"{where}[{i}]")


def judged(reply: dict[str, Any]) -> Message:
    message = Message.model_validate(reply, strict=True)
    no_unknown_fields(message)
    return message


@pytest.mark.parametrize("name", REPLIES)
def test_every_reply_is_a_message_to_the_sdk(name: str) -> None:
    judged(from_chat(BODY, REPLIES[name]))


@pytest.mark.parametrize("name", REPLIES)
def test_every_event_is_one_that_the_sdk_knows(name: str) -> None:
    for one in streamed(messages, BODY, REPLIES[name]):
        no_unknown_fields(EVENT.validate_python(one, strict=True), one["type"])


@pytest.mark.parametrize(
    ("name", "stop_reason", "stop_sequence"),
    [
        ("text", "end_turn", None),
        ("call", "tool_use", None),
        ("call called stop", "tool_use", None),
        ("cut text", "max_tokens", None),
        ("stopped by a word", "stop_sequence", "END"),
        ("stopped by a word, said as SGLang says it", "stop_sequence", "END"),
        ("stopped by a token", "end_turn", None),
        ("filtered", "refusal", None),
    ],
)
def test_why_a_reply_ended(name: str, stop_reason: str, stop_sequence: str | None) -> None:
    whole = judged(from_chat(BODY, REPLIES[name]))
    assert (whole.stop_reason, whole.stop_sequence) == (stop_reason, stop_sequence)
    delta = streamed(messages, BODY, REPLIES[name])[-2]["delta"]
    assert delta == {"stop_reason": stop_reason, "stop_sequence": stop_sequence}


def test_usage_is_counted_as_anthropic_counts() -> None:
    counts = {
        "input_tokens": 18,  # of 50, 32 were read from the cache
        "cache_read_input_tokens": 32,
        "cache_creation_input_tokens": 0,
        "output_tokens": 7,
    }
    assert from_chat(BODY, chat("x"))["usage"] == counts
    assert streamed(messages, BODY, chat("x"))[-2]["usage"] == counts


def test_the_blocks_of_a_reply_with_everything_in_order() -> None:
    assert from_chat(BODY, REPLIES["everything"])["content"] == [
        {"type": "thinking", "thinking": "hm", "signature": ""},
        {"type": "text", "text": "calling"},
        {"type": "tool_use", "id": "call_a", "name": "add", "input": {"a": 1, "b": 2}},
        {"type": "tool_use", "id": "call_b", "name": "add", "input": {}},
    ]


def test_the_events_of_a_reply_with_everything_in_order() -> None:
    found = streamed(messages, BODY, REPLIES["everything"], size=1000)
    block = ["content_block_start", "content_block_delta", "content_block_stop"]
    assert [one["type"] for one in found] == ["message_start", *block * 4, "message_delta", "message_stop"]
    assert [one["index"] for one in found[1:-2]] == [i for i in range(4) for _ in block]


def test_nothing_of_a_stream_is_held_back() -> None:
    stream = messages.Stream(BODY)
    first, text, *_ = chunks(chat("Hello"))
    assert [one["type"] for one in events(stream.feed(first))] == ["message_start"]
    assert events(stream.feed(text))[-1]["delta"] == {"type": "text_delta", "text": "Hel"}


def test_of_a_call_that_the_limit_cut_off_what_was_complete_is_there() -> None:
    reply = judged(from_chat(BODY, chat("", ADD, call("call_b", "add", '{"a": 1, "b": "x'), finish="length")))
    assert reply.stop_reason == "max_tokens"
    assert [block.input for block in reply.content if block.type == "tool_use"] == [{"a": 1, "b": 2}, {"a": 1}]


@pytest.mark.parametrize("arguments", ['{"a": oops}', "[1]", "7", '{"a": 1'])
def test_arguments_that_are_no_object_are_kept_where_a_tool_will_refuse_them(arguments: str) -> None:
    reply = judged(from_chat(BODY, chat("", call("c", "add", arguments))))
    assert [block.input for block in reply.content if block.type == "tool_use"] == [{"malformed_arguments": arguments}]


def test_a_reply_that_says_nothing_holds_an_empty_text() -> None:
    for name, blocks in [("empty", ["text"]), ("thought only", ["thinking", "text"]), ("cut thought", ["thinking"])]:
        assert [block["type"] for block in from_chat(BODY, REPLIES[name])["content"]] == blocks
        started = [one for one in streamed(messages, BODY, REPLIES[name]) if one["type"] == "content_block_start"]
        assert [one["content_block"]["type"] for one in started] == blocks


def test_a_reply_that_its_worker_gave_up_is_an_error() -> None:
    with pytest.raises(TranslationError, match="gave this reply up itself"):
        from_chat(BODY, chat("Hel", finish="abort"))
    assert streamed(messages, BODY, chat("Hel", finish="abort"))[-1]["error"]["type"] == "api_error"


def test_a_stream_that_ends_without_a_finish_reason_is_an_error() -> None:
    stream = messages.Stream(BODY)
    stream.feed(next(chunks(chat("Hello"))))
    assert events(stream.finish()) == [error(500, "The worker's stream ended without a finish reason.")]
    assert stream.finish() == b""


def test_an_error_in_the_middle_of_a_stream_is_passed_on_with_the_workers_words() -> None:
    stream = messages.Stream(BODY)
    stream.feed(next(chunks(chat("Hello"))))
    assert events(stream.feed({"error": {"message": "out of memory"}})) == [error(500, "out of memory")]
    assert stream.feed(next(chunks(chat("more")))) == b""
    assert stream.finish() == b""


def test_arguments_that_come_after_the_next_call_began_are_an_error_instead_of_being_mixed_up() -> None:
    def fragment(index: int, **more: Any) -> dict[str, Any]:
        return {"choices": [{"index": 0, "delta": {"tool_calls": [{"index": index, **more}]}}]}

    stream = messages.Stream(BODY)
    stream.feed(fragment(0, id="a", function={"name": "f", "arguments": '{"x":'}))
    stream.feed(fragment(1, id="b", function={"name": "f", "arguments": "{}"}))
    late = fragment(0, function={"arguments": "1}"})
    late["choices"][0]["delta"]["tool_calls"] *= 2
    assert [one["type"] for one in events(stream.feed(late))] == ["error"]
    assert stream.finish() == b""


def test_thoughts_after_the_text_need_no_empty_text() -> None:
    stream = messages.Stream(BODY)
    for delta in ({"content": "one"}, {"reasoning_content": "hm"}):
        stream.feed({"choices": [{"index": 0, "delta": delta, "finish_reason": "stop"}]})
    end = ["content_block_stop", "message_delta", "message_stop"]
    assert [one["type"] for one in events(stream.finish())] == end
    assert stream.finish() == b""


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "invalid_request_error"),
        (404, "not_found_error"),
        (410, "invalid_request_error"),
        (429, "rate_limit_error"),
        (500, "api_error"),
        (502, "api_error"),
        (503, "overloaded_error"),
    ],
)
def test_an_error_body_is_anthropics(status: int, kind: str) -> None:
    assert error(status, "no") == {"type": "error", "error": {"type": kind, "message": "no"}}


def test_counting_tokens_is_refused_in_a_sentence() -> None:
    assert "/v1/messages/count_tokens" in NO_COUNT_TOKENS
