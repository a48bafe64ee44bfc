"""The user's own metrics: functions of the results of one item, or of all results, each run in a process of its own.

A function takes a list of :class:`~agentflow.episode.EpisodeResult`: the episodes that count in the headline (scored
and failed), a failed one with ``failed_reward`` as its reward. A parameter called ``run_dir`` is given the run's
directory, for whoever wants texts (:func:`agentflow.store.read_calls`). It returns a number, a dict of named numbers,
or None where it is undefined.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio

from agentflow.errors import UsageError
from agentflow.metrics.interval import ItemMean, item_mean
from agentflow.metrics.summary import OwnMetrics
from agentflow.rewards import AsyncRewardWrapper, GraderError
from agentflow.rewards.pool import RewardPool

TIMEOUT_S = 600.0  # for one function over a whole run
MEMORY_BYTES = 8 * 1024**3
INSIDE = "agentflow.metrics.function_values"

Values = dict[str, float]


@dataclass(frozen=True)
class Functions:
    """Metric functions by path (``file.py:function``, ``pkg.mod:function``, ``pkg.mod.function``).

    Args:
        of_item: called with the results of each item.
        of_run: called once, with all results.
        folder: where relative paths begin; comes first on the import path.
    """

    of_item: tuple[str, ...] = ()
    of_run: tuple[str, ...] = ()
    folder: str = ""

    def __bool__(self) -> bool:
        return bool(self.of_item or self.of_run)


@dataclass(frozen=True)
class _Function:
    """``name`` is the last part of the path; where several functions end alike, the path as far as it takes."""

    path: str
    folder: str
    name: str


async def check_functions(functions: Functions) -> None:
    """Import them; to be called before anything is played.

    Raises:
        UsageError: one cannot be imported, or takes something else than a list of results.
    """
    for path in (*functions.of_item, *functions.of_run):
        try:
            complaint = await _in_process("complaint", path, functions.folder)
        except GraderError as e:
            complaint = f"importing it failed: {e.why}."
        if complaint:
            raise UsageError(f"Metric function {path}: {complaint}")


async def own_metrics(run_dir: Path, *given: Functions, cut: anyio.CancelScope | None = None) -> OwnMetrics:
    """Their values over what is stored, :data:`TIMEOUT_S` for each function at most.

    A function that gives nothing costs nothing but its own value: why stands in ``missing``.

    Args:
        given: from several places; what is the same function is called once.
        cut: when it is cancelled, functions without a value yet are ended and missing.
    """
    where = await anyio.Path(run_dir).absolute()
    of_item, of_run = _named(given, of_item=True), _named(given, of_item=False)
    means: dict[str, ItemMean] = {}
    numbers: Values = {}
    missing = {f.name: "it was stopped before it was done; agentflow show computes it." for f in (*of_item, *of_run)}
    with cut or anyio.CancelScope():
        for f in of_item:
            values, why = await _call(f, where, of_item=True)
            means |= _means(values)
            _settle(missing, f, why or ("" if values else "no item has an episode that counts."))
        for f in of_run:
            values, why = await _call(f, where, of_item=False)
            numbers |= {n: number for v in values for n, number in v.items()}
            _settle(missing, f, why)
    return OwnMetrics(means, numbers, missing)


def _settle(missing: dict[str, str], function: _Function, why: str) -> None:
    if why:
        missing[function.name] = why
    else:
        missing.pop(function.name, None)


def _means(values: Iterable[Values]) -> dict[str, ItemMean]:
    by_name: defaultdict[str, list[list[float]]] = defaultdict(list)
    for of_one in values:
        for name, value in of_one.items():
            by_name[name].append([value])
    return {name: item_mean(several) for name, several in by_name.items()}


def _named(given: Sequence[Functions], *, of_item: bool) -> list[_Function]:
    """Each function once, under a name that no other has."""
    paths = {_full(p, g.folder): (p, g.folder) for g in given for p in (g.of_item if of_item else g.of_run)}
    last = Counter(map(_last, paths))
    written = Counter(path for path, _ in paths.values())
    return [
        _Function(path, folder, _last(full) if last[_last(full)] == 1 else path if written[path] == 1 else full)
        for full, (path, folder) in paths.items()
    ]


def _full(path: str, folder: str) -> str:
    file, colon, name = path.rpartition(":")
    return f"{os.path.realpath(os.path.join(folder, file))}{colon}{name}" if file.endswith(".py") else path


def _last(path: str) -> str:
    return path.rpartition(":")[2] if ":" in path else path.rpartition(".")[2]


async def _call(function: _Function, run_dir: anyio.Path, *, of_item: bool) -> tuple[list[Values], str]:
    try:
        found: tuple[list[Values], str] = await _in_process(
            "values", function.path, function.folder, str(run_dir), of_item, function.name
        )
    except GraderError as e:
        return [], f"{e.why}."
    return found


async def _in_process(name: str, *args: Any) -> Any:
    # A process for each: what one function imports, changes or leaves behind is nothing to the next.
    with closing(RewardPool(processes=1)) as pool:
        return await AsyncRewardWrapper(f"{INSIDE}:{name}", timeout=TIMEOUT_S, memory_bytes=MEMORY_BYTES, pool=pool)(
            *args
        )
