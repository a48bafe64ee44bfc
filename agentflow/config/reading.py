"""From the merged tree to plain data of our own keys: names checked, AReaL's others set aside, the rest resolved."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from omegaconf import DictConfig, ListConfig, OmegaConf
from omegaconf.errors import (
    InterpolationKeyError,
    InterpolationResolutionError,
    MissingMandatoryValue,
    OmegaConfBaseException,
    UnsupportedInterpolationType,
)

from agentflow.config.areal import reason_to_drop, wanted
from agentflow.config.areal_names import AREAL, Names
from agentflow.config.fields import Section
from agentflow.config.model import Config
from agentflow.config.names import CLOSE, Shape, advice, areal_below, fields, nearest, top_level
from agentflow.config.rollout import AgentConfig
from agentflow.config.secrets import masked
from agentflow.errors import ConfigError

Where = Callable[[str], str]


@dataclass
class Reading:
    """What came out of the tree.

    Args:
        data: our own keys, resolved.
        training: AReaL's keys that only concern training.
        own: top-level keys that are neither ours nor AReaL's.
        dropped: keys of AReaL's by the reason why they are dropped.
        old_agent: AReaL's ``rollout.openai``, as ``rollout.agent`` was called before.
        old_workers: AReaL's ``allocation_mode``, as workers were asked for before ``rollout.backend``.
    """

    data: dict[str, Any] = field(default_factory=dict)
    training: list[str] = field(default_factory=list)
    own: list[str] = field(default_factory=list)
    dropped: dict[str, list[str]] = field(default_factory=dict)
    old_agent: dict[str, Any] | None = None
    old_workers: str | None = None


class TreeReader:
    """Reads one tree. ``where`` tells the place of a key for messages; ``texts`` how its scalar is written."""

    def __init__(self, tree: DictConfig, where: Where, texts: Mapping[str, str]) -> None:
        self._tree = tree
        self._where = where
        self._texts = texts
        self._out = Reading()

    def read(self) -> Reading:
        """Raises ConfigError at the first unknown key or value that cannot be resolved."""
        self._out.data = self._section(self._tree, Config, AREAL, "")
        return self._out

    def _section(self, node: DictConfig, section: type[Section], areal: Names, path: str) -> dict[str, Any]:
        data: dict[str, Any] = {}
        shapes = fields(section)
        for raw in node:
            name = str(raw)
            key = f"{path}.{name}" if path else name
            if name in shapes:
                data[name] = self._ours(node, name, shapes[name], areal_below(areal, name) or {}, key)
            elif key == "rollout.openai":
                agent = Shape("section", AgentConfig)
                self._out.old_agent = self._ours(node, name, agent, areal[name] or {}, key)
            elif key == "allocation_mode":
                self._out.old_workers = str(self._value(node, name, key) or "")
            elif name in areal:
                self._areals(node, name, areal[name], key)
            elif not path and name.partition(".")[0] in top_level():
                raise self._dotted(name)
            elif not path and nearest(name, top_level(), CLOSE) is None:
                self._out.own.append(name)
            else:
                raise self._unknown(key, {*shapes, *areal})
        return data

    def _ours(self, node: DictConfig | ListConfig, name: str | int, one: Shape, areal: Names, key: str) -> Any:
        value = self._value(node, name, key)
        section = one.section
        if value is None:
            return None
        if section is None:
            if areal and isinstance(value, DictConfig):
                self._check(value, areal, key)
            return self._leaf(value, one, key)
        if isinstance(value, DictConfig) and one.kind == "table":
            item = Shape("section", section)
            return {k: self._ours(value, k, item, {}, f"{key}.{k}") for k in map(str, value)}
        if isinstance(value, DictConfig):
            return self._section(value, section, areal, key)
        if isinstance(value, ListConfig) and one.kind == "list":
            item = Shape("section", section)
            return [self._ours(value, i, item, areal, f"{key}[{i}]") for i in range(len(value))]
        return self._plain(value, key)

    def _areals(self, node: DictConfig, name: str, areal: Names | None, key: str) -> None:
        """A key of AReaL's that is not ours: its own names are checked, it is not resolved, and it goes."""
        if areal and not OmegaConf.is_interpolation(node, name) and not OmegaConf.is_missing(node, name):
            self._check(node[name], areal, key)
        reason = reason_to_drop(key)
        if reason is None:
            self._out.training.append(key)
        elif wanted(name) != self._truth(node, name):
            self._out.dropped.setdefault(reason, []).append(key)

    def _check(self, value: Any, areal: Names, path: str) -> None:
        items = list(value) if isinstance(value, ListConfig) else [value]
        for item in items:
            if not isinstance(item, DictConfig):
                continue
            for raw in item:
                name = str(raw)
                if name not in areal:
                    raise self._unknown(f"{path}.{name}", set(areal))
                below = areal[name]
                if below and not OmegaConf.is_interpolation(item, name) and not OmegaConf.is_missing(item, name):
                    self._check(item[name], below, f"{path}.{name}")

    def _truth(self, node: DictConfig, name: str) -> bool:
        try:
            return bool(node[name])
        except OmegaConfBaseException:
            return not wanted(name)  # something is asked for, whatever it would be

    def _leaf(self, value: Any, one: Shape, key: str) -> Any:
        plain = self._plain(value, key)
        return self._as_written(plain, key) if one.text else plain

    def _as_written(self, value: Any, key: str) -> Any:
        if isinstance(value, dict):
            return {k: self._as_written(v, f"{key}.{k}") for k, v in value.items()}
        if isinstance(value, list):
            return [self._as_written(v, f"{key}[{i}]") for i, v in enumerate(value)]
        text = self._texts.get(key, "$")
        return value if value is None or isinstance(value, str) or text.startswith("$") else text

    def _value(self, node: DictConfig | ListConfig, name: str | int, key: str) -> Any:
        try:
            return node[name]  # type: ignore[index]
        except OmegaConfBaseException as error:
            raise self._unresolved(error, key) from error

    def _plain(self, value: Any, key: str) -> Any:
        if not isinstance(value, DictConfig | ListConfig):
            return value
        try:
            return OmegaConf.to_container(value, resolve=True, throw_on_missing=True)
        except OmegaConfBaseException as error:
            raise self._unresolved(error, key) from error

    def _unknown(self, key: str, known: set[str]) -> ConfigError:
        return ConfigError(f"Unknown key '{key}'{self._where(key)}: {advice(key, known)}")

    def _dotted(self, name: str) -> ConfigError:
        section, _, below = name.partition(".")
        return ConfigError(f"Unknown key '{name}'{self._where(name)}: in a file, write '{below}' below '{section}:'.")

    def _unresolved(self, error: OmegaConfBaseException, key: str) -> ConfigError:
        key = (error.full_key or key) if error.full_key and error.full_key.startswith(key) else key
        place = f"{key}{self._where(key)}"
        problem = (masked(str(error.msg or error)).strip().splitlines() or ["it cannot be resolved"])[0].rstrip(".")
        if isinstance(error, MissingMandatoryValue):
            return ConfigError(f"{place} is '???', which asks for a value: add {key}=value.")
        if isinstance(error, InterpolationKeyError):
            return ConfigError(f"{place} points to a key that is not there ({problem}); a literal ${{ is \\${{.")
        if isinstance(error, UnsupportedInterpolationType):
            return ConfigError(f"{place} uses a resolver that does not exist ({problem}); set {key}=value.")
        if isinstance(error, InterpolationResolutionError):
            return ConfigError(f"{place} cannot be resolved: {problem}; set {key}=value.")
        return ConfigError(f"{place} cannot be read: {problem}.")
