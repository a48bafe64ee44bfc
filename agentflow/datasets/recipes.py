"""Recipes: what ``messages`` and ``answer`` of a row become. Pure.

A recipe is chosen once, by the columns of the first row, and has a name that the output shows:

- ``messages``: the row has ``messages`` and ``answer``; used as it is.
- ``gsm8k``: ``question``, and an ``answer`` that ends in ``#### 42``. ``answer`` becomes ``42``.
- ``math``: ``problem`` and ``answer`` (MATH-500, AIME). ``answer`` becomes ``$...$``: math_verify reads LaTeX only
  between dollars, and agents hand ``data["answer"]`` straight to its ``parse``.
- ``columns``, ``template``: the user named the columns or gave a template.
- ``none``: nothing of the above; rows are passed untouched.

All columns of the row are kept. Where ``answer`` was rewritten, the row's own is in ``original_answer``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import msgspec

from agentflow.datasets.base import Row
from agentflow.errors import DataError

BOX_REQUEST = "\nPlease put your final answer within \\boxed{}."  # the words AReaL trains GSM8K and MATH with

Messages = list[dict[str, Any]]

_UNESCAPED_DOLLAR = re.compile(r"(?<!\\)\$")
_COMMA_IN_NUMBER = re.compile(r"(?<=\d),(?=\d{3})")
_PLACEHOLDER = re.compile(r"\{\{(\w+)\}\}|\{([A-Za-z_]\w*)\}")


class RecipeMismatch(Exception):
    """A row does not fit the recipe; the message says how, without place."""


@dataclass(frozen=True)
class Recipe:
    """How a row becomes ``data``. ``prompt`` gives the messages, ``answer`` the new answer; None: untouched."""

    name: str
    prompt: Callable[[Row], Messages] | None = None
    answer: Callable[[Row], Any] | None = None

    def apply(self, row: Row) -> Row:
        """The row with ``messages`` and ``answer`` made; raises RecipeMismatch."""
        if self.prompt is None and self.answer is None:
            return row
        data = dict(row)
        if self.prompt is not None:
            data["messages"] = self.prompt(row)
        if self.answer is not None:
            data["answer"] = self.answer(row)
            if "answer" in row and data["answer"] != row["answer"]:
                data.setdefault("original_answer", row["answer"])
        return data


def choose_recipe(
    row: Row, *, prompt_column: str | None = None, answer_column: str | None = None, template: str | None = None
) -> Recipe:
    """The recipe for a set whose first row this is; what the user named wins over what the columns say.

    With only a prompt column or a template, the answer is still cleaned by the recipe that the columns show, and
    with only an answer column the prompt is still made by it.

    Raises:
        DataError: a prompt column and a template contradict each other.
    """
    if prompt_column is not None and template is not None:
        raise DataError("Give a prompt column or a template, not both: the template can name the column as {column}.")
    known = _recognised(row)
    if prompt_column is None and answer_column is None and template is None:
        return known
    prompt = known.prompt
    if template is not None:
        prompt = _templated(template)
    elif prompt_column is not None:
        prompt = _column_as_messages(prompt_column)
    answer = known.answer if answer_column is None else _column(answer_column)
    return Recipe("template" if template is not None else "columns", prompt, answer)


def gsm8k_gold(answer: Any) -> str:
    """The number after the last ``####``, without thousands commas; raises RecipeMismatch without one."""
    if not isinstance(answer, str) or "####" not in answer:
        raise RecipeMismatch("the answer does not end in '#### number'")
    return _COMMA_IN_NUMBER.sub("", answer.rpartition("####")[2].strip())


def math_gold(answer: Any) -> str:
    """The answer between dollars, unless it has some; raises RecipeMismatch when it is no text or number."""
    if isinstance(answer, bool) or not isinstance(answer, str | int | float):
        raise RecipeMismatch(f"the answer is {answer!r}, neither text nor a number")
    text = str(answer).strip()
    return text if _UNESCAPED_DOLLAR.search(text) else f"${text}$"


def _recognised(row: Row) -> Recipe:
    if isinstance(row.get("messages"), list) and "answer" in row:
        return Recipe("messages", _own_messages, lambda r: _get(r, "answer"))
    answer = row.get("answer")
    if isinstance(row.get("question"), str) and isinstance(answer, str) and "####" in answer:
        return Recipe("gsm8k", _boxed("question"), lambda r: gsm8k_gold(_get(r, "answer")))
    if isinstance(row.get("problem"), str) and isinstance(answer, str | int | float):
        return Recipe("math", _boxed("problem"), lambda r: math_gold(_get(r, "answer")))
    return Recipe("none")


def _get(row: Row, column: str) -> Any:
    try:
        return row[column]
    except KeyError:
        near = get_close_matches(column, row, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else f"; it has {', '.join(map(repr, row)) or 'none'}"
        raise RecipeMismatch(f"the row has no column {column!r}{hint}") from None


def _column(column: str) -> Callable[[Row], Any]:
    return lambda row: _get(row, column)


def _own_messages(row: Row) -> Messages:
    messages = _get(row, "messages")
    if not isinstance(messages, list):
        raise RecipeMismatch(f"messages is {messages!r:.40}, not a list")
    return messages


def _column_as_messages(column: str) -> Callable[[Row], Messages]:
    """The column's text as the user's message; a list of messages as it is."""

    def messages(row: Row) -> Messages:
        value = _get(row, column)
        if isinstance(value, list) and value and all(isinstance(m, dict) and "role" in m for m in value):
            return value
        return _user(_said(value, column))

    return messages


def _boxed(column: str) -> Callable[[Row], Messages]:
    return lambda row: _user(_said(_get(row, column), column) + BOX_REQUEST)


def _user(text: str) -> Messages:
    return [{"role": "user", "content": text}]


def _said(value: Any, column: str) -> str:
    if value is None:
        raise RecipeMismatch(f"{column} is null: there is nothing to ask")
    return _text(value)


def _templated(template: str) -> Callable[[Row], Messages]:
    """``{column}`` is the column's value, ``{{word}}`` a literal ``{word}``, every other brace is itself: LaTeX such
    as ``\\boxed{}`` needs no escape."""

    def render(row: Row) -> Messages:
        def value(match: re.Match[str]) -> str:
            literal, column = match.groups()
            return f"{{{literal}}}" if literal is not None else _text(_get(row, column))

        return _user(_PLACEHOLDER.sub(value, template))

    return render


def _text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
