"""Defaults, a stored configuration, a file and overrides make a :class:`Config`; what is set aside makes notes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from agentflow.config import complaints
from agentflow.config.areal import inference_part
from agentflow.config.model import Config
from agentflow.config.secrets import masked, remove_marks
from agentflow.errors import AllocationError, ConfigError

if TYPE_CHECKING:
    from agentflow.config.reading import Reading

COMMAND_LINE = "on the command line"


def load_config(
    path: Path | None,
    overrides: Sequence[str] = (),
    *,
    base: Mapping[str, Any] | None = None,
    options: Mapping[str, str] | None = None,
) -> tuple[Config, list[str]]:
    """Load the configuration of a run.

    Args:
        path: a YAML file, of ours or of AReaL's; None: defaults only.
        overrides: ``key=value``, the strongest; Hydra's ``+key=value`` is taken as well.
        options: of the keys among ``overrides`` that the user gave by another name: that name, for messages.
        base: the weakest: what :meth:`Config.public` gave, from a run's manifest.

    Returns:
        The configuration, and notes for the user, one line each: keys that were ignored or dropped, and why.

    Raises:
        ConfigError: one sentence: what is wrong, in which file and line, and what to do. Holds no secret.
    """
    from omegaconf import DictConfig, OmegaConf

    from agentflow.config import overrides as command_line
    from agentflow.config import yaml_source
    from agentflow.config.reading import TreeReader

    stored, gone = remove_marks(dict(base or {}))
    notes = [f"Secrets are not stored; set again what is still needed: {', '.join(gone)}."] if gone else []
    source = yaml_source.read(path) if path is not None else yaml_source.Source(OmegaConf.create({}))
    tree = OmegaConf.merge(OmegaConf.create(stored), source.tree)
    assert isinstance(tree, DictConfig)

    given = [command_line.parse(argument) for argument in overrides]
    for override in given:
        command_line.check_known(override, tree)
    for override in given:
        command_line.apply(tree, override)
    said = {name for o in given for name in command_line.set_names(o.value, o.key)}
    texts = {k: v for k, v in source.texts.items() if not _below(k, said)}
    places = {**source.places, **dict.fromkeys(said, COMMAND_LINE)}

    def where(key: str) -> str:
        place = complaints.place_of(key, places)
        return f" {place}" if place == COMMAND_LINE else f" in {place}" if place else ""

    keys = [o.key for o in given]
    typed = {key: name for key, name in (options or {}).items() if keys.count(key) == 1}  # else key=value wins

    reading = TreeReader(tree, where, texts).read()
    notes += _choose_data(reading.data)
    notes += _choose_generation(reading.data, said)
    notes += _choose_workers(reading, source.places, said)
    notes += _aside(reading)
    config = _validated(reading.data, where, typed)
    return config, [*notes, *_remarks(config)]


def _below(key: str, names: Iterable[str]) -> bool:
    return any(key == n or key.startswith((f"{n}.", f"{n}[")) for n in names)


def _choose_data(data: dict[str, Any]) -> list[str]:
    """AReaL's loaders may take several paths at once; one data set is evaluated at a time."""
    dataset = data.get("valid_dataset")
    if not isinstance(dataset, dict) or not isinstance(dataset.get("path"), list):
        return []
    paths = dataset.pop("path")
    if len(paths) == 1:
        dataset["path"] = paths[0]
        return []
    return ["Dropped valid_dataset.path: it names several data sets, and one is evaluated at a time."]


def _choose_generation(data: dict[str, Any], said: set[str]) -> list[str]:
    """What the command line says of gconfig also holds where eval_gconfig replaces it."""
    evaluation, sampling = data.get("eval_gconfig"), data.get("gconfig")
    if not isinstance(evaluation, dict) or not isinstance(sampling, dict):
        return []
    names = [n.removeprefix("gconfig.") for n in sorted(said) if n.startswith("gconfig.")]
    names = [n for n in names if n in sampling and f"eval_gconfig.{n}" not in said]
    evaluation.update({n: sampling[n] for n in names})
    keys = ", ".join(f"gconfig.{n}" for n in names)
    return [f"{keys} was given on the command line and is set in eval_gconfig, which wins, too."] if names else []


