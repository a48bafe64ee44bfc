"""What a Responses request becomes as a chat completions request."""

from __future__ import annotations

from typing import Any

import pytest
from translate_door import check_conversation

from agentflow.runner.translate import TranslationError
from agentflow.runner.translate.responses import to_chat


def asked(*items: Any, **fields: Any) -> list[dict[str, Any]]:
    messages = to_chat({"model": "m", "input": list(items), **fields})["messages"]
    assert isinstance(messages, list)
    return messages


def fc(call_id: str, arguments: str = "{}", name: str = "add") -> dict[str, Any]:
    return {"type": "function_call", "id": f"fc_{call_id}", "call_id": call_id, "name": name, "arguments": arguments}


def out(call_id: str, output: Any = "5") -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": call_id, "output": output}


def said(text: str) -> dict[str, Any]:
    part = {"type": "output_text", "text": text, "annotations": []}
    return {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [part]}


def thought(text: str) -> dict[str, Any]:
    return {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": text}]}


def test_a_string_is_what_the_user_says() -> None:
    assert to_chat({"model": "m", "input": "hi"}) == {"model": "m", "messages": [{"role": "user", "content": "hi"}]}


def test_instructions_and_leading_system_items_are_one_system_message() -> None:
    messages = asked(
        {"role": "developer", "content": "B"},
        {"role": "system", "content": [{"type": "input_text", "text": "C"}]},
        {"role": "user", "content": "hi"},
        {"role": "system", "content": "D"},
        instructions="A",
    )
    assert messages == [
        {"role": "system", "content": "A\n\nB\n\nC"},
        {"role": "user", "content": "hi"},
        {"role": "system", "content": "D"},
    ]


def test_one_text_part_is_plain_text_and_several_stay_parts() -> None:
    one, two = {"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}
    assert asked({"role": "user", "content": [one]})[0]["content"] == "a"
    assert asked({"role": "user", "content": [one, two]})[0]["content"] == [
        {"type": "text", "text": "a"},
        {"type": "text", "text": "b"},
    ]


def test_an_image_keeps_its_url_and_detail() -> None:
    image = {"type": "input_image", "image_url": "data:image/png;base64,AAAA", "detail": "low"}
    assert asked({"role": "user", "content": [{"type": "input_text", "text": "see"}, image]})[0]["content"] == [
        {"type": "text", "text": "see"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA", "detail": "low"}},
    ]


def test_parallel_calls_are_one_assistant_message_and_their_outputs_follow_it() -> None:
    messages = asked(
        {"role": "user", "content": "go"},
        thought("hm"),
        said("calling"),
        fc("a", '{"x":1}'),
        fc("b"),
        out("b"),
        out("a"),
    )
    check_conversation(messages)
    assert [m["role"] for m in messages] == ["user", "assistant", "tool", "tool"]
    assert messages[1] == {
        "role": "assistant",
        "content": "calling",
        "reasoning_content": "hm",
        "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "add", "arguments": '{"x":1}'}},
            {"id": "b", "type": "function", "function": {"name": "add", "arguments": "{}"}},
        ],
    }
    assert messages[2] == {"role": "tool", "tool_call_id": "b", "content": "5"}


def test_text_that_follows_a_call_joins_the_message_of_the_call() -> None:
    messages = asked({"role": "user", "content": "go"}, said("one"), fc("a"), said(" two"), out("a"), said("three"))
    check_conversation(messages)
    assert [m["content"] for m in messages] == ["go", "one two", "5", "three"]


def test_reasoning_between_calls_does_not_separate_them_from_their_outputs() -> None:
    messages = asked(thought("p"), fc("a"), thought("q"), fc("b"), out("a"), out("b"))
    check_conversation(messages)
    assert messages[0]["reasoning_content"] == "p\nq"


def test_two_assistant_messages_in_a_row_stay_two() -> None:
    messages = asked(said("one"), said("two"), thought("hm"), said("three"))
    assert [m["content"] for m in messages] == ["one", "two", "three"]
    assert [m.get("reasoning_content") for m in messages] == [None, None, "hm"]


def test_a_summary_is_the_reasoning_where_there_is_no_text_and_encrypted_reasoning_stays_behind() -> None:
    summary = {"type": "reasoning", "id": "r", "summary": [{"type": "summary_text", "text": "short"}]}
    encrypted = {"type": "reasoning", "id": "r", "summary": [], "encrypted_content": "xyz"}
    assert asked(summary, said("a"))[0]["reasoning_content"] == "short"
    assert asked(encrypted, said("a")) == [{"role": "assistant", "content": "a"}]


def test_reasoning_alone_is_kept_as_an_assistant_message() -> None:
    assert asked(thought("hm"), {"role": "user", "content": "?"})[0] == {
        "role": "assistant",
        "content": "",
        "reasoning_content": "hm",
    }


def test_an_output_may_be_a_list_of_parts() -> None:
    image = {"type": "input_image", "image_url": "http://x/y.png"}
    assert asked(fc("a"), out("a", [{"type": "input_text", "text": "5"}]))[1]["content"] == "5"
    assert asked(fc("a"), out("a", [image]))[1]["content"] == [
        {"type": "image_url", "image_url": {"url": "http://x/y.png"}}
    ]


def test_empty_arguments_become_an_empty_object() -> None:
    assert asked(fc("a", ""), out("a"))[0]["tool_calls"][0]["function"]["arguments"] == "{}"


def test_a_call_that_was_cut_off_is_refused_by_name() -> None:
    with pytest.raises(TranslationError, match=r"input\[0\].*'call_9' of 'multiply' are no JSON"):
        asked(fc("call_9", '{"a": 1', "multiply"), out("call_9"))


def test_tools_and_their_choice() -> None:
    tool = {"type": "function", "name": "add", "description": "d", "parameters": {"type": "object"}, "strict": True}
    chat = to_chat(
        {"model": "m", "input": "x", "tools": [tool], "parallel_tool_calls": False, "tool_choice": "required"}
    )
    function = {"name": "add", "description": "d", "parameters": {"type": "object"}, "strict": True}
    assert chat["tools"] == [{"type": "function", "function": function}]
    assert chat["tool_choice"] == "required"
    assert chat["parallel_tool_calls"] is False
    named = to_chat({"input": "x", "tools": [tool], "tool_choice": {"type": "function", "name": "add"}})
    assert named["tool_choice"] == {"type": "function", "function": {"name": "add"}}


def test_without_tools_nothing_is_said_about_choosing_one() -> None:
    body = {"input": "x", "tools": [], "tool_choice": "auto", "parallel_tool_calls": True}
    assert to_chat(body) == {"messages": [{"role": "user", "content": "x"}]}


def test_a_schema_for_the_answer() -> None:
    layout = {"type": "json_schema", "name": "n", "schema": {"type": "object"}, "strict": True}
    assert to_chat({"input": "x", "text": {"format": layout, "verbosity": "low"}}) == {
        "messages": [{"role": "user", "content": "x"}],
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "n", "schema": {"type": "object"}, "strict": True},
        },
        "verbosity": "low",
    }
    assert to_chat({"input": "x", "text": {"format": {"type": "json_object"}}})["response_format"] == {
        "type": "json_object"
    }
    assert "response_format" not in to_chat({"input": "x", "text": {"format": {"type": "text"}}})


