"""What pydantic found, as one sentence of ours."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from agentflow.config.fields import Section
from agentflow.config.model import Config
from agentflow.config.names import advice, fields
from agentflow.config.secrets import masked

SHOWN = 60  # characters of a value that a message repeats


def place_of(key: str, places: Mapping[str, str]) -> str:
    """The place of this key, else of the nearest section that holds it, else nothing."""
    while key:
        if key in places:
            return places[key]
        key = key[: max(key.rfind("."), key.rfind("["), 0)]
    return ""


def named(key: str, where: Callable[[str], str], options: Mapping[str, str]) -> str:
    """The key and its place; where the user gave it by an option, that option and the key."""
    option = place_of(key, options)
    return f"{option} ({key})" if option else f"{key}{where(key)}"


def sentence(
    error: ValidationError, where: Callable[[str], str], data: Mapping[str, Any], options: Mapping[str, str]
) -> str:
    """The first complaint in full, and the keys of further ones."""
    details = error.errors(include_url=False, include_input=False)
    first, *others = [(_key(d), d) for d in details]
    text = _one(first[0], first[1], where, data, options)
    further = sorted({key for key, _ in others if key and key != first[0]})
    return f"{text} Also wrong: {', '.join(further)}." if further else text


def _key(detail: ErrorDetails) -> str:
    return "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in detail["loc"]).removeprefix(".")


def _one(
    key: str, detail: ErrorDetails, where: Callable[[str], str], data: Mapping[str, Any], options: Mapping[str, str]
) -> str:
    if not key:
        return f"{_rule(detail)}."
    if detail["type"] == "extra_forbidden":
        return f"Unknown key '{key}'{where(key)}: {advice(key, _siblings(key))}"
    value = _shown(detail["loc"], data)
    return f"{named(key, where, options)} {_rule(detail)}{value}."


def _rule(detail: ErrorDetails) -> str:
    kind, limits = detail["type"], detail.get("ctx", {})
    match kind:
        case "value_error":
            return str(limits["error"])
        case "greater_than_equal":
            return f"must be {limits['ge']} or more"
        case "greater_than":
            return f"must be more than {limits['gt']}"
        case "less_than_equal":
            return f"must be {limits['le']} or less"
        case "literal_error":
            return f"must be {limits['expected']}"
        case "finite_number":
            return "must be finite"
        case "too_short" | "too_long":
            return "must be a list of the right length"
        case "missing":
            return "is missing"
    if kind.startswith("int_"):
        return "must be a whole number"
    if kind.startswith("float_"):
        return "must be a number"
    if kind.startswith("bool_"):
        return "must be true or false"
    if kind.startswith("string_"):
        return "must be text"
    if kind.startswith("tuple_"):
        return "must be a list" if kind == "tuple_type" else "must be a list of the right length"
    if kind.startswith(("dict_", "model_")):
        return "must be a section of keys"
    return detail["msg"][:1].lower() + detail["msg"][1:]


def _shown(location: tuple[int | str, ...], data: Any) -> str:
    """``, not 'abc'``; nothing for a section or a list, which may hold secrets."""
    for part in location:
        try:
            data = data[part]
        except (KeyError, IndexError, TypeError):
            return ""
    if isinstance(data, Mapping | list | tuple):
        return ""
    text = (
        {None: "null", True: "true", False: "false"}[data]
        if data is None or isinstance(data, bool)
        else masked(repr(data))
    )
    return f", not {text if len(text) <= SHOWN else text[:SHOWN] + '...'}"


def _siblings(key: str) -> list[str]:
    section: type[Section] = Config
    for name in key.split(".")[:-1]:
        one = fields(section).get(name.split("[")[0])
        if one is None or one.section is None:
            return []
        section = one.section
    return list(section.model_fields)
