"""The user's own metrics: functions of the results of one item, or of all results. They run in a reward process.

A function takes a list of :class:`~agentflow.episode.EpisodeResult`: the episodes that count in the headline (scored
and failed), a failed one with ``failed_reward`` as its reward. A parameter called ``run_dir`` is given the run's
directory, for whoever wants texts (:func:`agentflow.store.read_calls`). It returns a number, a dict of named numbers,
or None where it is undefined.
"""

from __future__ import annotations

import inspect
import math
import os
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from agentflow.agents.importing import attribute, find
from agentflow.agents.sources import where
from agentflow.episode import EpisodeResult, Outcome
from agentflow.errors import UsageError
from agentflow.metrics.interval import item_mean
from agentflow.metrics.summarize import COUNTED
from agentflow.metrics.summary import OwnMetrics
from agentflow.rewards import AsyncRewardWrapper, GraderError
from agentflow.store import counted, read_manifest, read_results

TIMEOUT_S = 600.0  # for one function over a whole run
MEMORY_BYTES = 8 * 1024**3

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


def check_functions(functions: Functions) -> None:
    """Import them. Blocks; to be called before anything is played.

    Raises:
        UsageError: one cannot be imported, or takes something else than a list of results.
    """
    for path in (*functions.of_item, *functions.of_run):
        try:
            complaint = _in_process("_complaint", path, functions.folder)
        except GraderError as e:
            complaint = f"importing it failed: {e.why}."
        if complaint:
            raise UsageError(f"Metric function {path}: {complaint}")


def own_metrics(run_dir: Path, functions: Functions) -> OwnMetrics:
    """Their values over what is stored. Blocks, for as long as the functions take, :data:`TIMEOUT_S` each at most.

    A function that gives nothing costs nothing but its own value: why stands in ``missing``.
    """
    of_item, of_run, missing = {}, {}, {}
    for path in functions.of_item:
        values, why = _call(path, run_dir, functions.folder, of_item=True)
        names = dict.fromkeys(name for v in values for name in v)
        of_item.update({name: item_mean([[v[name]] for v in values if name in v]) for name in names})
        missing.update({path: why} if why else {})
    for path in functions.of_run:
        values, why = _call(path, run_dir, functions.folder, of_item=False)
        of_run.update({n: number for v in values for n, number in v.items()})
        missing.update({path: why} if why else {})
    return OwnMetrics(of_item, of_run, missing)


def merged(several: Iterable[OwnMetrics]) -> OwnMetrics:
    """All of them in one; a later value wins."""
    one = OwnMetrics()
    for own in several:
        one = OwnMetrics(one.of_item | own.of_item, one.of_run | own.of_run, one.missing | own.missing)
    return one


def _call(path: str, run_dir: Path, folder: str, *, of_item: bool) -> tuple[list[Values], str]:
    try:
        found: tuple[list[Values], str] = _in_process("_values", path, folder, str(run_dir.absolute()), of_item)
    except GraderError as e:
        return [], f"{e.why}."
    return found


def _in_process(name: str, *args: Any) -> Any:
    wrapper = AsyncRewardWrapper(f"{__name__}:{name}", timeout=TIMEOUT_S, memory_bytes=MEMORY_BYTES)
    return wrapper.call_sync(*args)


# --- from here on in the reward process ---


def _complaint(path: str, folder: str) -> str:
    """What is wrong with a function, as a sentence; nothing where it can be called."""
    try:
        function = _function(path, folder)
        inspect.signature(function).bind([], **_extras(function, ""))
    except (UsageError, ValueError) as e:
        return str(e)
    except TypeError as e:
        return f"it has to take the results, and may take run_dir: {e}."
    return ""


def _values(path: str, folder: str, run_dir: str, of_item: bool) -> tuple[list[Values], str]:
    """What a function returns for each item, or once for all; and why there is nothing."""
    try:
        function = _function(path, folder)
        results = countable(Path(run_dir))
    except UsageError as e:
        return [], str(e)
    name = path.rpartition(":")[2].rpartition(".")[2]
    extras = _extras(function, run_dir)
    values = []
    for part in _by_item(results) if of_item else [results]:
        at = f" for item {part[0].item_id}" if of_item else ""
        try:
            values.append(dict(_named(name, function(part, **extras))))
        except Exception as e:  # noqa: BLE001 -- the user's code
            line = where(e)
            raised = type(e).__name__ + (f": {e}" if str(e) else "")
            return [], f"it raised {raised}{at}{f' (at {line})' if line else ''}."
    return values, ""


def _function(path: str, folder: str) -> Callable[..., Any]:
    if folder and folder not in sys.path:
        sys.path.insert(0, folder)
    if path.rpartition(":")[0].endswith(".py"):
        path = os.path.join(folder, path)  # an absolute one stays as it is
    function = attribute(find(path), "function")
    if not callable(function):
        raise UsageError(f"it is no function, but of type {type(function).__name__}.")
    return function


def _extras(function: Callable[..., Any], run_dir: str) -> dict[str, Any]:
    return {"run_dir": Path(run_dir)} if "run_dir" in inspect.signature(function).parameters else {}


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


def _by_item(results: Sequence[EpisodeResult]) -> list[list[EpisodeResult]]:
    items: defaultdict[str, list[EpisodeResult]] = defaultdict(list)
    for r in results:
        items[r.item_id].append(r)
    return list(items.values())


def _named(name: str, returned: Any) -> Iterator[tuple[str, float]]:
    """``function`` for a number, ``function/key`` for those of a dict; None is left out."""
    pairs = {f"{name}/{k}": v for k, v in returned.items()} if isinstance(returned, Mapping) else {name: returned}
    for full, value in pairs.items():
        if value is None:
            continue
        number = float(value)
        if not math.isfinite(number):
            raise ValueError(f"{full} is {number}, return None where it is undefined")
        yield full, number
