"""The tables of docs/configuration.md; ``python -m agentflow.config.reference FILE`` renews them from the code."""

from __future__ import annotations

import re
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic.fields import FieldInfo

from agentflow.config.areal import DROPPED, reason_to_drop
from agentflow.config.areal_names import AREAL, Names
from agentflow.config.fields import Section
from agentflow.config.model import Config
from agentflow.config.names import Shape, fields

_BLOCK = re.compile(r"(<!-- (keys|areal-ignored|areal-dropped) -->\n).*?(<!-- end -->)", re.DOTALL)
_WORDS = {int: "whole number", float: "number", str: "text", bool: "true or false", type(None): "null"}


def renewed(page: str) -> str:
    """The page with its tables as the code has them now."""
    tables = {"keys": keys_table, "areal-ignored": ignored_table, "areal-dropped": dropped_table}
    return _BLOCK.sub(lambda m: m[1] + tables[m[2]]() + m[3], page)


def keys_table() -> str:
    """Every key: type, default, whether AReaL has it, meaning."""
    rows = [f"| `{k}` | {t} | {d} | {a} | {m} |" for k, t, d, a, m in _rows(Config, AREAL, "")]
    return "\n".join(["| key | type | default | AReaL's | meaning |", "|---|---|---|---|---|", *rows, ""])


def ignored_table() -> str:
    """AReaL's keys that only concern training, by section."""
    whole, partly = [], []
    for name, below in AREAL.items():
        one = fields(Config).get(name)
        if one is None:
            if name != "allocation_mode":
                whole.append(name)
        elif one.section is not None and below:
            partly += list(_ignored(one.section, below, name))
    lines = ["| section | keys that are ignored |", "|---|---|"]
    lines.append(f"| top level | {', '.join(f'`{n}`' for n in sorted(whole))} |")
    return "\n".join([*lines, *partly, ""])


def dropped_table() -> str:
    """Keys that are dropped, with why."""
    rows = [f"| `{key}` | {why} |" for key, why in sorted(DROPPED.items())]
    return "\n".join(["| key | why |", "|---|---|", *rows, ""])


def _rows(section: type[Section], areal: Names, path: str) -> Iterator[tuple[str, str, str, str, str]]:
    for name, info in section.model_fields.items():
        one, key = fields(section)[name], f"{path}{name}"
        below = areal.get(name) or {}
        if one.section is not None and name != "eval_gconfig":
            if one.kind != "section":
                yield key, _kind_words(one), "none", _yes(name in areal), info.description or ""
                key += "[]" if one.kind == "list" else ".NAME"
            if path or name != "actor" or one.kind == "section":
                yield from () if key == "actor.scheduling_spec[]" else _rows(one.section, below, f"{key}.")
        else:
            yield key, _type_words(info), _default(info), _yes(name in areal), info.description or ""


def _kind_words(one: Shape) -> str:
    return "list of sections" if one.kind == "list" else "sections by name"


def _yes(value: bool) -> str:
    return "yes" if value else ""


def _type_words(info: FieldInfo) -> str:
    if any(get_origin(a) is Union or isinstance(a, types.UnionType) for a in (info.annotation,)):
        return " or ".join(_words(a) for a in get_args(info.annotation) if a is not type(None))
    return _words(info.annotation)


def _words(annotation: Any) -> str:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _words(arguments[0])
    if origin is Literal:
        return ", ".join(f"`{a}`" for a in arguments)
    if origin is tuple:
        return f"list of {_words(arguments[0])}" if arguments[-1] is Ellipsis else "two numbers"
    if origin is dict:
        return "mapping"
    if origin in (Union, types.UnionType):
        return " or ".join(_words(a) for a in arguments)
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return "section, as gconfig"
    return _WORDS.get(annotation, "any")


def _default(info: FieldInfo) -> str:
    if info.is_required():
        return "required"
    value = info.get_default(call_default_factory=True)
    if value is None or value == () or value == {}:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    return f"`{list(value)}`" if isinstance(value, tuple) else f"`{value}`" if value != "" else "empty"


def _ignored(section: type[Section], areal: Names, path: str) -> Iterator[str]:
    ours = fields(section)
    names = [n for n in areal if n not in ours and reason_to_drop(f"{path}.{n}") is None and n != "openai"]
    if names:
        yield f"| `{path}` | {', '.join(f'`{n}`' for n in sorted(names))} |"
    for name, one in ours.items():
        below = areal.get(name)
        if one.section is not None and below:
            yield from _ignored(one.section, below, f"{path}.{name}")


if __name__ == "__main__":
    file = Path(sys.argv[1])
    file.write_text(renewed(file.read_text(encoding="utf-8")), encoding="utf-8")
