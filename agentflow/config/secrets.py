"""Secrets in a configuration: found by name and by look, and replaced."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

MARK = "<secret>"

# Names of environment variables may be judged more strictly than names in general: answer_key holds no secret.
_ENV = r"[A-Z0-9_]*(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|PWD|CREDENTIALS?|AUTH|COOKIE)(?:_ID|_VALUE)?"
_WORDS = r"[\w.-]*(?:(?:api|access|private)[_-]?key|secret|token|password|passwd|credentials?|authorization)"
_NAME = re.compile(rf"{_ENV}|(?i:{_WORDS}|[\w.-]*(?:secret|password)[\w.-]*)")
_ASSIGNED = re.compile(
    rf"(--(?i:{_WORDS})(?:=|\s+)|(?<![\w-])(?:{_ENV}|(?i:{_WORDS}))=)(\"[^\"]*\"|'[^']*'|[^\s'\"&;]+)"
)
_FLAG = re.compile(rf"--(?i:{_WORDS})")
_LOOK = re.compile(
    r"\b(?:sk-(?=[\w-]*\d)[\w-]{16,}|hf_[A-Za-z0-9]{20,}|gh[pousr]_[A-Za-z0-9]{20,}|glpat-[\w-]{16,}"
    r"|xox[abprs]-[\w-]{10,}|AKIA[A-Z0-9]{16})|(?i:(?<=bearer )\S+)"
)
_IN_URL = re.compile(r"(?<=://)[^/@\s]+(?=@)")


def is_secret_name(name: str) -> bool:
    """Whether a value under this name is a secret (``HF_TOKEN``, ``api_key``), but not ``max_new_tokens``."""
    return _NAME.fullmatch(name) is not None


def masked(text: str) -> str:
    """The text with everything replaced that looks like a secret: known kinds of keys, passwords in URLs."""
    return _IN_URL.sub(MARK, _LOOK.sub(MARK, text))


def masked_command(text: str) -> str:
    """The same for a shell line or an argument, where also what is assigned to a secret name is replaced."""
    return masked(_ASSIGNED.sub(lambda m: m.group(1) + (m.group(2) if "$" in m.group(2) else MARK), text))


def without_secrets(value: Any) -> Any:
    """The same data, each secret replaced by ``<secret>``. A field such as ``api_key_env`` names one, holds none."""
    if isinstance(value, Mapping):
        return {k: _member(str(k), v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        hidden = [masked_command(v) if isinstance(v, str) else without_secrets(v) for v in value]
        for i, flag in enumerate(value[:-1]):
            if isinstance(flag, str) and _FLAG.fullmatch(flag):
                hidden[i + 1] = MARK
        return hidden
    return masked(value) if isinstance(value, str) else value


def _member(name: str, value: Any) -> Any:
    if is_secret_name(name):
        return _hide(value)
    return masked_command(value) if name.endswith("_args") and isinstance(value, str) else without_secrets(value)


def _hide(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {k: _hide(v) for k, v in value.items()}
    return MARK if value not in (None, "", [], ()) else value


def remove_marks(data: Any, path: str = "") -> tuple[Any, list[str]]:
    """Stored data without the places where a secret was, and the names of those places."""
    gone: list[str] = []
    if isinstance(data, Mapping):
        kept: dict[Any, Any] = {}
        for key, value in data.items():
            name = f"{path}.{key}" if path else str(key)
            if isinstance(value, str) and MARK in value:
                gone.append(name)
                continue
            kept[key], below = remove_marks(value, name)
            gone += below
        return kept, gone
    if isinstance(data, list | tuple):
        items = []
        for i, value in enumerate(data):
            if isinstance(value, str) and MARK in value:
                gone.append(f"{path}[{i}]")
                continue
            item, below = remove_marks(value, f"{path}[{i}]")
            items.append(item)
            gone += below
        return items, gone
    return data, gone
