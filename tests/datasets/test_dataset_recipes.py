"""What messages and answer of a row become."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from agentflow.datasets import open_dataset, rows_dataset
from agentflow.errors import DataError

BOX = "\nPlease put your final answer within \\boxed{}."


def only(row: dict[str, Any], **options: Any) -> tuple[str, dict[str, Any]]:
    dataset = rows_dataset([row], **options)
    return dataset.recipe, dataset.item(0).data


def user(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


def test_messages_and_answer_are_used_as_they_are() -> None:
    row = {"messages": user("hi"), "answer": "work #### 4", "level": 3}
    assert only(row) == ("messages", row)


def test_gsm8k_gets_messages_and_the_bare_number_and_keeps_its_columns() -> None:
    row = {"question": "How many?", "answer": "Add them.\n#### 1,234,567", "topic": "sums"}
    assert only(row) == (
        "gsm8k",
        {
            "question": "How many?",
            "answer": "1234567",
            "original_answer": "Add them.\n#### 1,234,567",
            "topic": "sums",
            "messages": user("How many?" + BOX),
        },
    )


@pytest.mark.parametrize(
    ("answer", "gold"), [("\\frac12", "$\\frac12$"), ("$3$", "$3$"), (204, "$204$"), ("\\$18.90", "$\\$18.90$")]
)
def test_math_gets_an_answer_between_dollars(answer: str | int, gold: str) -> None:
    recipe, data = only({"problem": "?", "answer": answer})
    assert (recipe, data["answer"], data["messages"]) == ("math", gold, user("?" + BOX))


def test_other_rows_are_passed_untouched() -> None:
    for row in ({"question": "capital?", "answer": "Paris"}, {"x": 1}, {"messages": "text", "answer": "4"}):
        assert only(row) == ("none", row)


def test_named_columns_win_over_the_recipe() -> None:
    row = {"question": "old", "answer": "#### 5", "q": "new", "n": 3, "gold": 7}
    recipe, data = only(row, prompt_column="q", answer_column="gold")
    assert (recipe, data["messages"], data["answer"]) == ("columns", user("new"), 7)
    assert data["original_answer"] == "#### 5"
    assert only(row, prompt_column="n")[1]["messages"] == user("3")


def test_a_prompt_column_may_hold_messages() -> None:
    conversation = [{"role": "system", "content": "Be brief."}, *user("hi")]
    assert only({"prompt": conversation, "gold": "x"}, prompt_column="prompt")[1]["messages"] == conversation
    assert only({"prompt": ["a", "b"]}, prompt_column="prompt")[1]["messages"] == user('["a","b"]')


def test_a_template_keeps_latex_braces_and_the_recipes_clean_answer() -> None:
    row = {"question": "2+2?", "answer": "#### 4"}
    recipe, data = only(row, template="{question} Write \\boxed{} and \\frac{1}{2} and {{name}}.")
    assert recipe == "template"
    assert data["messages"] == user("2+2? Write \\boxed{} and \\frac{1}{2} and {name}.")
    assert data["answer"] == "4"


def test_a_column_that_is_not_there_is_said_with_row_and_nearest_name() -> None:
    with pytest.raises(DataError, match=r"row 1: the row has no column 'questoin'; did you mean 'question'\?"):
        rows_dataset([{"question": "x"}], template="{questoin}")
    with pytest.raises(DataError, match="a prompt column or a template, not both"):
        rows_dataset([{"question": "x"}], template="{question}", prompt_column="question")


def test_a_later_row_that_does_not_fit_is_found_at_once(tmp_path: Path) -> None:
    path = tmp_path / "d.jsonl"
    path.write_text('{"question": "a", "answer": "#### 1"}\n{"question": "b", "answer": "2"}\n')
    with pytest.raises(DataError, match=r"line 2: the answer does not end in '#### number' \(recipe 'gsm8k'"):
        open_dataset(str(path))
    with pytest.raises(DataError, match="row 2: the row has no column 'problem'"):
        rows_dataset([{"problem": "a", "answer": "1"}, {"answer": "2"}])
    with pytest.raises(DataError, match="row 2: problem is null: there is nothing to ask"):
        rows_dataset([{"problem": "a", "answer": "1"}, {"problem": None, "answer": "2"}])
    with pytest.raises(DataError, match="row 2: q is null"):
        rows_dataset([{"q": "a"}, {"q": None}], prompt_column="q")
    for row, said in (
        ({"answer": "2"}, "the row has no column 'messages'"),
        ({"messages": user("b")}, "the row has no column 'answer'"),
        ({"messages": "b", "answer": "2"}, "messages is 'b', not a list"),
    ):
        with pytest.raises(DataError, match=rf"row 2: {said}.*\(recipe 'messages'"):
            rows_dataset([{"messages": user("a"), "answer": "1"}, row])


@pytest.mark.parametrize(("name", "recipe", "count"), [("gsm8k", "gsm8k", 1319), ("math500", "math", 500)])
def test_every_real_gold_parses_as_the_documented_agent_parses_it(name: str, recipe: str, count: int) -> None:
    folder = os.environ.get("AGENTFLOW_TEST_DATA")
    if folder is None:
        pytest.skip("AGENTFLOW_TEST_DATA is not set: the real GSM8K and MATH-500 rows are not here")
    math_verify = pytest.importorskip("math_verify")
    dataset = open_dataset(str(Path(folder) / name / "test.jsonl"))
    assert (dataset.recipe, len(dataset)) == (recipe, count)
    for index in range(count):
        answer = dataset.item(index).data["answer"]
        parsed = math_verify.parse(answer)
        boxed = math_verify.parse("So it is $\\boxed{" + answer.removeprefix("$").removesuffix("$") + "}$.")
        assert math_verify.verify(parsed, boxed), answer
