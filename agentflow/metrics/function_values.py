"""What is done with a metric function in its process: importing it, calling it, reading what it returns."""

from __future__ import annotations

import inspect
import math
import os
import sys
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from agentflow.agents.importing import attribute, find
from agentflow.agents.sources import where
from agentflow.episode import EpisodeResult, Outcome
from agentflow.errors import StoreError, UsageError
from agentflow.metrics.summarize import COUNTED
from agentflow.store import counted, read_manifest, read_results

SHOWN_CHARACTERS = 80  # of a value that is no number


def complaint(path: str, folder: str) -> str:
    """What is wrong with a function, as a sentence; nothing where it can be called."""
    try:
        function = _function(path, folder)
        inspect.signature(function).bind([], **_extras(function, ""))
    except (UsageError, ValueError) as e:
        return str(e)
    except TypeError as e:
        return f"it has to take the results, and may take run_dir: {e}."
    if inspect.iscoroutinefunction(function):
        return "it is asynchronous; a metric function is a plain def."
    return ""


def values(path: str, folder: str, run_dir: str, of_item: bool, name: str) -> tuple[list[dict[str, float]], str]:
    """What a function returns for each item, or once for all; and why there is nothing.

    Args:
        name: under which its numbers are shown.
    """
    try:
        function = _function(path, folder)
        results = countable(Path(run_dir))
    except (UsageError, StoreError) as e:
        return [], str(e)
    extras = _extras(function, run_dir)
    found = []
    undefined = True
    for part in _by_item(results) if of_item else [results]:
        at = f"for item {part[0].item_id} " if of_item else ""
        try:
            returned = function(list(part), **extras)
        except Exception as e:  # noqa: BLE001 -- the user's code
            line = where(e)
            raised = type(e).__name__ + (f": {e}" if str(e) else "")
            return [], f"{at}it raised {raised}{f' (at {line})' if line else ''}."
        try:
            found.append(numbers_of(name, returned))
        except ValueError as e:
            return [], f"{at}it returned {e}."
        undefined = undefined and returned is None
    if found and not any(found):
        what = "None" if undefined else "None or a dict without a number"
        return [], f"it returned {what}{' for every item' if of_item else ''}."
    return found, ""


def numbers_of(name: str, returned: object) -> dict[str, float]:
    """``function`` for a number, ``function/key`` for those of a dict; None is left out.

    Raises:
        ValueError: what came back is no finite number; a clause.
    """
    pairs = {f"{name}/{k}": v for k, v in returned.items()} if isinstance(returned, Mapping) else {name: returned}
    return {full: _number(full, value) for full, value in pairs.items() if value is not None}


def _number(name: str, value: Any) -> float:
    try:
        if isinstance(value, str | bytes):  # float("1") would be one
            raise TypeError
        number = float(value)
    except Exception as e:
        if inspect.iscoroutine(value):
            value.close()
        shown = _shown(value)
        raise ValueError(
            f"{shown} ({type(value).__name__}) for {name}; a number, a dict of numbers or None is wanted"
        ) from e
    if not math.isfinite(number):
        raise ValueError(f"{number} for {name}; where it is undefined, None is wanted")
    return number


def _shown(value: object) -> str:
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 -- a value's own code; a whole number of many digits refuses, too
        return "something"
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[: SHOWN_CHARACTERS - 3]}..."


def countable(run_dir: Path) -> list[EpisodeResult]:
    """The results that count in the headline, in order of items and samples; each has a reward.

    Raises:
        StoreError: the run cannot be read; names file and line.
    """
    manifest = read_manifest(run_dir)
    results = counted(read_results(run_dir), manifest.data.ids, manifest.rules.n_samples)
    lowest = manifest.rules.failed_reward
    return [
        msgspec.structs.replace(r, reward=lowest) if r.outcome is Outcome.FAILED else r
        for r in sorted(results, key=lambda r: (r.item_id, r.sample_index))
        if r.outcome in COUNTED
    ]


def _function(path: str, folder: str) -> Callable[..., Any]:
    file, colon, name = path.rpartition(":")
    if not (file if colon else name) or not name or name.endswith(".py"):
        raise UsageError("it names no function: write file.py:function or pkg.mod:function.")
    if folder and folder not in sys.path:
        sys.path.insert(0, folder)
    if file.endswith(".py"):
        path = os.path.join(folder, path)  # an absolute one stays as it is
    found = find(path)
    if not found.name:
        raise UsageError(f"it names no function: write {path}:function.")
    function = attribute(found, "function")
    if not callable(function):
        raise UsageError(f"it is no function, but of type {type(function).__name__}.")
    return function


def _extras(function: Callable[..., Any], run_dir: str) -> dict[str, Any]:
    return {"run_dir": Path(run_dir)} if "run_dir" in inspect.signature(function).parameters else {}


def _by_item(results: Sequence[EpisodeResult]) -> list[list[EpisodeResult]]:
    items: defaultdict[str, list[EpisodeResult]] = defaultdict(list)
    for r in results:
        items[r.item_id].append(r)
    return list(items.values())
