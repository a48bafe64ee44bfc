"""Reading fields of a request body: a body of the wrong shape is refused with a sentence, not with a KeyError."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from agentflow.runner.translate import TranslationError

T = TypeVar("T")

_NAMES = {str: "a string", list: "a list", dict: "an object", bool: "true or false"}


def given(mapping: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that are set: null means the same as left out."""
    return {key: value for key, value in mapping.items() if value is not None}


def need(mapping: Mapping[str, Any], key: str, kind: type[T], where: str) -> T:
    """The field ``key``, which must be there and be a ``kind``."""
    value = mapping.get(key)
    if value is None:
        raise TranslationError(f"{where} has no {key!r}: give it {_NAMES[kind]}.")
    return expect(value, kind, f"{where}.{key}")


def expect(value: object, kind: type[T], where: str) -> T:
    """``value``, which must be a ``kind``."""
    if not isinstance(value, kind):
        raise TranslationError(f"{where} must be {_NAMES[kind]}, not {_shown(value)}.")
    return value


def objects(value: object, where: str) -> list[tuple[str, dict[str, Any]]]:
    """A list of objects, each with the place where it stands and without its nulls."""
    items = expect(value, list, where)
    return [(f"{where}[{i}]", given(expect(item, dict, f"{where}[{i}]"))) for i, item in enumerate(items)]


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