def test_sampling_limits_reasoning_and_logprobs() -> None:
    body = {
        "input": "x",
        "max_output_tokens": 9,
        "temperature": 0.5,
        "top_p": 0.9,
        "reasoning": {"effort": "low", "summary": "auto"},
        "include": ["message.output_text.logprobs", "reasoning.encrypted_content"],
        "top_logprobs": 2,
    }
    chat = to_chat(body)
    del chat["messages"]
    assert chat == {
        "max_tokens": 9,
        "temperature": 0.5,
        "top_p": 0.9,
        "reasoning_effort": "low",
        "logprobs": True,
        "top_logprobs": 2,
    }


def test_unknown_fields_go_on_untouched() -> None:
    extra = {
        "top_k": 5,
        "seed": 3,
        "chat_template_kwargs": {"enable_thinking": False},
        "stop": ["x"],
        "cache_salt": "s",
    }
    chat = to_chat({"input": "x", **extra})
    assert {key: chat[key] for key in extra} == extra


def test_what_only_the_service_cares_about_does_not_reach_the_model() -> None:
    own = {
        "store": False,
        "metadata": {"a": "b"},
        "truncation": "auto",
        "previous_response_id": "resp_1",
        "background": False,
        "include": [],
        "max_tool_calls": 3,
    }
    assert to_chat({"input": "x", **own}) == {"messages": [{"role": "user", "content": "x"}]}


