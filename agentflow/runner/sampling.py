"""The sampling values that the user set, in the fields that a dialect has for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from agentflow.runner.dialect import Dialect
from agentflow.sampling import CHAT_FIELDS, SHARED_FIELDS, greedy_applied

_FIELDS: dict[Dialect, dict[str, str]] = {
    Dialect.CHAT: CHAT_FIELDS,
    Dialect.COMPLETIONS: CHAT_FIELDS,
    Dialect.RESPONSES: {"max_new_tokens": "max_output_tokens", **SHARED_FIELDS},
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
    values = greedy_applied(sampling)
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
