"""What a Messages request becomes as a chat completions request."""

from __future__ import annotations

from typing import Any

import pytest
from translate_door import call, check_conversation

from agentflow.runner.translate import TranslationError
from agentflow.runner.translate.messages import to_chat


def asked(*turns: dict[str, Any], **fields: Any) -> list[dict[str, Any]]:
    chat = to_chat({"model": "m", "max_tokens": 9, "messages": list(turns), **fields})
    check_conversation(chat["messages"])
    messages = chat["messages"]
    assert isinstance(messages, list)
    return messages


def user(*blocks: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks)}


def assistant(*blocks: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks)}


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said}


def use(call_id: str, **arguments: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": "add", "input": arguments}


def result(call_id: str, said: Any = "5", **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call_id, "content": said, **more}


HI = user(text("hi"))


def test_a_plain_conversation() -> None:
    turns = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}]
    assert to_chat({"model": "m", "max_tokens": 9, "messages": turns}) == {
        "model": "m",
        "max_tokens": 9,
        "messages": turns,
    }


def test_the_system_prompt_may_be_a_string_or_blocks() -> None:
    cached = {**text("B"), "cache_control": {"type": "ephemeral"}}
    assert asked(HI, system="A")[0] == {"role": "system", "content": "A"}
    assert asked(HI, system=[text("A"), cached])[0] == {"role": "system", "content": "A\n\nB"}
    assert asked(HI, {"role": "system", "content": "C"}, HI)[1] == {"role": "system", "content": "C"}


def test_a_turn_with_thoughts_text_and_calls_is_one_message_and_the_results_follow_it() -> None:
    thinking = {"type": "thinking", "thinking": "hm", "signature": ""}
    turn = assistant(thinking, text("calling"), use("a", x=1), use("b"))
    assert asked(HI, turn, user(text("and now?"), result("b"), result("a", [text("6")])))[1:] == [
        {
            "role": "assistant",
            "content": "calling",
            "reasoning_content": "hm",
            "tool_calls": [call("a", "add", '{"x":1}'), call("b", "add", "{}")],
        },
        {"role": "tool", "tool_call_id": "b", "content": "5"},
        {"role": "tool", "tool_call_id": "a", "content": "6"},
        {"role": "user", "content": "and now?"},
    ]


def test_neighbouring_turns_of_one_role_are_one_turn() -> None:
    messages = asked(
        user(text("a")), user(text("b")), assistant(use("a")), assistant(use("b")), user(result("a")), user(result("b"))
    )
    assert [m["role"] for m in messages] == ["user", "assistant", "tool", "tool"]
    assert messages[0]["content"] == [text("a"), text("b")]
    assert [one["id"] for one in messages[1]["tool_calls"]] == ["a", "b"]


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("no such file", "Error: no such file"),
        ("Error: no such file", "Error: no such file"),
        ([text("no"), text("b")], [text("Error: no"), text("b")]),
        ([], "Error"),
    ],
)
def test_a_result_that_is_an_error_says_so(said: Any, told: Any) -> None:
    assert asked(HI, assistant(use("a")), user(result("a", said, is_error=True)))[2]["content"] == told


def test_a_result_without_content_is_empty() -> None:
    bare = {"type": "tool_result", "tool_use_id": "a"}
    assert asked(HI, assistant(use("a")), user(bare))[2]["content"] == ""


def test_images_by_data_and_by_url_and_documents_of_text() -> None:
    data = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
    url = {"type": "image", "source": {"type": "url", "url": "http://x/y.png"}}
    document = {
        "type": "document",
        "title": "T",
        "source": {"type": "text", "media_type": "text/plain", "data": "body"},
    }
    assert asked(user(text("see"), data, url, document))[0]["content"] == [
        text("see"),
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
        {"type": "image_url", "image_url": {"url": "http://x/y.png"}},
        text("T\n\nbody"),
    ]
    assert asked(HI, assistant(use("a")), user(result("a", [url])))[2]["content"] == [
        {"type": "image_url", "image_url": {"url": "http://x/y.png"}}
    ]


def test_redacted_thinking_stays_behind_and_an_empty_turn_is_kept() -> None:
    redacted = {"type": "redacted_thinking", "data": "xyz"}
    assert asked(HI, assistant(redacted, text("b")), HI)[1] == {"role": "assistant", "content": "b"}
    assert asked(HI, assistant(), HI)[1] == {"role": "assistant", "content": ""}
    assert asked(user()) == [{"role": "user", "content": ""}]


@pytest.mark.parametrize(
    ("choice", "said"),
    [
        ({"type": "auto"}, {"tool_choice": "auto"}),
        ({"type": "any"}, {"tool_choice": "required"}),
        ({"type": "none"}, {"tool_choice": "none"}),
        ({"type": "tool", "name": "add"}, {"tool_choice": {"type": "function", "function": {"name": "add"}}}),
        ({"type": "auto", "disable_parallel_tool_use": True}, {"tool_choice": "auto", "parallel_tool_calls": False}),
        (None, {}),
    ],
)
def test_tools_and_their_choice(choice: Any, said: dict[str, Any]) -> None:
    tool = {
        "name": "add",
        "description": "d",
        "input_schema": {"type": "object"},
        "cache_control": {"type": "ephemeral"},
        "strict": True,
    }
    chat = to_chat({"messages": [HI], "tools": [tool], "tool_choice": choice})
    function = {"name": "add", "description": "d", "parameters": {"type": "object"}, "strict": True}
    del chat["messages"]
    assert chat == {"tools": [{"type": "function", "function": function}], **said}


