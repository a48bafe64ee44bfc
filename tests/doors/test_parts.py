"""Paths, sampling values, seeds, conversations: the pure parts of a request."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentflow.episode import Call, Episode
from agentflow.runner.conversation import BodyHasher, Conversation, Prefixes, read_conversation, seed
from agentflow.runner.dialect import Dialect, error_body, error_message, route
from agentflow.runner.keys import Keys
from agentflow.runner.recorder import Recorder
from agentflow.runner.sampling import fills, left_out


def raw(body: dict[str, Any]) -> dict[str, msgspec.Raw]:
    return msgspec.json.decode(msgspec.json.encode(body), type=dict[str, msgspec.Raw])


def body_hash(body: dict[str, Any], dialect: Dialect = Dialect.CHAT, role: str = "default") -> bytes:
    fields = raw(body)
    return BodyHasher().hash(role, dialect, fields, read_conversation(dialect, fields))


# --- paths --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "dialect", "path"),
    [
        ("/v1/chat/completions", Dialect.CHAT, "/v1/chat/completions"),
        ("/chat/completions", Dialect.CHAT, "/v1/chat/completions"),
        ("/v1/v1/messages", Dialect.MESSAGES, "/v1/messages"),
        ("/messages", Dialect.MESSAGES, "/v1/messages"),
        ("/responses", Dialect.RESPONSES, "/v1/responses"),
        ("/v1/completions", Dialect.COMPLETIONS, "/v1/completions"),
        ("/v1/embeddings/", Dialect.EMBEDDINGS, "/v1/embeddings"),
        ("/v1/rerank", Dialect.OTHER, "/v1/rerank"),
        ("/tokenize", Dialect.OTHER, "/tokenize"),
        ("/v1/v1/messages/count_tokens", Dialect.OTHER, "/v1/messages/count_tokens"),
    ],
)
def test_a_path_names_its_dialect_with_and_without_v1(target: str, dialect: Dialect, path: str) -> None:
    found = route("POST", target)
    assert (found.dialect, found.path) == (dialect, path)


def test_queries_are_kept_and_models_is_asked_with_get() -> None:
    assert route("GET", "/v1/models?x=1") == (Dialect.MODELS, "/v1/models", "x=1")
    assert route("POST", "/v1/models").dialect is Dialect.OTHER
    assert route("GET", "/v1/responses/resp_1").path == "/v1/responses/resp_1"


def test_errors_are_written_and_read_in_every_dialect() -> None:
    for dialect in Dialect:
        assert error_message(error_body(dialect, 400, "too hot")) == "too hot"
    assert error_message(b'{"detail": "nope"}') == "nope"
    assert error_message(b"<html>\n bad   gateway") == "<html> bad gateway"
    assert len(error_message(b"x" * 5000)) == 300


# --- sampling -----------------------------------------------------------------------------------------------------


def filled(dialect: Dialect, sampling: dict[str, Any], asked: dict[str, Any]) -> dict[str, Any]:
    asked_raw = raw(asked)
    found = fills(dialect, sampling)
    return {f.field: msgspec.json.decode(f.value) for f in found if left_out(asked_raw, f.unless)}


def test_sampling_values_take_the_names_of_the_dialect() -> None:
    sampling = {"max_new_tokens": 9, "min_new_tokens": 2, "temperature": 0.5, "top_k": 4, "stop": "END"}
    assert filled(Dialect.CHAT, sampling, {}) == {
        "max_tokens": 9, "min_tokens": 2, "temperature": 0.5, "top_k": 4, "stop": "END"
    }  # fmt: skip
    assert filled(Dialect.RESPONSES, sampling, {})["max_output_tokens"] == 9
    assert filled(Dialect.MESSAGES, sampling, {}) == {
        "max_tokens": 9, "temperature": 0.5, "top_k": 4, "stop_sequences": ["END"]
    }  # fmt: skip
    assert filled(Dialect.EMBEDDINGS, sampling, {}) == {}


def test_what_the_agent_set_is_left_alone_and_null_is_not_set() -> None:
    assert filled(Dialect.CHAT, {"temperature": 0.5}, {"temperature": 1.0}) == {}
    assert filled(Dialect.CHAT, {"temperature": 0.5}, {"temperature": None}) == {"temperature": 0.5}
    assert filled(Dialect.CHAT, {"max_new_tokens": 9}, {"max_completion_tokens": 3}) == {}


def test_greedy_is_temperature_zero() -> None:
    assert filled(Dialect.CHAT, {"greedy": True, "temperature": 0.7}, {}) == {"temperature": 0.0}
    assert filled(Dialect.CHAT, {"greedy": False, "temperature": 0.7}, {}) == {"temperature": 0.7}


# --- seeds --------------------------------------------------------------------------------------------------------


def tool_turn(call_id: str) -> list[dict[str, Any]]:
    call = {"id": call_id, "type": "function", "function": {"name": "add", "arguments": '{"id": 1}'}}
    return [
        {"role": "user", "content": "1+1?"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": call_id, "content": "2"},
    ]


def test_the_same_conversation_has_the_same_hash_whatever_ids_the_engine_drew() -> None:
    assert body_hash({"messages": tool_turn("call_a")}) == body_hash({"messages": tool_turn("call_b")})
    responses = [
        {"input": [{"type": "function_call", "id": i, "call_id": i, "name": "f", "arguments": "{}"}]} for i in "ab"
    ]
    assert body_hash(responses[0], Dialect.RESPONSES) == body_hash(responses[1], Dialect.RESPONSES)
    messages = [
        {"messages": [{"role": "assistant", "content": [{"type": "tool_use", "id": i, "name": "f", "input": {}}]}]}
        for i in "ab"
    ]
    assert body_hash(messages[0], Dialect.MESSAGES) == body_hash(messages[1], Dialect.MESSAGES)


def test_model_name_user_and_streaming_do_not_change_the_hash_but_texts_tools_and_role_do() -> None:
    body: dict[str, Any] = {"messages": tool_turn("a"), "tools": [{"type": "function"}], "temperature": 1}
    same = {"model": "x", "user": "u", "stream": True, "stream_options": {}, "metadata": {}}
    assert body_hash(body) == body_hash({**body, **same})
    assert body_hash(body) == body_hash(dict(reversed(body.items())))
    assert body_hash(body) != body_hash({**body, "temperature": 0})
    assert body_hash(body) != body_hash({**body, "tools": []})
    assert body_hash(body) != body_hash({**body, "messages": body["messages"][:2]})
    assert body_hash(body) != body_hash(body, role="judge")


def test_arguments_that_happen_to_be_called_id_do_count() -> None:
    one, two = tool_turn("a"), tool_turn("a")
    two[1]["tool_calls"][0]["function"]["arguments"] = '{"id": 2}'
    assert body_hash({"messages": one}) != body_hash({"messages": two})


def test_seeds_depend_on_run_item_sample_body_and_occurrence_and_fit_31_bits() -> None:
    drawn = {
        seed(1, "i", 0, b"b", 0), seed(2, "i", 0, b"b", 0), seed(1, "j", 0, b"b", 0),
        seed(1, "i", 1, b"b", 0), seed(1, "i", 0, b"c", 0), seed(1, "i", 0, b"b", 1),
    }  # fmt: skip
    assert len(drawn) == 6
    assert all(0 <= s < 2**31 for s in drawn)


# --- conversations ------------------------------------------------------------------------------------------------


@given(st.lists(st.lists(st.sampled_from("abcd"), max_size=8), max_size=12))
def test_every_list_of_hashes_comes_back_whole(lists: list[list[str]]) -> None:
    prefixes = Prefixes()
    for one in lists:
        prefixes.add(one)
    assert [prefixes.expand(i) for i in range(len(lists))] == lists


def test_a_growing_list_costs_its_growth() -> None:
    prefixes = Prefixes()
    items = [f"h{i}" for i in range(400)]
    kept = sum(len(prefixes.add(items[: n + 2])) for n in range(0, 398, 2))
    assert kept < 3 * len(items)
    assert prefixes.expand(198) == items[:398]


# --- keys ---------------------------------------------------------------------------------------------------------


def test_keys_are_distinct_and_known_as_ours_without_a_list() -> None:
    keys = Keys()
    made = {keys.new() for _ in range(1000)}
    assert len(made) == 1000
    assert all(keys.made(key) for key in made)
    key = made.pop()
    assert not keys.made(key[:-1] + ("0" if key[-1] != "0" else "1"))
    assert not keys.made("")
    assert not keys.made("ü" * 44)
    assert not Keys().made(key)


# --- the record ---------------------------------------------------------------------------------------------------


def test_a_call_is_recorded_once_by_whoever_ends_it_first() -> None:
    recorder = Recorder(Episode("item", 0), lambda line: line)
    place = recorder.begin()
    first, second = (Call("id", "/v1/chat/completions", 0.0, 1.0, status) for status in (0, 200))
    assert recorder.end(place, first, {}, Conversation(), None)
    assert not recorder.end(place, second, {}, Conversation(), None)
    assert recorder.calls == (first,)
    assert len(b"".join(recorder.trace()).splitlines()) == 1
