"""A configuration file: read, checked as YAML, with the line of every key. Hydra's ``defaults`` list is followed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from agentflow.config.secrets import masked
from agentflow.errors import ConfigError

MAX_DEPTH = 100  # nested deeper than this is an alias that holds itself


@dataclass(frozen=True)
class Source:
    """What a file says.

    Args:
        tree: its content; interpolations are not resolved yet.
        places: ``FILE line N`` by key, with list indices as in ``rollout.scheduling_spec[0].cpu``.
        texts: plain scalars as they are written, by key: YAML reads ``1:00:00`` as a number, a text field does not.
    """

    tree: DictConfig
    places: Mapping[str, str] = field(default_factory=dict)
    texts: Mapping[str, str] = field(default_factory=dict)


def read(path: Path) -> Source:
    """Read a YAML file. Raises ConfigError, one sentence with file and line."""
    return _read(path, ())


def _read(path: Path, opened_by: tuple[Path, ...]) -> Source:
    if path.resolve() in opened_by:
        raise ConfigError(f"{path}: its defaults list leads back to itself.")
    text = _decoded(path)
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        raise ConfigError(_syntax(path, error)) from error
    except RecursionError as error:
        raise ConfigError(f"{path}: it is nested too deeply to be a configuration.") from error
    if node is None:
        raise ConfigError(f"{path}: the file is empty; a configuration is a mapping such as 'seed: 1'.")
    if not isinstance(node, yaml.MappingNode):
        line = node.start_mark.line + 1
        raise ConfigError(f"{path} line {line}: a configuration is a mapping such as 'seed: 1', not {_kind(node)}.")
    places: dict[str, str] = {}
    texts: dict[str, str] = {}
    _walk(path, node, "", places, texts, 0)
    try:
        tree = OmegaConf.create(text)
    except (OmegaConfBaseException, yaml.YAMLError, ValueError) as error:
        raise ConfigError(_content(path, error, places)) from error
    assert isinstance(tree, DictConfig)
    source = Source(tree, places, texts)
    return _with_defaults(path, source, opened_by) if "defaults" in tree else source


def _decoded(path: Path) -> str:
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        raise ConfigError(f"{path}: there is no such configuration file.") from None
    except IsADirectoryError:
        raise ConfigError(f"{path} is a folder; give the YAML file in it.") from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}.") from error
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{path} line {line}: the file is not UTF-8; save it as UTF-8.") from None


def _syntax(path: Path, error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or _first_line(error)
    where = f"{path} line {mark.line + 1}" if mark else str(path)
    if "'\\t'" in problem:
        return f"{where}: a tab is used for indentation; YAML takes spaces only."
    return f"{where}: this is not YAML: {problem}."


def _content(path: Path, error: Exception, places: Mapping[str, str]) -> str:
    key = getattr(error, "full_key", None) or ""
    place = f"{key} in {places[key]}" if key in places else str(path)
    advice = "; a literal ${ is written \\${" if "input '${" in str(error) else ""
    return f"{place}: {masked(_first_line(error))}{advice}."


def _kind(node: yaml.Node) -> str:
    return "a list" if isinstance(node, yaml.SequenceNode) else "a single value"


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")


def _walk(path: Path, node: yaml.Node, key: str, places: dict[str, str], texts: dict[str, str], depth: int) -> None:
    if depth > MAX_DEPTH:
        raise ConfigError(f"{path}: '{key.split('.')[0]}' holds itself, through an alias.")
    if isinstance(node, yaml.MappingNode):
        seen: dict[str, int] = {}
        for name, value in node.value:
            line = name.start_mark.line + 1
            if not isinstance(name, yaml.ScalarNode):
                raise ConfigError(f"{path} line {line}: a key must be a single word, not {_kind(name)}.")
            if name.tag == "tag:yaml.org,2002:merge":  # `<<: *anchor` may stand beside keys that it holds
                continue
            child = f"{key}.{name.value}" if key else name.value
            if name.value in seen:
                raise ConfigError(f"{path} line {line}: '{child}' is set a second time; see line {seen[name.value]}.")
            seen[name.value] = line
            places[child] = f"{path} line {line}"
            _walk(path, value, child, places, texts, depth + 1)
    elif isinstance(node, yaml.SequenceNode):
        for i, value in enumerate(node.value):
            places[f"{key}[{i}]"] = f"{path} line {value.start_mark.line + 1}"
            _walk(path, value, f"{key}[{i}]", places, texts, depth + 1)
    elif isinstance(node, yaml.ScalarNode) and node.style is None:
        texts[key] = node.value


def _with_defaults(path: Path, own: Source, opened_by: tuple[Path, ...]) -> Source:
    """Merge the files of a Hydra ``defaults`` list, in its order; the file itself is last unless it says ``_self_``."""
    entries = OmegaConf.to_container(own.tree, resolve=False)["defaults"]  # type: ignore[index, call-overload]
    where = own.places["defaults"]
    if not isinstance(entries, Sequence) or isinstance(entries, str):
        raise ConfigError(f"{where}: 'defaults' is Hydra's list of files to build upon, and must be a list.")
    content = {k: v for k, v in own.tree.items_ex(resolve=False) if k != "defaults"}
    own = Source(OmegaConf.create(content), own.places, own.texts)
    parts: list[Source] = []
    for entry in [*entries, *([] if "_self_" in entries else ["_self_"])]:
        parts.append(own if entry == "_self_" else _read(_default(path, entry, where), (*opened_by, path.resolve())))
    tree = OmegaConf.merge(*(p.tree for p in parts))
    assert isinstance(tree, DictConfig)
    places = {k: v for p in parts for k, v in p.places.items()}
    return Source(tree, places, {k: v for p in parts for k, v in p.texts.items()})


def _default(path: Path, entry: Any, where: str) -> Path:
    if not isinstance(entry, str):
        raise ConfigError(f"{where}: of Hydra's defaults only file names are followed, not {entry!r}.")
    name, _, package = entry.partition("@")
    if package not in ("", "_global_"):
        raise ConfigError(f"{where}: '{entry}' places a file under '{package}'; only '@_global_' is followed.")
    file = path.parent / (name if name.endswith((".yaml", ".yml")) else f"{name}.yaml")
    if not file.is_file():
        raise ConfigError(f"{where}: '{entry}' in the defaults list is the file {file}, which does not exist.")
    return file