def test_without_tools_nothing_is_said_about_choosing_one() -> None:
    assert set(to_chat({"messages": [HI], "tools": [], "tool_choice": {"type": "auto"}})) == {"messages"}


def test_sampling_limits_and_output() -> None:
    body = {
        "messages": [HI],
        "max_tokens": 9,
        "temperature": 0.5,
        "top_p": 0.9,
        "top_k": 4,
        "stop_sequences": ["END"],
        "metadata": {"user_id": "u"},
        "output_config": {"effort": "low", "format": {"type": "json_schema", "schema": {"type": "object"}}},
    }
    chat = to_chat(body)
    del chat["messages"]
    assert chat == {
        "max_tokens": 9,
        "temperature": 0.5,
        "top_p": 0.9,
        "top_k": 4,
        "stop": ["END"],
        "user": "u",
        "reasoning_effort": "low",
        "response_format": {"type": "json_schema", "json_schema": {"name": "reply", "schema": {"type": "object"}}},
    }


def test_the_older_name_of_the_output_format_is_known() -> None:
    schema = {"type": "object"}
    chat = to_chat({"messages": [HI], "output_format": {"type": "json_schema", "schema": schema}})
    assert chat["response_format"]["json_schema"]["schema"] == schema
    assert "output_format" not in chat


def test_unknown_fields_go_on_untouched_and_those_of_the_service_do_not() -> None:
    extra = {"seed": 3, "chat_template_kwargs": {"enable_thinking": False}, "thinking": {"type": "disabled"}}
    own = {"service_tier": "auto", "inference_geo": "eu", "cache_control": {"type": "ephemeral"}}
    chat = to_chat({"messages": [HI], **extra, **own})
    del chat["messages"]
    assert chat == extra


def test_a_stream_asks_for_its_usage() -> None:
    chat = to_chat({"messages": [HI], "stream": True})
    assert chat["stream"] is True
    assert chat["stream_options"] == {"include_usage": True}


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ({}, "The request has no 'messages'"),
        ({"messages": []}, "messages is empty"),
        ({"messages": ["hi"]}, r"messages\[0\] must be an object"),
        ({"messages": [{"content": "hi"}]}, r"messages\[0\] has no 'role'"),
        ({"messages": [{"role": "tool", "content": "hi"}]}, "role 'tool' is unknown"),
        ({"messages": [{"role": "user", "content": 5}]}, r"messages\[0\].content must be a list"),
        ({"messages": [HI, assistant(text("The answer is"))]}, "end with a user turn instead of a prefilled answer"),
        ({"messages": [user({"type": "image", "source": {"type": "file", "file_id": "f"}})]}, "'file'"),
        ({"messages": [user({"type": "document", "source": {"type": "base64", "data": "x"}})]}, "'base64'"),
        ({"messages": [user({"type": "search_result"})]}, "'search_result' cannot be said"),
        ({"messages": [user({"type": "text"})]}, r"messages\[0\].content\[0\] has no 'text'"),
        ({"messages": [user({"type": "tool_result", "content": "5"})]}, r"content\[0\] has no 'tool_use_id'"),
        ({"messages": [assistant({"type": "server_tool_use", "id": "s"}), HI]}, "'server_tool_use' cannot be said"),
        ({"messages": [assistant({**use("a"), "input": "x"}), HI]}, "input must be an object, not 'x'"),
        ({"messages": [HI], "system": [{"type": "image", "source": {"type": "url", "url": "u"}}]}, "only text can"),
        ({"messages": [HI], "tools": [{"type": "web_search_20250305", "name": "web_search"}]}, "'web_search_20250305'"),
        ({"messages": [HI], "tools": [{"type": "bash_20250124", "name": "bash"}]}, "with a name and an input_schema"),
        ({"messages": [HI], "tools": [{"name": "add"}]}, r"tools\[0\] has no 'input_schema'"),
        ({"messages": [HI], "tool_choice": {"type": "tool"}}, "tool_choice has no 'name'"),
        (
            {"messages": [HI], "tools": [{"name": "a", "input_schema": {}}], "tool_choice": {"type": "x"}},
            "'x' is unknown",
        ),
        ({"messages": [HI], "mcp_servers": [{"name": "s"}]}, "leave 'mcp_servers' out"),
        ({"messages": [HI], "compaction": {"type": "summarize"}}, "leave 'compaction' out"),
        ({"messages": [HI], "thread": {"type": "continue", "previous_message_id": "msg_1"}}, "keeps no threads"),
        ({"messages": [HI], "container": "c"}, "leave 'container' out"),
        ({"messages": [HI], "context_management": {"edits": []}}, "leave 'context_management' out"),
        ({"messages": [HI], "output_config": {"format": {"type": "xml"}}}, "'xml' is unknown"),
    ],
)
def test_what_cannot_be_said_is_refused_in_one_sentence(body: dict[str, Any], sentence: str) -> None:
    with pytest.raises(TranslationError, match=sentence) as refused:
        to_chat(body)
    assert "\n" not in str(refused.value)
    assert str(refused.value).endswith(".")
