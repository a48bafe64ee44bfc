"""The sampling values that the user set, in the fields that a dialect has for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from agentflow.runner.dialect import Dialect

# gconfig name -> field. vLLM, SGLang and llama.cpp take the ones beyond the vendor's own in chat and completions;
# vLLM takes most of them in responses too, and the others skip what they do not know.
_SHARED = {
    "temperature": "temperature",
    "top_p": "top_p",
    "top_k": "top_k",
    "min_p": "min_p",
    "min_new_tokens": "min_tokens",
    "frequency_penalty": "frequency_penalty",
    "presence_penalty": "presence_penalty",
    "repetition_penalty": "repetition_penalty",
    "stop": "stop",
    "stop_token_ids": "stop_token_ids",
    "ignore_eos": "ignore_eos",
    "skip_special_tokens": "skip_special_tokens",
}
_FIELDS: dict[Dialect, dict[str, str]] = {
    Dialect.CHAT: {"max_new_tokens": "max_tokens", **_SHARED},
    Dialect.COMPLETIONS: {"max_new_tokens": "max_tokens", **_SHARED},
    Dialect.RESPONSES: {"max_new_tokens": "max_output_tokens", **_SHARED},
    Dialect.MESSAGES: {
        "max_new_tokens": "max_tokens",
        "temperature": "temperature",
        "top_p": "top_p",
        "top_k": "top_k",
        "stop": "stop_sequences",
    },
}
# An agent that set one of these has set the field as well.
_SAME = {"max_tokens": ("max_tokens", "max_completion_tokens")}

SEEDED = frozenset({Dialect.CHAT, Dialect.COMPLETIONS, Dialect.RESPONSES})


class Fill(msgspec.Struct, frozen=True):
    """Set ``field`` to ``value`` where the agent set none of ``unless``."""

    field: str
    value: msgspec.Raw
    unless: tuple[str, ...]


def fills(dialect: Dialect, sampling: Mapping[str, Any]) -> tuple[Fill, ...]:
    """What a role's sampling values (gconfig names, only those that the user set) mean in ``dialect``."""
    values = dict(sampling)
    if values.pop("greedy", False):
        values["temperature"] = 0.0
    found = []
    for name, field in _FIELDS.get(dialect, {}).items():
        value = values.get(name)
        if value is None:
            continue
        if field == "stop_sequences" and isinstance(value, str):
            value = [value]
        found.append(Fill(field, msgspec.Raw(msgspec.json.encode(value)), _SAME.get(field, (field,))))
    return tuple(found)


def left_out(asked: Mapping[str, Any], fields: tuple[str, ...]) -> bool:
    """True when the agent set none of ``fields``; null means left out. Values may be raw JSON."""
    for field in fields:
        value = asked.get(field)
        if value is not None and not (isinstance(value, msgspec.Raw) and bytes(value) == b"null"):
            return False
    return True
