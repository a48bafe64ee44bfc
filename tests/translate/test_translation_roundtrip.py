"""A conversation that goes through a dialect and back again, turn by turn, loses no text, no call and no id."""

from __future__ import annotations

import contextlib
import copy
import json
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from translate_door import call, chat, check_request, streamed

from agentflow.runner.translate import TranslationError, messages, responses

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
ARGUMENTS = st.dictionaries(st.text(max_size=5), JSON, max_size=3).map(json.dumps)


@st.composite
def conversations(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Chat replies, each of which is answered by the outputs of its calls or by the user."""
    replies = []
    for turn in range(draw(st.integers(1, 4))):
        names = [f"call_{turn}_{i}" for i in range(draw(st.integers(0, 3)))]
        calls = [call(name, draw(st.sampled_from(["add", "multiply"])), draw(ARGUMENTS)) for name in names]
        replies.append(chat(draw(TEXT), *calls, thought=draw(TEXT)))
    return replies


def as_chat(replies: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The conversation that an agent which speaks chat completions would have had."""
    said: list[dict[str, Any]] = [{"role": "user", "content": "go"}]
    for reply in replies:
        message = reply["choices"][0]["message"]
        said.append({**message, "content": message["content"] or ""})
        outputs = [{"role": "tool", "tool_call_id": one["id"], "content": "5"} for one in message.get("tool_calls", [])]
        said += outputs or [{"role": "user", "content": "and?"}]
    return said


def by_responses(replies: list[dict[str, Any]], reply: Callable[[Any, Any], Any]) -> dict[str, Any]:
    items: list[Any] = [{"role": "user", "content": "go"}]
    for one in replies:
        output = reply({"input": items}, one)["output"]
        calls = [item["call_id"] for item in output if item["type"] == "function_call"]
        items += output
        items += [{"type": "function_call_output", "call_id": call_id, "output": "5"} for call_id in calls]
        items += [] if calls else [{"role": "user", "content": "and?"}]
    return responses.to_chat({"model": "m", "input": items})


def by_messages(replies: list[dict[str, Any]], reply: Callable[[Any, Any], Any]) -> dict[str, Any]:
    turns: list[Any] = [{"role": "user", "content": "go"}]
    for one in replies:
        blocks = reply({"messages": turns}, one)["content"]
        calls = [block["id"] for block in blocks if block["type"] == "tool_use"]
        results = [{"type": "tool_result", "tool_use_id": call_id, "content": "5"} for call_id in calls]
        turns += [{"role": "assistant", "content": blocks}, {"role": "user", "content": results or "and?"}]
    return messages.to_chat({"model": "m", "messages": turns})


def with_arguments_read(said: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Anthropic's dialect holds arguments as objects, so their spaces are not kept."""
    said = copy.deepcopy(said)
    for message in said:
        for one in message.get("tool_calls", []):
            one["function"]["arguments"] = json.loads(one["function"]["arguments"])
    return said


def streamed_response(body: dict[str, Any], reply: dict[str, Any]) -> Any:
    return streamed(responses, body, reply)[-1]["response"]


def streamed_message(body: dict[str, Any], reply: dict[str, Any]) -> dict[str, Any]:
    """Blocks put together from the events, as the SDK does it."""
    blocks: list[dict[str, Any]] = []
    for event in streamed(messages, body, reply):
        if event["type"] == "content_block_start":
            blocks.append({**event["content_block"], "json": ""})
        elif event["type"] == "content_block_delta":
            delta, block = event["delta"], blocks[event["index"]]
            for field, part in (("text", "text"), ("thinking", "thinking"), ("json", "partial_json")):
                block[field] = block.get(field, "") + delta.get(part, "")
    for block in blocks:
        if block["type"] == "tool_use":
            block["input"] = json.loads(block["json"] or "{}")
    return {"content": blocks}


@settings(max_examples=100, deadline=None)
@given(conversations(), st.sampled_from([responses.from_chat, streamed_response]))
def test_through_the_responses_api(replies: list[dict[str, Any]], reply: Callable[[Any, Any], Any]) -> None:
    body = by_responses(replies, reply)
    check_request(body)
    assert body["messages"] == as_chat(replies)


@settings(max_examples=100, deadline=None)
@given(conversations(), st.sampled_from([messages.from_chat, streamed_message]))
def test_through_the_messages_api(replies: list[dict[str, Any]], reply: Callable[[Any, Any], Any]) -> None:
    body = by_messages(replies, reply)
    check_request(body)
    assert with_arguments_read(body["messages"]) == with_arguments_read(as_chat(replies))


@settings(max_examples=60, deadline=None)
@given(TEXT, TEXT, st.lists(ARGUMENTS, max_size=3), st.sampled_from(["stop", "length", "content_filter"]), st.data())
def test_a_stream_says_what_a_whole_reply_says_wherever_it_is_cut(
    text: str, thought: str, arguments: list[str], finish: str, data: st.DataObject
) -> None:
    calls = [call(f"call_{i}", "add", one) for i, one in enumerate(arguments)]
    reply = chat(text, *calls, thought=thought, finish=finish)
    size = data.draw(st.integers(1, 12))
    last = streamed(responses, {}, reply, size)[-1]["response"]
    whole = responses.from_chat({}, reply)
    for item in last["output"] + whole["output"]:
        del item["id"]
    assert {**last, "id": ""} == {**whole, "id": ""}


RESPONSES_BODY: dict[str, Any] = {
    "model": "m",
    "instructions": "i",
    "input": [
        {"role": "user", "content": [{"type": "input_text", "text": "t"}, {"type": "input_image", "image_url": "u"}]},
        {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "r"}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "t", "annotations": []}]},
        {"type": "function_call", "call_id": "c", "name": "n", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": [{"type": "input_text", "text": "t"}]},
    ],
    "tools": [{"type": "function", "name": "n", "parameters": {}}],
    "tool_choice": {"type": "function", "name": "n"},
    "text": {"format": {"type": "json_schema", "name": "n", "schema": {}}},
    "reasoning": {"effort": "low"},
    "include": ["message.output_text.logprobs"],
    "stream": True,
    "stream_options": {},
}
MESSAGES_BODY: dict[str, Any] = {
    "model": "m",
    "max_tokens": 5,
    "system": [{"type": "text", "text": "s"}],
    "messages": [
        {
            "role": "user",
            "content": [{"type": "text", "text": "t"}, {"type": "image", "source": {"type": "url", "url": "u"}}],
        },
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "t", "signature": ""},
                {"type": "text", "text": "t"},
                {"type": "tool_use", "id": "c", "name": "n", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "c", "content": [{"type": "text", "text": "t"}]}],
        },
    ],
    "tools": [{"name": "n", "input_schema": {}}],
    "tool_choice": {"type": "tool", "name": "n"},
    "output_config": {"format": {"type": "json_schema", "schema": {}}},
    "metadata": {"user_id": "u"},
    "stop_sequences": ["x"],
    "stream": True,
}


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every (container, key) in a body."""
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else []
    return [place for key in keys for place in [(value, key), *places(value[key])]]


@pytest.mark.parametrize(
    ("dialect", "body"), [(responses, RESPONSES_BODY), (messages, MESSAGES_BODY)], ids=["responses", "messages"]
)
@settings(max_examples=300, deadline=None)
@given(st.data(), JSON)
def test_a_body_with_anything_anywhere_is_translated_or_refused(
    dialect: ModuleType, body: dict[str, Any], data: st.DataObject, anything: Any
) -> None:
    body = copy.deepcopy(body)
    container, key = data.draw(st.sampled_from(places(body)))
    container[key] = anything
    with contextlib.suppress(TranslationError):
        dialect.to_chat(body)