def test_null_is_the_same_as_left_out() -> None:
    nulls = dict.fromkeys(
        ("instructions", "temperature", "tools", "tool_choice", "text", "reasoning", "seed", "stream")
    )
    assert to_chat({"input": "x", **nulls}) == {"messages": [{"role": "user", "content": "x"}]}


def test_a_stream_asks_for_its_usage() -> None:
    chat = to_chat({"input": "x", "stream": True, "stream_options": {"continuous_usage_stats": True}})
    assert chat["stream"] is True
    assert chat["stream_options"] == {"continuous_usage_stats": True, "include_usage": True}


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ({}, "no 'input'"),
        ({"input": 5}, "input must be a list"),
        ({"input": ["hi"]}, r"input\[0\] must be an object, not 'hi'"),
        ({"input": [{"content": "hi"}]}, r"input\[0\] has no 'role'"),
        ({"input": [{"role": "tool", "content": "hi"}]}, "role 'tool' is unknown"),
        ({"input": [{"type": "item_reference", "id": "msg_1"}]}, r"input\[0\] is a reference"),
        ({"input": [{"type": "computer_call", "id": "c"}]}, "'computer_call' cannot be said"),
        ({"input": [{"role": "user", "content": [{"type": "input_file", "file_id": "f"}]}]}, "'input_file' cannot"),
        ({"input": [{"role": "user", "content": [{"type": "input_image", "file_id": "f"}]}]}, "give its image_url"),
        (
            {"input": [{"role": "assistant", "content": [{"type": "input_image", "image_url": "u"}]}]},
            "only a user's message",
        ),
        ({"input": [{"type": "function_call_output", "output": "5"}]}, r"input\[0\] has no 'call_id'"),
        (
            {"input": [{"type": "function_call_output", "call_id": "c", "output": 5}]},
            r"input\[0\].output must be a list",
        ),
        ({"input": "x", "tools": [{"type": "web_search"}]}, r"tools\[0\].*'web_search' needs OpenAI's own"),
        ({"input": "x", "tools": [{"type": "mcp", "server_label": "s"}]}, "'mcp' needs OpenAI's own"),
        ({"input": "x", "tools": [{"type": "custom", "name": "c"}]}, "'custom' needs OpenAI's own"),
        ({"input": "x", "tools": [{"type": "function"}]}, r"tools\[0\] has no 'name'"),
        ({"input": "x", "tool_choice": {"type": "file_search"}}, "type 'file_search' cannot be said"),
        ({"input": "x", "text": {"format": {"type": "grammar"}}}, "'grammar' cannot be said"),
        ({"input": "x", "background": True}, "leave 'background' out"),
        ({"input": "x", "conversation": "conv_1"}, "leave 'conversation' out"),
        ({"input": "x", "prompt": {"id": "p"}}, "leave 'prompt' out"),
        ({"input": "x", "context_management": [{"type": "compaction"}]}, "leave 'context_management' out"),
        ({"input": "x", "n": 2}, "leave 'n' out"),
    ],
)
def test_what_cannot_be_said_is_refused_in_one_sentence(body: dict[str, Any], sentence: str) -> None:
    with pytest.raises(TranslationError, match=sentence) as refused:
        to_chat(body)
    assert "\n" not in str(refused.value)
    assert str(refused.value).endswith(".")
