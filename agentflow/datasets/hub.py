"""Data sets of the Hugging Face hub, through the ``datasets`` library (extra ``hub``), which caches what it loads."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agentflow.datasets.base import Row, Rows, See
from agentflow.datasets.identity import canonical
from agentflow.errors import DataError, MissingExtraError

_NAME = re.compile(r"(?P<name>[\w.-]+(?:/[\w.-]+){0,2})(?::(?P<split>[\w.\[\]:%+-]+))?")
_SPLITS = ("test", "validation", "train")  # the split to evaluate on, where the user names none


@dataclass(frozen=True)
class HubName:
    """A data set on the hub: ``path`` is ``org/name``; ``config`` and ``split`` None where the set has only one."""

    path: str
    config: str | None = None
    split: str | None = None

    def __str__(self) -> str:
        return self.path + (f"/{self.config}" if self.config else "") + (f":{self.split}" if self.split else "")


SHORT_NAMES = {
    "gsm8k": HubName("openai/gsm8k", "main", "test"),
    "math500": HubName("HuggingFaceH4/MATH-500", None, "test"),
    "aime24": HubName("HuggingFaceH4/aime_2024", None, "train"),
    "aime25": HubName("math-ai/aime25", None, "test"),
}
_DEFAULT_CONFIGS = {name.path: name.config for name in SHORT_NAMES.values() if name.config}


def hub_name(source: str) -> HubName | None:
    """Read ``gsm8k``, ``org/name``, ``org/name:split`` or ``org/name/config:split``; None if it is none of these."""
    match = _NAME.fullmatch(source)
    if match is None:
        return None
    name, split = match["name"], match["split"]
    short = SHORT_NAMES.get(name)
    if short is not None:
        return HubName(short.path, short.config, split or short.split)
    org, *rest = name.split("/")
    if not rest:
        return None
    path = f"{org}/{rest[0]}"
    return HubName(path, rest[1] if len(rest) > 1 else _DEFAULT_CONFIGS.get(path), split)


class HubRows:
    """Rows of a ``datasets.Dataset``: Arrow files mapped from its cache."""

    def __init__(self, table: Any, fingerprint: str) -> None:
        self._table = table
        self.fingerprint = fingerprint

    def __len__(self) -> int:
        return len(self._table)

    def row(self, index: int) -> Row:
        """The row at ``index``."""
        return dict(self._table[index])


def read_hub(name: HubName, see: See) -> Rows:
    """Load a data set, from the cache where it is there.

    Raises:
        MissingExtraError: ``datasets`` is not installed.
        DataError: the hub cannot be reached and the set is not cached, or it has no such set, config or split.
    """
    table = _load(name)
    digest = hashlib.sha256()
    for number, given in enumerate(table, 1):
        row = dict(given)
        see(row, number)
        digest.update(canonical(row) + b"\n")
    return HubRows(table, digest.hexdigest())


def _load(name: HubName) -> Any:
    try:
        import datasets
    except ImportError as e:
        raise MissingExtraError(f"Loading {name} from the Hugging Face hub", "hub") from e
    try:
        loaded = datasets.load_dataset(name.path, name.config, split=name.split)
    except ValueError as e:  # an unknown config or split; the library's sentence lists those there are
        raise DataError(f"{name} cannot be loaded from the Hugging Face hub: {_first_line(e)}") from e
    except datasets.exceptions.DatasetNotFoundError as e:
        raise DataError(
            f"{name} is neither a file here nor a data set on the Hugging Face hub that can be read with this "
            f"machine's credentials: {_first_line(e)}"
        ) from e
    except (OSError, RuntimeError) as e:
        raise DataError(
            f"{name} is no file here and not in the cache, and the Hugging Face hub cannot be reached "
            f"({_first_line(e)}): give a local file instead, such as --data test.jsonl, or load it once where there "
            f"is a network and take the cache folder (HF_HOME) along."
        ) from e
    return loaded if name.split is not None else _evaluation_split(name, loaded)


def _evaluation_split(name: HubName, loaded: Mapping[str, Any]) -> Any:
    for split in _SPLITS:
        if split in loaded:
            return loaded[split]
    if len(loaded) == 1:
        return next(iter(loaded.values()))
    raise DataError(f"{name} has the splits {', '.join(loaded)}: name one, as in {name}:{next(iter(loaded))}.")


def _first_line(error: Exception) -> str:
    return (str(error).strip() or repr(error)).splitlines()[0]
