"""Which keys there are: the shape of our sections, and the nearest known name to one that is unknown."""

from __future__ import annotations

import difflib
import types
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Union, get_args, get_origin

from agentflow.config.areal_names import AREAL, Names
from agentflow.config.fields import Section
from agentflow.config.model import Config

CLOSE = 0.8  # a top-level name this like a known one is taken for a slip, not for a section of somebody's own


@dataclass(frozen=True)
class Shape:
    """What a value is: a section, a list or a table of ``section``, or a leaf; ``text`` is whether its scalars are."""

    kind: str  # section, list, table, leaf
    section: type[Section] | None = None
    text: bool = False


def shape(annotation: Any) -> Shape:
    """The shape of a field, from its type."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return shape(get_args(annotation)[0])
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return Shape("section", annotation)
    if origin in (Union, types.UnionType):
        members = [a for a in get_args(annotation) if a is not type(None)]
        return shape(members[0]) if len(members) == 1 else Shape("leaf")
    if origin is tuple:
        inner = shape(get_args(annotation)[0])
        return Shape("list", inner.section) if inner.section else Shape("leaf", text=inner.text)
    if origin is dict:
        inner = shape(get_args(annotation)[1])
        return Shape("table", inner.section) if inner.section else Shape("leaf", text=inner.text)
    return Shape("leaf", text=annotation is str)


def fields(section: type[Section]) -> Mapping[str, Shape]:
    """The shape of every field of a section."""
    return {name: shape(info.annotation) for name, info in section.model_fields.items()}


def leaves(section: type[Section] = Config, path: str = "") -> Iterable[str]:
    """Every key of the configuration, dotted."""
    for name, one in fields(section).items():
        key = f"{path}{name}"
        if one.kind == "section" and one.section is not None:
            yield from leaves(one.section, f"{key}.")
        else:
            yield key


def top_level() -> set[str]:
    """Known names at the top level: ours and AReaL's."""
    return {*Config.model_fields, *AREAL}


def nearest(name: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The known name that is most like this one, if one is."""
    return next(iter(difflib.get_close_matches(name, list(known), n=1, cutoff=cutoff)), None)


def advice(key: str, known: Iterable[str]) -> str:
    """What to do about an unknown key: the nearest name beside it, else the same name in another section."""
    section, _, name = key.rpartition(".")
    if near := nearest(name, known):
        return f"did you mean '{section}.{near}'?" if section else f"did you mean '{near}'?"
    elsewhere = [k for k in leaves() if k.rpartition(".")[2] == name]
    if elsewhere:
        return f"did you mean '{elsewhere[0]}'?"
    return "docs/configuration.md lists every key."


def areal_below(names: Names | None, name: str) -> Names | None:
    """AReaL's names one level down; None where everything is open or nothing is known."""
    return None if names is None else names.get(name)


def section_class(one: Shape | None) -> type[Section] | None:
    """The section that a value is, or that its items are."""
    return None if one is None else one.section
