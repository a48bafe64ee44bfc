"""From a model's tool call to source that the checker's ``eval`` may see. Needs no package."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.bfcl.calls import ApiCall, RefusedError, UndecodableError, checked, decoded

FUNCTIONS = ("cd", "post_tweet", "sort")

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(st.dictionaries(st.from_regex(r"[a-z_][a-z0-9_]{0,8}", fullmatch=True).map(lambda n: f"x{n}"), json_values))
def test_the_source_of_a_call_evaluates_to_the_values_that_were_given(arguments: dict[str, object]) -> None:
    source = ApiCall("cd", arguments).source
    assert eval(source, {"__builtins__": {}, "cd": lambda **given: given}) == arguments


@given(st.text())
def test_no_text_of_a_model_looks_like_a_call_to_the_checkers_executor(text: str) -> None:
    source = ApiCall("post_tweet", {"content": text, "tags": [text], "more": {text: text}}).source
    assert source.index("(") == source.rindex("(") == len("post_tweet")


@pytest.mark.parametrize(
    "argument",
    ["x=__import__('os').system('true'),y", "a b", "", "lambda", "ﬁle", "1x", "x)", "*x", "x\n", "x=1"],
)
def test_an_argument_name_that_is_no_plain_identifier_is_refused(argument: str) -> None:
    with pytest.raises(RefusedError):
        checked("cd", {argument: 1}, FUNCTIONS)


@pytest.mark.parametrize(("left", "right"), [("[", "]"), ('{"a": ', "}")])
def test_a_value_that_the_checker_could_not_read_again_is_refused(left: str, right: str) -> None:
    arguments = decoded('{"tags": ' + left * 300 + "1" + right * 300 + "}")
    with pytest.raises(RefusedError, match="'tags' is nested more than 50 deep"):
        checked("post_tweet", arguments, FUNCTIONS)
    arguments = decoded('{"tags": ' + left * 50 + "1" + right * 50 + "}")
    source = checked("post_tweet", arguments, FUNCTIONS).source
    assert eval(source, {"__builtins__": {}, "post_tweet": lambda **given: given}) == arguments


@pytest.mark.parametrize("name", ["rm", "cd()", "__import__", "cd;sort", "", "CD", "os.system", "_load_scenario"])
def test_a_function_that_the_apis_do_not_have_is_refused(name: str) -> None:
    with pytest.raises(RefusedError, match="not defined"):
        checked(name, {}, FUNCTIONS)


@pytest.mark.parametrize(
    "arguments",
    ["{", "[1]", '"cd"', "null", "3", '{"a": NaN}', '{"a": 1e999}', '{"a": "\\ud800"}', "{'a': 1}", "\ud800"],
)
def test_arguments_that_are_no_json_object_are_undecodable(arguments: str) -> None:
    with pytest.raises(UndecodableError):
        decoded(arguments)


@given(st.dictionaries(st.text(), json_values))
def test_a_json_object_is_read_as_it_is(arguments: dict[str, object]) -> None:
    assert decoded(json.dumps(arguments)) == arguments


def test_no_arguments_at_all_are_an_empty_object() -> None:
    assert decoded("") == decoded(" ") == {}
