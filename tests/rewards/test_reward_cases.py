"""Real golds and the table of cases, graded as a user grades them."""

from __future__ import annotations

import json
import os
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("math_verify")

from agentflow.datasets import open_dataset
from agentflow.rewards.grading import grade

OURS = Path(__file__).with_name("math_kinds.jsonl")  # written and judged by hand, about half of them wrong answers


@pytest.fixture
def data() -> Path:
    folder = os.environ.get("AGENTFLOW_TEST_DATA")
    if folder is None:
        pytest.skip("AGENTFLOW_TEST_DATA is not set: the real rows and cases are not here")
    return Path(folder)


@pytest.mark.parametrize(("name", "count"), [("gsm8k", 1319), ("math500", 500)])
@pytest.mark.parametrize(
    "completion",
    [
        "Let us see. The answer is $\\boxed{{{}}}$.",
        "Let us see.\n#### {}",
        "Let us see. The final answer is ${}$. I hope it is correct.",
    ],
)
def test_every_gold_is_its_own_right_answer(data: Path, name: str, count: int, completion: str) -> None:
    dataset = open_dataset(str(data / name / "test.jsonl"))
    wrong = []
    for index in range(len(dataset)):
        raw, answer = dataset.raw(index)["answer"], dataset.item(index).data["answer"]
        text = completion.format(answer.removeprefix("$").removesuffix("$"))
        if grade(text, raw) != 1.0 or grade(text, answer) != 1.0:
            wrong.append(answer)
    assert (len(dataset), wrong) == (count, [])


def test_every_reference_solution_of_math500_is_right_and_the_next_problems_is_wrong(data: Path) -> None:
    dataset = open_dataset(str(data / "math500" / "test.jsonl"))
    rows = [dataset.raw(i) for i in range(len(dataset))]
    assert [r["answer"] for r in rows if grade(r["solution"], r["answer"]) != 1.0] == []
    mistaken = [
        (a["answer"], b["answer"])
        for a, b in pairwise(rows)
        if grade(b["solution"], a["answer"]) == 1.0 and a["answer"] != b["answer"]
    ]
    assert mistaken == [("5", "x=5")]  # the one pair that does say the same


def test_no_gold_of_math500_that_is_no_integer_is_taken_for_another(data: Path) -> None:
    dataset = open_dataset(str(data / "math500" / "test.jsonl"))
    golds = sorted({str(dataset.raw(i)["answer"]) for i in range(len(dataset))})
    golds = [gold for gold in golds if not gold.removeprefix("-").isdigit()][::2]
    taken = {(a, b) for a in golds for b in golds if a != b and grade(f"\\boxed{{{b}}}", a)}
    assert taken <= {("180^\\circ", "\\pi"), ("\\pi", "180^\\circ"), ("-2,1", "1,-2"), ("1,-2", "-2,1")}


def test_the_table_of_cases_comes_out_as_a_mathematician_says(data: Path) -> None:
    rows = [json.loads(line) for line in (data / "math_cases.jsonl").read_text(encoding="utf-8").splitlines()]
    wrong = [r["id"] for r in rows if bool(grade(r["prediction"], r["gold"])) != r["expected"]]
    assert wrong == []


def _ours() -> list[Any]:
    rows = [json.loads(line) for line in OURS.read_text(encoding="utf-8").splitlines()]
    return [pytest.param(row, id=f"{row['kind']}-{row['id']}") for row in rows]


@pytest.mark.parametrize("case", _ours())
def test_each_kind_of_case_comes_out_as_a_mathematician_says(case: dict[str, Any]) -> None:
    assert bool(grade(case["prediction"], case["gold"])) == case["expected"]
