"""``agentflow data``: what an agent would receive."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.e2e.conftest import CommandLine


@pytest.fixture
def agentflow(tmp_path: Path) -> CommandLine:
    return CommandLine(tmp_path)


def test_it_says_what_the_recipe_makes_of_messages_and_answer(agentflow: CommandLine) -> None:
    rows = [{"id": f"q{i}", "question": f"How many {i}?", "answer": f"So\n#### {i},000"} for i in (1, 2, 3)]
    (agentflow.cwd / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    done = agentflow("data", "rows.jsonl", "--head", "2")
    assert done.code == 0, done.err
    assert "items        3" in done.out
    assert "recipe       gsm8k, which makes answer, messages, original_answer" in done.out
    assert "item q1\n  messages: user: How many 1?\n    Please put your final answer within \\boxed{}." in done.out
    assert "\n  answer: 1000\n" in done.out
    assert "item q2" in done.out
    assert "item q3" not in done.out


def test_columns_template_order_and_limit_are_the_options_of_run(agentflow: CommandLine) -> None:
    (agentflow.cwd / "rows.csv").write_text("id,text,label\na,One,1\nb,Two,2\nc,Three,3\n")
    done = agentflow(
        "data", "rows.csv", "--template", "Q: {text}", "--answer-column", "label", "--limit", "1", "--shuffle"
    )
    assert done.code == 0, done.err
    assert "items        1" in done.out
    assert "recipe       template" in done.out
    assert "messages: user: Q: " in done.out


def test_a_function_gives_its_rows(agentflow: CommandLine) -> None:
    (agentflow.cwd / "rows.py").write_text(
        "async def rows():\n    for i in range(5):\n        yield {'messages': [], 'answer': i, 'long': 'x' * 3000}\n"
    )
    done = agentflow("data", "rows.py:rows", "--head", "1")
    assert done.code == 0, done.err
    assert "items        5" in done.out
    assert "answer: 0" in done.out
    assert "[... 1,000 more characters]" in done.out
    assert "x" * 3000 in agentflow("data", "rows.py:rows", "--head", "1", "--full").out


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("nowhere.jsonl", ["nowhere.jsonl"]),
        ("gsm8", ["gsm8k"]),
        ("rows.py:rws", ["rws", "rows"]),
        ("rows.py:broken", ["ZeroDivisionError"]),
    ],
)
def test_a_mistake_is_one_sentence(agentflow: CommandLine, name: str, words: list[str]) -> None:
    (agentflow.cwd / "rows.py").write_text("def rows():\n    return []\ndef broken():\n    return 1 / 0\n")
    done = agentflow("data", name)
    assert done.code == 2, done.out + done.err
    assert "Traceback" not in done.err
    for word in words:
        assert word in done.err


def test_escape_sequences_in_data_do_nothing_to_the_terminal(agentflow: CommandLine) -> None:
    (agentflow.cwd / "rows.jsonl").write_text(json.dumps({"text": "\x1b[31mred"}))
    assert "\x1b" not in agentflow("data", "rows.jsonl").out


def test_math_500_is_shown_with_dollars_around_its_answers(agentflow: CommandLine) -> None:
    data = os.environ.get("AGENTFLOW_TEST_DATA")
    if not data:
        pytest.skip("AGENTFLOW_TEST_DATA is not set: MATH-500 is not here")
    done = agentflow("data", f"{data}/math500/test.jsonl", "--head", "1")
    assert "items        500" in done.out
    assert "\n  answer: $" in done.out
