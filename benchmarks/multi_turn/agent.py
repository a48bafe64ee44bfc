"""The episode: one client's conversation, request after request. What is measured lies in the run directory."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Mapping
from typing import Any
from weakref import WeakKeyDictionary

from agentflow.errors import UsageError
from benchmarks.arguments import check_count
from benchmarks.multi_turn.conversations import conversation_of
from benchmarks.multi_turn.endpoint import Endpoint
from benchmarks.multi_turn.scripts import Script, Synthetic
from benchmarks.multi_turn.words import PROBE_WORDS, probe, tokens_per_word


class MultiTurn:
    """Holds a conversation and lets the replies pass.

    ``reward`` is the share of replies that were of the length asked for: with ``fixed_length`` anything below 1 says
    that the load was not the one that was meant.

    Args:
        fixed_length: ask the engine to go on past its end token (``ignore_eos``, ``min_tokens``).
        tokens_per_word: what a word costs; asked of the endpoint once a runner where it is not given.
        output_tokens: length of every reply of a golden replay; that of the golden message where it is not given.

    Raises:
        UsageError: an argument is not of its kind.
    """

    dataset = "multi_turn:rounds"
    group_by = ("part",)

    def __init__(
        self, fixed_length: bool = True, tokens_per_word: float | None = None, output_tokens: int | None = None
    ) -> None:
        check_count("output_tokens", output_tokens)
        if not isinstance(fixed_length, bool):
            raise UsageError(f"fixed_length must be true or false, and it is {fixed_length!r}.")
        if tokens_per_word is not None and not (_is_number(tokens_per_word) and 0 < tokens_per_word < math.inf):
            raise UsageError(f"tokens_per_word must be a number above 0, and it is {tokens_per_word!r}.")
        self._fixed_length = fixed_length
        self._tokens_per_word = tokens_per_word
        self._output_tokens = output_tokens

    async def run(self, data: Mapping[str, Any], base_url: str, api_key: str, http_client: Any) -> dict[str, float]:
        """``reward``; seconds of preparation and in tools; and of a conversation in words what was asked for."""
        endpoint = Endpoint(base_url, api_key, http_client, self._fixed_length)
        began = time.perf_counter()
        script, asked = await self._script(data, endpoint)
        preparation_s = time.perf_counter() - began
        replies = right = 0
        while (ask := script.next()) is not None:
            reply = await endpoint.stream(ask.messages, ask.tools, ask.output_tokens)
            replies += 1
            right += reply.completion_tokens == ask.output_tokens
            await script.answered(reply.text)
        return {"reward": right / replies, "tools_s": script.tools_s, "preparation_s": preparation_s, **asked}

    async def _script(self, data: Mapping[str, Any], endpoint: Endpoint) -> tuple[Script, dict[str, float]]:
        if data.get("workload") == "bfcl":
            from benchmarks.multi_turn.replay import GoldenReplay

            return GoldenReplay(data, self._output_tokens), {}
        conversation = conversation_of(data)
        asked = {
            "input_tokens_asked": float(
                conversation.shared_tokens + sum(turn.input_tokens for turn in conversation.turns)
            ),
            "shared_tokens_asked": float(conversation.shared_tokens),
        }
        per_word = self._tokens_per_word or await _cost_of_a_word(endpoint)
        return Synthetic(conversation, per_word), asked


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


async def _cost_of_a_word(endpoint: Endpoint) -> float:
    """Asked once a run and runner, by the first conversation that needs it; the others wait, then all go at once."""
    known = _costs.setdefault(asyncio.get_running_loop(), _Cost())
    while known.tokens is None:
        if known.asking is not None:
            await known.asking.wait()
            continue
        known.asking = asyncio.Event()
        try:
            short, long = [await endpoint.prompt_tokens(probe(words)) for words in PROBE_WORDS]
            known.tokens = tokens_per_word(short, long)
        finally:  # the next one asks where this one could not
            known.asking.set()
            known.asking = None
    return known.tokens


class _Cost:
    """Of a word in ``tokens``, once it is known; ``asking`` while somebody asks for it."""

    def __init__(self) -> None:
        self.tokens: float | None = None
        self.asking: asyncio.Event | None = None


_costs: WeakKeyDictionary[asyncio.AbstractEventLoop, _Cost] = WeakKeyDictionary()  # a run has a loop of its own
