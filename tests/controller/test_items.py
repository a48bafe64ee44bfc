"""From a data set to what its user is told of it before anything is played."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from agentflow.channel.messages import AgentInfo
from agentflow.controller.items import unmatched_note
from agentflow.datasets import rows_dataset

RAW = {"q": "1 + 1?", "a": "2"}
AGENT = AgentInfo("agent:A", True, dataset="own.jsonl")


def note(row: Mapping[str, Any] = RAW, source: str = "qa.csv", **options: Any) -> str:
    return unmatched_note(rows_dataset([row], source=source, **options), AGENT)


def test_columns_that_no_recipe_knows_are_told_with_the_options_that_make_messages_of_them() -> None:
    said = note()
    assert said.startswith("The columns q, a match no recipe, so run() gets the row as it is;")
    assert "--prompt-column and --answer-column" in said


@pytest.mark.parametrize("row", [{"question": "1 + 1?", "answer": "so 2 #### 2"}, {"messages": []}])
def test_rows_with_messages_need_no_note(row: Mapping[str, Any]) -> None:
    assert note(row) == ""


@pytest.mark.parametrize("source", ["python", "rows.py:make", "own.jsonl"])
def test_rows_that_were_made_for_the_agent_need_no_note(source: str) -> None:
    assert note(source=source) == ""


def test_columns_that_the_user_named_need_no_note() -> None:
    assert note(prompt_column="q", answer_column="a") == ""
