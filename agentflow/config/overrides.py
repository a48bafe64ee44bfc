"""``key=value`` on the command line: parsed, and typed by what the key takes."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import yaml
from omegaconf import DictConfig, ListConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from agentflow.config.areal_names import AREAL, Names
from agentflow.config.fields import Section
from agentflow.config.model import Config
from agentflow.config.names import Shape, advice, areal_below, fields, section_class
from agentflow.config.secrets import masked
from agentflow.errors import ConfigError

_KEY = re.compile(r"[A-Za-z_][\w-]*(?:\.[\w-]+|\[\d+\])*")
_NOT_A_NUMBER = re.compile(r"[-+]?0\d+|\d+(?::\d+)+")  # YAML 1.1 reads 010 as 8 and 1:30 as 90; nobody means that
OPTIONS = {"data": "--data FILE", "tools": "--tools FILE.py", "config": "--config FILE.yaml"}  # that are no keys
_NULL = ("", "~", "null", "Null", "NULL")


@dataclass(frozen=True)
class Override:
    """One setting: the key with indices as in ``scheduling_spec[0].cpu``, and its value."""

    key: str
    value: Any


def parse(argument: str) -> Override:
    """Read one ``key=value``. Raises ConfigError, one sentence."""
    key, sign, text = argument.partition("=")
    key = key.strip()
    if not sign:
        raise ConfigError(f"'{masked(argument)}' sets nothing; write key=value, for instance gconfig.temperature=0.")
    if key.startswith("~"):
        raise ConfigError(f"'{key}=' would remove a key; write '{key[1:]}=' to set it back to its default.")
    key = key.lstrip("+") if re.match(r"\+{1,2}[^+]", key) else key  # Hydra's signs for keys that the file lacks
    if not key:
        raise ConfigError(f"'{masked(argument)}' has no key before '='; write key=value.")
    if not _KEY.fullmatch(key):
        raise ConfigError(f"'{key}' is no key; keys are words joined by dots, for instance rollout.backend.")
    key = re.sub(r"\.(\d+)(?=\.|\[|$)", r"[\1]", key)
    return Override(key, _value(key, text.strip(), _target(key)))


def _value(key: str, text: str, target: Shape) -> Any:
    if text in _NULL:
        return None
    if target.kind == "leaf" and target.text and text[0] not in "\"'[{":
        return text
    if target.kind == "leaf" and _NOT_A_NUMBER.fullmatch(text):
        return text
    try:
        value = OmegaConf.to_container(OmegaConf.from_dotlist([f"v={text}"]), resolve=False)["v"]  # type: ignore[index, call-overload]
    except (yaml.YAMLError, OmegaConfBaseException, ValueError) as error:
        problem = getattr(error, "problem", None) or str(error).splitlines()[0].rstrip(".")
        raise ConfigError(f"The value of {key}= is not YAML: {problem}; put it in quotes.") from error
    plain = text[0] not in "\"'"
    if (value is None or isinstance(value, str)) and plain:
        return text  # YAML would cut it at a '#'
    return text if target.text and not isinstance(value, str | list | dict) else value


def _target(key: str) -> Shape:
    """What the key takes: text stays text, whatever YAML would make of it."""
    section: type[Section] = Config
    names = key.split(".")
    for i, name in enumerate(names):
        one = fields(section).get(name.split("[")[0])
        if one is None:
            return Shape("leaf")
        if one.section is None or i == len(names) - 1:
            return one
        if one.kind == "table":
            return _target_in_table(one, names[i + 1 :])
        section = one.section
    return Shape("leaf")


def _target_in_table(table: Shape, names: list[str]) -> Shape:
    section = table.section
    for name in names[1:]:
        one = fields(section).get(name) if section else None
        if one is None:
            return Shape("leaf")
        section, table = one.section, one
    return table if len(names) > 1 else Shape("section", section)


def check_known(override: Override, tree: DictConfig) -> None:
    """Refuse a key that neither we nor AReaL have; what the file itself has beside them may be set."""
    section: type[Section] | None = Config
    areal: Names | None = AREAL
    path = ""
    names = [n.split("[")[0] for n in override.key.split(".")]
    if names[0] in tree and names[0] not in Config.model_fields and names[0] not in AREAL:
        return
    for name in names:
        ours = fields(section) if section else {}
        known = {*ours, *(areal or {})}
        path = f"{path}.{name}" if path else name
        if path in OPTIONS and name not in known:
            raise ConfigError(f"'{path}' is no key but an option: give {OPTIONS[path]}.")
        if name not in known:
            raise ConfigError(f"Unknown key '{path}' on the command line: {advice(path, known)}")
        one = ours.get(name)
        areal = areal_below(areal, name)
        if one is not None and one.kind == "table":
            return
        section = section_class(one)
        if section is None and areal is None:
            return


def apply(tree: DictConfig, override: Override) -> None:
    """Set the value in the tree, making the sections and list items on the way that it lacks."""
    steps = [int(i) if i else name for name, i in re.findall(r"([\w-]+)|\[(\d+)\]", override.key)]
    try:
        path = ""
        for step, following in itertools.pairwise(steps):
            path += f"[{step}]" if isinstance(step, int) else f".{step}" if path else step
            if OmegaConf.select(tree, path) is None:
                OmegaConf.update(tree, path, [] if isinstance(following, int) else {}, force_add=True)
            if isinstance(following, int):
                _make_room(OmegaConf.select(tree, path), following)
        OmegaConf.update(tree, override.key, override.value, merge=True, force_add=True)
    except (OmegaConfBaseException, IndexError, TypeError, ValueError) as error:
        raise ConfigError(f"{override.key}= cannot be set: {str(error).splitlines()[0].rstrip('.')}.") from error


def _make_room(items: Any, index: int) -> None:
    """The next item of a list may be set; items beyond may not."""
    if not isinstance(items, ListConfig):
        raise ValueError("there is no list at this place")
    if index > len(items):
        raise IndexError(f"the list has {len(items)} items, and this would be number {index + 1}")
    if index == len(items):
        items.append(None)


def set_names(value: Any, key: str) -> Iterator[str]:
    """The keys that an override sets, with those inside a mapping."""
    yield key
    if isinstance(value, Mapping):
        for name, below in value.items():
            yield from set_names(below, f"{key}.{name}")
