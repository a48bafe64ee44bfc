"""gconfig's names for sampling values, and the fields of a chat request that they travel in. Imports none of ours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# vLLM, SGLang and llama.cpp take the ones beyond the vendor's own in chat and completions; vLLM takes most of them in
# responses too, and the others skip what they do not know.
SHARED_FIELDS = {
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
CHAT_FIELDS = {"max_new_tokens": "max_tokens", **SHARED_FIELDS}


def greedy_applied(sampling: Mapping[str, Any]) -> dict[str, Any]:
    """The values with ``greedy`` said as ``temperature`` 0, which is what engines understand."""
    values = dict(sampling)
    if values.pop("greedy", False):
        values["temperature"] = 0.0
    return values
