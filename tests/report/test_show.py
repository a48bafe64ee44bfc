"""A stored run and its episodes, for a reader."""

from __future__ import annotations

import pytest

from agentflow.errors import NotARunError, StoreError, UsageError
from agentflow.report import show_episode, show_run
from agentflow.report.conversation import Part, new_parts, request_parts, response_parts, settings, tool_names


def test_a_run_shows_its_table_from_the_files_and_an_example_of_each_kind(run, printed):
    text = printed(show_run, run)
    assert "MathAgent   SmolLM2-135M.gguf   math.jsonl" in text
    assert "1 failed: exception   such as math-002/0" in text
    assert "ValueError: no number in '[/red]'" in text
    assert "1 lost: unreachable   such as math-003/0" in text
    assert "PARTIAL: 1 episode not played yet" in text
    assert "0.500 to 0.750" in text


def test_an_episode_shows_every_turn_once_as_it_was_written(run, printed):
    text = printed(show_episode, run, "math-001/0")
    lines = [stripped for line in text.splitlines() if (stripped := line.strip())]
    said = [line for line in lines if not line.startswith(("call ", "end ", "llamacpp", "math-", "0 ms"))]
    assert said == [
        "tools: add, multiply",
        "temperature=0.0",
        "system",
        "You compute [bold]carefully[/bold].",
        "user",
        "What is 2+2?␛[31m",
        "tool call",
        'add({"a": 2, "b": 2})',
        "tool result",
        "4",
        "assistant",
        "It is 4.",
        "note",
        "The reply was cut off at its token limit.",
        "steps = 2.000",
    ]
    assert "1.25 s   first token 200 ms   100 (90 cached) + 12 tokens" in text
    assert "math-001/0   scored   reward 1.000" in text


def test_a_failed_episode_shows_its_error_and_the_agents_traceback(run, printed):
    text = printed(show_episode, run, "math-002/0")
    assert "failed (exception)" in text
    assert "The prompt is too long." in text
    assert "HTTP 400" in text
    assert "ValueError: no number in '[/red]'" in text
    assert "  boom" in text


def test_an_episode_without_calls_says_so(run, printed):
    text = printed(show_episode, run, "math-004/0")
    assert "This episode made no call." in text
    assert "Warning: Scored without a single call." in text


def test_an_unknown_episode_names_the_nearest_ids(run, printed):
    with pytest.raises(UsageError, match=r"no episode 'math-01/0'; the nearest ids are math-001/0"):
        printed(show_episode, run, "math-01/0")
    with pytest.raises(UsageError, match=r"no episode 'math-003'; the nearest ids are math-003/0"):
        printed(show_episode, run, "math-003")


def test_a_broken_file_is_one_sentence_with_file_and_line(run, printed):
    path = run / "episodes.jsonl"
    path.write_text("{}\n" + path.read_text())
    for show in (lambda: printed(show_run, run), lambda: printed(show_episode, run, "math-001/0")):
        with pytest.raises(StoreError, match=r"episodes\.jsonl, line 1 is broken"):
            show()


def test_a_directory_that_is_no_run_is_one_sentence(tmp_path, printed):
    with pytest.raises(StoreError, match="is not a run directory"):
        printed(show_run, tmp_path)


def test_a_run_whose_name_was_mistyped_is_told_the_one_beside_it(run, printed):
    (run.parent / "runn").mkdir()  # a folder, and no run
    for show in (lambda: printed(show_run, run.with_name("rnu")), lambda: printed(show_episode, run / "../rnu", "a/0")):
        with pytest.raises(NotARunError, match=r"or the file was removed; did you mean \S+/run\?$"):
            show()
    with pytest.raises(NotARunError, match=r"or the file was removed\.$"):
        printed(show_run, run.with_name("something else"))
    with pytest.raises(NotARunError, match=r"or the file was removed\.$"):
        printed(show_run, run.parent / "no" / "where")


RESPONSES = {
    "instructions": "Be brief.",
    "input": [
        {"role": "user", "content": [{"type": "input_text", "text": "2+2?"}]},
        {"type": "function_call", "name": "add", "arguments": '{"a":2}', "call_id": "x"},
        {"type": "function_call_output", "call_id": "x", "output": "4"},
    ],
    "tools": [{"type": "function", "name": "add"}],
    "temperature": 0.5,
    "model": "default",
}
MESSAGES = {
    "system": [{"type": "text", "text": "Be brief."}],
    "messages": [
        {"role": "user", "content": "2+2?"},
        {"role": "assistant", "content": [{"type": "tool_use", "name": "add", "input": {"a": 2}, "id": "x"}]},
        {"role": "user", "content": [{"type": "tool_result", "content": [{"type": "text", "text": "4"}]}]},
    ],
    "tools": [{"name": "add", "input_schema": {}}],
}


def test_the_dialects_read_alike():
    said = [Part("user", "2+2?"), Part("tool call", 'add({"a":2})'), Part("tool result", "4")]
    assert request_parts(RESPONSES) == [Part("system", "Be brief."), *said]
    assert request_parts(MESSAGES)[1:] == said
    assert tool_names(RESPONSES) == tool_names(MESSAGES) == ["add"]
    assert settings(RESPONSES) == {"temperature": 0.5}


def test_replies_of_every_dialect_are_read():
    said = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "4"}]}
    assert response_parts({"output": [said]}) == [Part("assistant", "4")]
    assert response_parts({"content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "4"}]}) == [
        Part("reasoning", "hm"),
        Part("assistant", "4"),
    ]
    assert response_parts({"choices": [{"text": " 4"}]}) == [Part("assistant", " 4")]
    assert response_parts({"error": {"message": "no"}}) == [Part("error", "no")]
    assert response_parts({"error": "no"}) == [Part("error", "no")]
    assert response_parts("<html>") == [Part("response", "<html>")]
    assert response_parts(None) == []


@pytest.mark.parametrize(
    "odd",
    [
        {"messages": "text"},
        {"messages": [1, None, "h1"]},
        {"messages": {"a": 1}},
        {"input": 3},
        {"prompt": [1, 2]},
        {"messages": [{"role": "assistant", "tool_calls": ["x", {"function": None}]}]},
        {"tools": [1, {"function": None}], "messages": [{"role": "user", "content": [1, {"type": "tool_use"}]}]},
        "not json",
    ],
)
def test_whatever_an_agent_sent_it_is_shown_and_nothing_breaks(odd):
    request_parts(odd)
    tool_names(odd)
    settings(odd)
    response_parts({"choices": [odd], "output": odd, "content": odd})
    response_parts({"choices": odd})


def test_a_call_that_goes_another_way_shows_where_it_parts_from_the_earlier_ones():
    a, b, c, d = (Part("user", name) for name in "abcd")
    assert list(new_parts([a, b, c], [[a], [a, b]])) == [c]
    assert list(new_parts([a, d], [[a, b, c]])) == [d]
    assert list(new_parts([a, a], [[a]])) == [a]
