"""Reading chat replies in the ways that engines write them."""

from __future__ import annotations

from typing import Any

from translate_door import chat

from agentflow.runner.translate.chat import (
    Arguments,
    CallStart,
    ChunkReader,
    Text,
    Thought,
    Tokens,
    ToolCall,
    read_reply,
    read_tokens,
)


def fragment(**more: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": {"tool_calls": [more]}}]}


def read(*chunks: dict[str, Any]) -> list[Any]:
    reader = ChunkReader()
    return [piece for chunk in chunks for piece in reader.read(chunk)]


def test_a_reply_full_of_nulls_says_nothing() -> None:
    message = {"role": "assistant", "content": None, "tool_calls": None, "reasoning_content": None, "refusal": None}
    reply = read_reply({"choices": [{"message": message, "finish_reason": None, "logprobs": None}], "usage": None})
    assert (reply.text, reply.thought, reply.calls, reply.tokens, reply.finish) == ("", "", [], None, "stop")


def test_reasoning_has_two_names() -> None:
    reply = chat("x")
    reply["choices"][0]["message"]["reasoning"] = "hm"
    assert read_reply(reply).thought == "hm"
    assert read({"choices": [{"delta": {"reasoning": "hm", "content": "x"}}]}) == [Thought("hm"), Text("x")]


def test_a_refusal_is_what_the_assistant_says() -> None:
    reply = chat("")
    reply["choices"][0]["message"]["refusal"] = "no"
    assert read_reply(reply).text == "no"


def test_usage_with_nulls_and_with_sglangs_reasoning_tokens() -> None:
    assert read_tokens({"prompt_tokens": 5, "completion_tokens": None, "prompt_tokens_details": None}) == Tokens(5)
    assert read_tokens({"prompt_tokens": 5, "completion_tokens": 3, "reasoning_tokens": 2}) == Tokens(5, 3, 0, 2)


def test_calls_without_or_with_the_same_id_can_be_told_apart() -> None:
    calls: Any = [
        {"id": i, "type": "function", "function": {"name": "f", "arguments": "{}"}} for i in ("a", "a", "", None)
    ]
    found = [one.id for one in read_reply(chat("", *calls)).calls]
    assert found[0] == "a"
    assert len(set(found)) == 4
    assert all(found)


def test_calls_that_are_all_numbered_0_are_not_put_together() -> None:
    found = read(
        fragment(index=0, id="a", function={"name": "f", "arguments": '{"x":1}'}),
        fragment(index=0, id="b", function={"name": "g", "arguments": '{"x":2}'}),
    )
    a, b = ToolCall("a", "f", '{"x":1}'), ToolCall("b", "g", '{"x":2}')
    assert found == [CallStart(a), Arguments(a, '{"x":1}'), CallStart(b), Arguments(b, '{"x":2}')]


def test_an_id_and_a_name_that_are_repeated_with_every_fragment_are_one_call() -> None:
    pieces = read(*[fragment(index=0, id="a", function={"name": "f", "arguments": one}) for one in ("{", "}")])
    assert [type(piece) for piece in pieces] == [CallStart, Arguments, Arguments]
    assert pieces[0].call == ToolCall("a", "f", "{}")


def test_fragments_without_a_number_belong_to_the_last_call() -> None:
    pieces = read(
        fragment(id="a", function={"name": "f", "arguments": ""}),
        fragment(function={"arguments": "{}"}),
        fragment(id="b", function={"name": "g", "arguments": "[]"}),
    )
    calls = [piece.call for piece in pieces if isinstance(piece, CallStart)]
    assert calls == [ToolCall("a", "f", "{}"), ToolCall("b", "g", "[]")]


def test_the_finish_reason_and_the_usage_are_kept_whatever_comes_after_them() -> None:
    reader = ChunkReader()
    for chunk in (
        {"choices": [{"delta": {}, "finish_reason": "length", "stop_reason": "END"}]},
        {"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 3}},
        {"choices": [{"delta": {}, "finish_reason": None}], "usage": None},
    ):
        assert list(reader.read(chunk)) == []
    assert (reader.finish, reader.matched_stop, reader.tokens) == ("length", "END", Tokens(5, 3))
