"""From a data set, however it was named, to the episodes that are played."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

import anyio
import msgspec

from agentflow.channel.messages import AgentInfo
from agentflow.config import Config
from agentflow.controller.board import Work
from agentflow.controller.controller import Controller
from agentflow.controller.manifest import configured_source
from agentflow.datasets import PYTHON, Dataset, is_function, open_dataset, rows_dataset
from agentflow.episode import Episode
from agentflow.errors import UsageError

Data = str | os.PathLike[str] | Iterable[Mapping[str, Any]]


async def open_items(controller: Controller, config: Config, info: AgentInfo, data: Data | None) -> Dataset:
    """The items of a run: from what was given, else the configuration's, else the agent's own data set.

    Raises:
        UsageError: none of them names any.
        DataError: the data cannot be read.
    """
    options = config.valid_dataset
    selection: dict[str, Any] = {
        "limit": options.limit,
        "shuffle": options.shuffle,
        "seed": config.seed,
        "prompt_column": options.prompt_column,
        "answer_column": options.answer_column,
        "template": options.template,
    }
    source = data if data is not None else configured_source(config) or info.dataset
    if not source:
        raise UsageError(
            f"No data: give --data FILE, or a class attribute dataset = 'problems.jsonl' on {info.name} (a path beside "
            "its file)."
        )
    if not isinstance(source, str | os.PathLike):
        return rows_dataset(source, **selection)
    source = os.fspath(source)
    if is_function(source):
        rows = await controller.load_rows(source)
        return rows_dataset(_decode(rows), source=source, **selection)
    return await anyio.to_thread.run_sync(lambda: open_dataset(source, **selection))


def _decode(lines: bytes) -> Iterator[Mapping[str, Any]]:
    for line in lines.splitlines():
        yield msgspec.json.decode(line)


def work_of(debt: Iterable[Episode], dataset: Dataset, key: str, columns: Sequence[str]) -> Iterator[Work]:
    """Episodes as the board takes them, with the agent of that key; rows are read when their turn comes."""
    index = {item_id: position for position, item_id in enumerate(dataset.ids)}
    for episode in debt:
        position = index[episode.item_id]
        groups = {}
        if columns:
            row = dataset.raw(position)
            groups = {name: str(row[name]) for name in columns if row.get(name) is not None}
        yield Work(episode, lambda i=position: dataset.item(i).data, key, groups=groups)  # type: ignore[misc]


def unmatched_note(dataset: Dataset, info: AgentInfo) -> str:
    """A sentence for who gives a file whose columns no recipe knows, else nothing.

    Rows of a function or from Python, and those that the agent names itself, are made for it: they need no recipe.
    """
    is_made_for_it = is_function(dataset.source) or dataset.source in (PYTHON, info.dataset)
    if dataset.recipe != "none" or is_made_for_it or not len(dataset):
        return ""
    row = dataset.raw(0)
    if "messages" in row:
        return ""
    return (
        f"The columns {', '.join(row) or '(none)'} match no recipe, so run() gets the row as it is; "
        "--prompt-column and --answer-column make messages of them."
    )


def check_group_by(columns: Sequence[str], row: Mapping[str, Any], source: str) -> None:
    """Raises UsageError for a breakdown column that the first row of the data has not."""
    for name in columns:
        if name not in row:
            near = get_close_matches(name, row, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"its columns are {', '.join(row)}."
            raise UsageError(f"--group-by {name} (valid_dataset.group_by): {source} has no such column; {hint}")


def check_roles(configured: Iterable[str], agent: AgentInfo) -> None:
    """Raises UsageError for a role that is nearly one of those that the agent asks for."""
    for name in configured:
        near = get_close_matches(name, agent.roles, n=1)
        if name not in agent.roles and near:
            raise UsageError(f"roles.{name}: {agent.name} asks for no such role; did you mean roles.{near[0]}?")
