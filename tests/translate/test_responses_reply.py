"""What a chat reply becomes as a Responses reply, whole and streamed; the openai SDK's own types are the judge."""

from __future__ import annotations

from typing import Any

import pytest
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import BaseModel, TypeAdapter
from translate_door import call, chat, chunks, events, streamed

from agentflow.runner.translate import TranslationError, responses
from agentflow.runner.translate.responses import error, from_chat, to_chat

EVENT: TypeAdapter[ResponseStreamEvent] = TypeAdapter(ResponseStreamEvent)
ADD = call("call_a", "add", '{"a": 1, "b": 2}')
TOOL = {"type": "function", "name": "add", "parameters": {"type": "object", "properties": {}}, "strict": True}
BODY = {
    "model": "default",
    "input": "x",
    "instructions": "be brief",
    "tools": [TOOL],
    "tool_choice": {"type": "function", "name": "add"},
    "metadata": {"k": "v"},
    "temperature": 0.5,
    "max_output_tokens": 20,
    "parallel_tool_calls": False,
    "previous_response_id": "resp_0",
    "reasoning": {"effort": "low"},
    "text": {"format": {"type": "json_schema", "name": "n", "schema": {"type": "object"}}},
    "truncation": "auto",
    "stream": True,
}
REPLIES = {
    "text": chat("Hello there"),
    "thought and text": chat("Hello", thought="let me see"),
    "call": chat("", ADD),
    "everything": chat("calling", ADD, call("call_b", "add", "{}"), thought="hm"),
    "cut text": chat("Hel", finish="length"),
    "cut thought": chat("", thought="let me", finish="length"),
    "cut call": chat("", ADD, call("call_b", "add", '{"a": 1, "b'), finish="length"),
    "cut after a malformed call": chat("", call("call_a", "add", '{"a'), call("call_b", "add", "{}"), finish="length"),
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


def judged(reply: dict[str, Any]) -> Response:
    """The reply as the SDK reads it, every field known and of its type."""
    known = {key: value for key, value in reply.items() if key != "store"}  # OpenAI sends it, its type lacks it
    response = Response.model_validate(known, strict=True)
    no_unknown_fields(response)
    return response


def without_ids(output: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{key: value for key, value in item.items() if key != "id"} for item in output]


@pytest.mark.parametrize("name", REPLIES)
@pytest.mark.parametrize("body", [{"input": "x"}, BODY], ids=["bare", "full"])
def test_every_reply_is_a_response_to_the_sdk(name: str, body: dict[str, Any]) -> None:
    judged(from_chat(body, REPLIES[name]))


@pytest.mark.parametrize("size", [1, 3, 1000])
@pytest.mark.parametrize("name", REPLIES)
def test_a_streamed_reply_ends_in_the_same_response_as_a_whole_one(name: str, size: int) -> None:
    whole, last = from_chat(BODY, REPLIES[name]), streamed(responses, BODY, REPLIES[name], size)[-1]
    assert last["type"] == f"response.{whole['status']}"
    assert without_ids(last["response"].pop("output")) == without_ids(whole.pop("output"))
    assert {**last["response"], "id": ""} == {**whole, "id": ""}


@pytest.mark.parametrize("name", REPLIES)
def test_every_event_is_one_that_the_sdk_knows_and_they_are_numbered(name: str) -> None:
    found = streamed(responses, BODY, REPLIES[name])
    for i, one in enumerate(found):
        assert one["sequence_number"] == i
        one.get("response", {}).pop("store", None)
        no_unknown_fields(EVENT.validate_python(one, strict=True), one["type"])
    assert [one["type"] for one in found[:2]] == ["response.created", "response.in_progress"]


@pytest.mark.parametrize("name", REPLIES)
def test_items_of_a_stream_open_fill_and_close_one_after_the_other(name: str) -> None:
    is_open = False
    items = []
    for one in streamed(responses, BODY, REPLIES[name])[2:-1]:
        if one["type"] == "response.output_item.added":
            assert not is_open
            is_open, text, item = True, "", one["item"]
            assert one["output_index"] == len(items)
            assert item["status"] == "in_progress"
        elif one["type"] == "response.output_item.done":
            is_open = False
            assert one["item"]["id"] == item["id"]
            filled = one["item"].get("arguments") or "".join(part["text"] for part in one["item"].get("content", []))
            assert filled == text
            items.append(one["item"])
        else:
            assert is_open
            assert one["item_id"] == item["id"]
            text += one.get("delta", "")
    assert not is_open


def test_the_events_of_a_reply_with_everything_in_order() -> None:
    found = [one["type"].removeprefix("response.") for one in streamed(responses, {}, REPLIES["everything"], size=1000)]
    opened, closed = ["output_item.added", "content_part.added"], ["content_part.done", "output_item.done"]
    called = ["output_item.added", "function_call_arguments.delta", "function_call_arguments.done", "output_item.done"]
    assert found == [
        *("created", "in_progress"),
        *(*opened, "reasoning_text.delta", "reasoning_text.done", *closed),
        *(*opened, "output_text.delta", "output_text.done", *closed),
        *(*called, *called),
        "completed",
    ]


def test_nothing_of_a_stream_is_held_back() -> None:
    stream = responses.Stream({})
    first, text, *_ = chunks(chat("Hello"))
    assert [one["type"] for one in events(stream.feed(first))] == ["response.created", "response.in_progress"]
    assert events(stream.feed(text))[-1]["delta"] == "Hel"


def test_usage_is_counted_as_openai_counts() -> None:
    assert from_chat({}, REPLIES["thought and text"])["usage"] == {
        "input_tokens": 50,
        "input_tokens_details": {"cached_tokens": 32, "cache_write_tokens": 0},
        "output_tokens": 7,
        "output_tokens_details": {"reasoning_tokens": 3},
        "total_tokens": 57,
    }
    assert from_chat({}, {**chat("x"), "usage": None})["usage"] is None


def test_the_agent_finds_its_own_request_in_the_reply() -> None:
    reply = from_chat(BODY, chat("x"))
    for key in ("instructions", "tools", "tool_choice", "metadata", "temperature", "max_output_tokens", "reasoning"):
        assert reply[key] == BODY[key]
    assert reply["previous_response_id"] == "resp_0"
    assert reply["model"] == "served"
    assert reply["truncation"] == "disabled"  # what was done, not what was asked
    assert from_chat({"input": "x"}, chat("x"))["tool_choice"] == "auto"


def test_no_two_responses_have_the_same_id_even_where_the_endpoint_repeats_its_own() -> None:
    assert from_chat({}, chat("x"))["id"] != from_chat({}, chat("x"))["id"]


def test_a_call_that_the_limit_cut_off_is_marked_and_the_whole_one_before_it_is_not() -> None:
    reply = judged(from_chat({}, REPLIES["cut call"]))
    assert reply.status == "incomplete"
    assert reply.incomplete_details is not None
    assert reply.incomplete_details.reason == "max_output_tokens"
    assert [item.status for item in reply.output] == ["completed", "incomplete"]  # type: ignore[union-attr]


def test_of_a_call_that_was_cut_off_no_arguments_are_reported_done() -> None:
    done = [
        one["arguments"]
        for one in streamed(responses, {}, REPLIES["cut call"])
        if one["type"] == "response.function_call_arguments.done"
    ]
    assert done == ['{"a": 1, "b": 2}']


def test_a_call_that_was_just_whole_when_the_limit_came_is_complete() -> None:
    reply = from_chat({}, chat("", ADD, finish="length"))
    assert (reply["status"], reply["output"][0]["status"]) == ("incomplete", "completed")


def test_a_reply_that_says_nothing_holds_an_empty_message() -> None:
    assert judged(from_chat({}, REPLIES["empty"])).output_text == ""
    assert [item["type"] for item in from_chat({}, REPLIES["thought only"])["output"]] == ["reasoning", "message"]
    assert [item["type"] for item in from_chat({}, REPLIES["cut thought"])["output"]] == ["reasoning"]


def test_logprobs_go_to_the_text_they_belong_to() -> None:
    token = {"token": "Hi", "logprob": -0.5, "bytes": [72, 105], "top_logprobs": []}
    reply = judged(from_chat({}, chat("Hi", logprobs={"content": [token]})))
    assert reply.output[0].content[0].logprobs[0].logprob == -0.5  # type: ignore[union-attr,index]
    chunk = {
        "choices": [{"index": 0, "delta": {"content": "Hi"}, "logprobs": {"content": [token]}, "finish_reason": "stop"}]
    }
    stream = responses.Stream({})
    assert events(stream.feed(chunk))[-1]["logprobs"] == [token]
    stream.feed(chunk)
    assert events(stream.finish())[-1]["response"]["output"][0]["content"][0]["logprobs"] == [token, token]


def test_a_reply_that_its_worker_gave_up_has_failed() -> None:
    with pytest.raises(TranslationError, match="gave this reply up itself"):
        from_chat({}, chat("Hel", finish="abort"))
    last = streamed(responses, {}, chat("Hel", finish="abort"))[-1]
    failure = judged(last["response"])
    assert (last["type"], failure.status) == ("response.failed", "failed")
    assert failure.error is not None
    assert "gave this reply up itself" in failure.error.message


def test_a_stream_that_ends_without_a_finish_reason_has_failed() -> None:
    stream = responses.Stream({})
    for chunk in list(chunks(chat("Hello")))[:2]:
        stream.feed(chunk)
    last = events(stream.finish())[-1]
    assert last["type"] == "response.failed"
    assert last["response"]["output"][0]["status"] == "incomplete"
    assert stream.finish() == b""


def test_an_error_in_the_middle_of_a_stream_fails_the_response_with_the_workers_words() -> None:
    stream = responses.Stream({})
    stream.feed(next(chunks(chat("Hello"))))
    last = events(stream.feed({"error": {"message": "out of memory", "code": 500}}))[-1]
    assert last["type"] == "response.failed"
    assert last["response"]["error"] == {"code": "server_error", "message": "out of memory"}
    assert stream.feed(next(chunks(chat("more")))) == b""
    assert stream.finish() == b""


def test_arguments_that_come_after_the_next_call_began_fail_the_stream_instead_of_being_mixed_up() -> None:
    def fragment(index: int, **more: Any) -> dict[str, Any]:
        return {"choices": [{"index": 0, "delta": {"tool_calls": [{"index": index, **more}]}}]}

    stream = responses.Stream({})
    stream.feed(fragment(0, id="a", function={"name": "f", "arguments": '{"x":'}))
    stream.feed(fragment(1, id="b", function={"name": "f", "arguments": "{}"}))
    late = fragment(0, function={"arguments": "1}"})
    late["choices"][0]["delta"]["tool_calls"] *= 2
    *_, before, last = events(stream.feed(late))
    assert [before["type"], last["type"]] == ["response.output_item.done", "response.failed"]
    assert stream.finish() == b""
    assert "went back to the arguments of the call 'a'" in last["response"]["error"]["message"]


def test_text_after_a_call_is_another_message_and_comes_back_as_one_turn() -> None:
    stream = responses.Stream({})
    written = b"".join(stream.feed(chunk) for chunk in list(chunks(chat("one", ADD)))[:-2])
    written += stream.feed({"choices": [{"index": 0, "delta": {"content": " two"}, "finish_reason": "tool_calls"}]})
    output = events(written + stream.finish())[-1]["response"]["output"]
    assert [item["type"] for item in output] == ["message", "function_call", "message"]
    assert to_chat({"input": output})["messages"][0]["content"] == "one two"


def test_thoughts_after_the_text_need_no_empty_message() -> None:
    stream = responses.Stream({})
    for delta in ({"content": "one"}, {"reasoning_content": "hm"}):
        stream.feed({"choices": [{"index": 0, "delta": delta, "finish_reason": "stop"}]})
    output = events(stream.finish())[-1]["response"]["output"]
    assert [item["type"] for item in output] == ["message", "reasoning"]
    assert stream.finish() == b""


def test_a_reply_without_choices_is_the_workers_fault() -> None:
    with pytest.raises(TranslationError, match="no choices"):
        from_chat({}, {"object": "error"})


@pytest.mark.parametrize(
    ("status", "kind"),
    [(400, "invalid_request_error"), (410, "invalid_request_error"), (429, "rate_limit_error"), (503, "server_error")],
)
def test_an_error_body_is_openais(status: int, kind: str) -> None:
    body = {"error": {"message": "no", "type": kind, "param": None, "code": None}}
    assert error(status, "no") == body
