"""From what AReaL's scripts give a workflow to fields of a chat request."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Protocol

from agentflow.sampling import CHAT_FIELDS, greedy_applied


class HasSampling(Protocol):
    """``agentflow.config``'s gconfig: knows which of its values the user set."""

    def sampling(self) -> dict[str, Any]: ...


def request_fields(
    gconfig: HasSampling | Mapping[str, Any] | Any | None, enable_thinking: bool | None
) -> dict[str, Any]:
    """The fields that a request gets.

    Args:
        gconfig: agentflow's, AReaL's dataclass, or a mapping with the same names. What a chat request has no field for
            (``n_samples``, ``max_tokens``, AReaL's bound on prompt plus output) is left out, and so is what is not set.
        enable_thinking: becomes ``chat_template_kwargs``; None leaves it to the template.

    Raises:
        TypeError: ``gconfig`` is none of these.
    """
    fields = {
        CHAT_FIELDS[name]: value
        for name, value in greedy_applied(_values(gconfig)).items()
        if name in CHAT_FIELDS and value is not None and value != []
    }
    if enable_thinking is not None:
        fields["chat_template_kwargs"] = {"enable_thinking": enable_thinking}
    return fields


def _values(gconfig: Any) -> Mapping[str, Any]:
    if gconfig is None:
        return {}
    if isinstance(gconfig, Mapping):
        return gconfig
    if callable(sampling := getattr(gconfig, "sampling", None)):
        values: Mapping[str, Any] = sampling()
        return values
    if dataclasses.is_dataclass(gconfig) and not isinstance(gconfig, type):
        return dataclasses.asdict(gconfig)
    raise TypeError(f"gconfig is a {type(gconfig).__name__}; give a gconfig, AReaL's dataclass, or a mapping.")