def _choose_workers(reading: Reading, in_file: Mapping[str, str], said: set[str]) -> list[str]:
    """Take workers from AReaL's old keys, and let the stronger of base_url and rollout.backend win."""
    data, notes = reading.data, []
    rollout = data["rollout"] = data.get("rollout") or {}
    if not isinstance(rollout, dict):
        return []
    if reading.old_agent is not None and rollout.get("agent") is None:
        rollout["agent"] = reading.old_agent
    mode = reading.old_workers
    if mode and rollout.get("backend") is None and not data.get("base_url"):
        part = inference_part(mode)
        if part is None:
            notes.append(f"allocation_mode '{mode}' has no part for inference; set rollout.backend.")
        else:
            rollout["backend"] = part
            notes.append(f"rollout.backend is {part}, the inference part of allocation_mode '{mode}'.")
    if data.get("base_url") and rollout.get("backend") is not None:
        urls, backend = _strength("base_url", in_file, said), _strength("rollout.backend", in_file, said)
        if urls > backend:
            del rollout["backend"]
            notes.append("base_url wins over the weaker rollout.backend: no workers are started.")
        elif backend > urls:
            del data["base_url"]
            notes.append("rollout.backend wins over the weaker base_url: workers are started.")
    return notes


def _strength(key: str, in_file: Mapping[str, str], said: set[str]) -> int:
    return 2 if _below(key, said) or key in said else 1 if key in in_file else 0


def _aside(reading: Reading) -> list[str]:
    notes = []
    ignored = []
    if reading.training:
        ignored.append(f"for training only: {_grouped(reading.training)}")
    if reading.own:
        ignored.append(f"keys of your own: {', '.join(sorted(reading.own))}")
    if ignored:
        notes.append(f"Ignored, {'; '.join(ignored)}.")
    for reason, keys in reading.dropped.items():
        notes.append(f"Dropped {', '.join(keys)}: {reason}.")
    return notes


def _grouped(keys: Iterable[str]) -> str:
    """``actor.{adv_norm, backend}, ref``: keys of one section together."""
    sections: dict[str, list[str]] = {}
    for key in keys:
        section, _, name = key.rpartition(".")
        sections.setdefault(section, []).append(name)
    parts = []
    for section, names in sorted(sections.items()):
        joined = ", ".join(sorted(names))
        parts.append(joined if not section else f"{section}.{joined}" if len(names) == 1 else f"{section}.{{{joined}}}")
    return ", ".join(parts)


def _validated(data: dict[str, Any], where: Callable[[str], str], options: Mapping[str, str]) -> Config:
    try:
        return Config.model_validate(data)
    except AllocationError as error:
        name = complaints.named("rollout.backend", where, options)
        raise AllocationError(f"{name}: {masked(str(error))}") from None
    except ValidationError as error:
        raise ConfigError(complaints.sentence(error, where, data, options)) from None


def _remarks(config: Config) -> list[str]:
    """What loads, but may not be what is meant."""
    notes = []
    allocation = config.allocation
    named = {"sglang": config.sglang.model_path, "vllm": config.vllm.model}
    other = named.get(allocation.engine) if allocation else None
    if allocation and other and config.checkpoint != other and config.model is None:
        notes.append(
            f"{allocation.engine} names the checkpoint {other}, actor.path {config.checkpoint}: actor.path is "
            "evaluated; set model=... to choose."
        )
    lora = config.rollout.use_lora or config.actor.use_lora
    if lora and allocation and not config.sglang.lora_paths and not config.vllm.lora_modules:
        key = "vllm.lora_modules" if allocation.engine == "vllm" else "sglang.lora_paths"
        notes.append(f"use_lora is set, but no adapter is named: the base model is evaluated; set {key}=[name=path].")
    return notes
