"""The decisions of the embedded engine's front, without a server."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest

from agentflow.workers.llamacpp.gguf import GgufError, read_metadata
from agentflow.workers.llamacpp.reply import Assembly, Stream, added_usage
from agentflow.workers.llamacpp.request import Request, RequestError, prepare
from agentflow.workers.llamacpp.template import BUILT_IN, choose_template

ADD = {"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}
HELLO = [{"role": "user", "content": "hello"}]


def asked(**body: Any) -> Request:
    return prepare(json.dumps({"messages": HELLO, **body}).encode(), chat=True)


def sent(request: Request) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(request.body)
    return body


# --- request -----------------------------------------------------------------------------------------------------


def test_unknown_fields_are_passed_on_and_a_stream_with_usage_is_always_asked_for() -> None:
    request = asked(top_k=7, chat_template_kwargs={"x": 1})
    assert (request.streamed, request.wants_usage) == (False, False)
    assert sent(request) == {
        "messages": HELLO, "top_k": 7, "chat_template_kwargs": {"x": 1},
        "stream": True, "stream_options": {"include_usage": True},
    }  # fmt: skip


def test_the_same_request_has_the_same_key_streamed_or_not() -> None:
    plain, streamed = asked(seed=1), asked(stream=True, seed=1)
    assert plain.key == streamed.key != asked(seed=2).key


@pytest.mark.parametrize("choice", ["auto", "none", None])
def test_tool_choices_that_llama_cpp_obeys_are_left_to_it(choice: str | None) -> None:
    request = asked(tools=[ADD], tool_choice=choice)
    assert not request.forced
    assert sent(request).get("tool_choice") == choice


@pytest.mark.parametrize(
    "choice",
    [
        "required",
        {"type": "function", "function": {"name": "add"}},
        {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [ADD]}},
    ],
)
def test_a_forced_choice_becomes_a_schema_of_the_calls_allowed(choice: Any) -> None:
    sub = {"type": "function", "function": {"name": "sub"}}
    request = asked(tools=[ADD, sub], tool_choice=choice, stop=["\n"])
    assert request.forced
    body = sent(request)
    names = [c["properties"]["name"]["const"] for c in body["response_format"]["json_schema"]["schema"]["anyOf"]]
    assert names == (["add", "sub"] if choice == "required" else ["add"])
    assert body["tool_choice"] == "none"
    assert "stop" not in body


def test_empty_arguments_in_the_history_become_an_empty_object() -> None:
    call = {"id": "c", "type": "function", "function": {"name": "now", "arguments": ""}}
    request = asked(messages=[*HELLO, {"role": "assistant", "tool_calls": [call]}])
    assert sent(request)["messages"][1]["tool_calls"][0]["function"]["arguments"] == "{}"


@pytest.mark.parametrize("raw", [b"", b"[]", b"{", b'{"messages": []}', b'{"messages": [1]}'])
def test_a_body_that_is_no_request_is_refused(raw: bytes) -> None:
    with pytest.raises(RequestError):
        prepare(raw, chat=True)


@pytest.mark.parametrize(
    ("prompt", "prompts"), [("a", 1), (["a", "b"], 2), ([1, 2, 3], 1), ([[1], [2]], 2), ([], 1), (None, 1)]
)
def test_prompts_of_a_completion_are_counted(prompt: Any, prompts: int) -> None:
    assert prepare(json.dumps({"prompt": prompt}).encode(), chat=False).prompts == prompts


# --- reply -------------------------------------------------------------------------------------------------------


def chunk(delta: dict[str, Any], finish: str | None = None, index: int = 0) -> dict[str, Any]:
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "choices": [{"index": index, "delta": delta, "finish_reason": finish}],
    }


def handed_on(request: Request, *chunks: dict[str, Any]) -> dict[str, Any]:
    """The one choice that an agent sees of these chunks."""
    stream, assembly = Stream(request), Assembly()
    for one in chunks:
        for out in stream.feed(one):
            assembly.add(out)
    (choice,) = assembly.reply()["choices"]
    return dict(choice)


def test_text_is_handed_on_at_once_also_beside_tools() -> None:
    stream = Stream(asked(tools=[ADD]))
    assert stream.feed(chunk({"content": "Hel"})) == [chunk({"content": "Hel"})]


def part(index: int, arguments: str, **more: str) -> dict[str, Any]:
    return {"tool_calls": [{"index": index, "id": "random", "function": {**more, "arguments": arguments}}]}


def test_a_whole_call_before_a_broken_one_is_kept_and_the_reply_is_truncated() -> None:
    choice = handed_on(
        asked(tools=[ADD]),
        chunk(part(0, '{"a":', name="add")),
        chunk(part(0, "1}")),
        chunk(part(1, '{"a": 2', name="add")),
        chunk({}, "length"),
    )
    assert [c["function"]["arguments"] for c in choice["message"]["tool_calls"]] == ['{"a":1}']
    assert choice["finish_reason"] == "length"


def test_calls_of_two_choices_do_not_mix_and_their_ids_differ() -> None:
    stream, assembly = Stream(asked(tools=[ADD], n=2)), Assembly()
    for one in (
        chunk(part(0, '{"a":', name="add"), index=0),
        chunk(part(0, '{"b":', name="add"), index=1),
        chunk(part(0, "1}"), index=0),
        chunk(part(0, "2}"), index=1),
        chunk({}, "tool_calls", index=1),
        chunk({}, "tool_calls", index=0),
    ):
        for out in stream.feed(one):
            assembly.add(out)
    calls = [c["message"]["tool_calls"][0] for c in assembly.reply()["choices"]]
    assert [c["function"]["arguments"] for c in calls] == ['{"a":1}', '{"b":2}']
    assert calls[0]["id"] != calls[1]["id"]
    assert "random" not in (calls[0]["id"], calls[1]["id"])


def test_a_forced_call_that_ends_with_the_last_token_allowed_is_a_call() -> None:
    request = asked(tools=[ADD], tool_choice="required")
    choice = handed_on(request, chunk({"content": '{"name": "add", "arguments": {"a": 1.0}}'}), chunk({}, "length"))
    assert choice["message"]["tool_calls"][0]["function"] == {"name": "add", "arguments": '{"a":1.0}'}
    assert choice["finish_reason"] == "tool_calls"


def test_reasoning_passes_beside_a_forced_call() -> None:
    request = asked(tools=[ADD], tool_choice="required")
    choice = handed_on(
        request,
        chunk({"reasoning_content": "so "}),
        chunk({"reasoning_content": "then"}),
        chunk({"content": '{"name":"add","arguments":{}}'}),
        chunk({}, "stop"),
    )
    assert choice["message"]["reasoning_content"] == "so then"
    assert choice["message"]["tool_calls"]


def usage(prompt: int, completion: int, cached: int) -> dict[str, Any]:
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "prompt_tokens_details": {"cached_tokens": cached},
    }


def test_usage_counts_a_prompt_once_and_every_choice() -> None:
    two_choices = added_usage([usage(10, 3, 4), usage(10, 5, 4)], prompts=1)
    assert two_choices == usage(10, 8, 4) | {"total_tokens": 18}
    two_prompts_of_two_choices = [usage(10, 1, 0), usage(10, 1, 0), usage(20, 1, 0), usage(20, 1, 0)]
    assert added_usage(two_prompts_of_two_choices, prompts=2) == usage(30, 4, 0) | {"total_tokens": 34}


# --- template and model file -------------------------------------------------------------------------------------

CHATML = "{% for m in messages %}<|im_start|>{{ m.role }}{% endfor %}"


@pytest.mark.parametrize(
    ("own", "ours"),
    [(CHATML, True), (None, True), (CHATML + "{{ tools }}", False), ("[INST]{{ messages }}", False)],
)
def test_our_template_replaces_one_that_drops_tools_if_it_is_of_the_same_format(own: str | None, ours: bool) -> None:
    text, _ = choose_template(None, own)
    assert text == (BUILT_IN.read_text() if ours else "")


def test_a_template_that_is_asked_for_wins(tmp_path: Path) -> None:
    (tmp_path / "t.jinja").write_text("mine")
    assert choose_template(str(tmp_path / "t.jinja"), CHATML)[0] == "mine"
    assert choose_template("own", CHATML)[0] == ""


def gguf(path: Path, *entries: tuple[str, int, bytes]) -> Path:
    body = b"".join(text(key) + struct.pack("<I", kind) + value for key, kind, value in entries)
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, len(entries)) + body)
    return path


def text(s: str) -> bytes:
    return struct.pack("<Q", len(s.encode())) + s.encode()


def test_metadata_is_read_past_arrays(tmp_path: Path) -> None:
    words = struct.pack("<IQ", 8, 2) + text("a") + text("bc")
    scores = struct.pack("<IQ", 6, 3) + struct.pack("<3f", 1, 2, 3)
    nested = struct.pack("<IQ", 9, 1) + struct.pack("<IQ", 4, 1) + struct.pack("<I", 5)
    path = gguf(
        tmp_path / "m",
        ("words", 9, words),
        ("scores", 9, scores),
        ("nested", 9, nested),
        ("general.architecture", 8, text("bert")),
        ("bert.pooling_type", 4, struct.pack("<I", 2)),
        ("tokenizer.chat_template", 8, text("hé")),
    )
    wanted = ("tokenizer.chat_template", "*.pooling_type", "not.there")
    assert read_metadata(path, wanted) == {"tokenizer.chat_template": "hé", "*.pooling_type": 2}


@pytest.mark.parametrize("content", [b"", b"PK\3\4", b"GGUF" + struct.pack("<I", 1), b"GGUF\3\0\0\0abc"])
def test_what_is_no_gguf_file_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "m").write_bytes(content)
    with pytest.raises(GgufError):
        read_metadata(tmp_path / "m", ("a",))


@pytest.mark.engine
def test_the_embedded_model_has_a_template_that_drops_tools(model: Path) -> None:
    own = read_metadata(model, ("tokenizer.chat_template",))["tokenizer.chat_template"]
    assert "tools" not in str(own)
    assert "<|im_start|>" in str(own)
