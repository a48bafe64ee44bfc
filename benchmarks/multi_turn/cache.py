"""In which state the engine's prefix cache was, as far as it can be told. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from agentflow.report.text import percent, plural
from benchmarks.multi_turn.measurement import TurnRow

TEMPLATE_TOKENS = 128  # of a chat template's own beginning, which all conversations have in common


def cache_state(warm_up: int, shared_tokens: float | None, turns: Sequence[TurnRow]) -> list[str]:
    """Sentences.

    Args:
        warm_up: conversations before the measured ones.
        shared_tokens: that all conversations begin with; None where that is not known (another agent, tool schemas).
        turns: of the measured ones.
    """
    said = [
        f"warmed by {plural(warm_up, 'other conversation')}"
        if warm_up
        else "as the endpoint was found: empty where its workers had just started"
    ]
    if shared_tokens is not None:
        said.append(
            f"conversations have their first {shared_tokens:,.0f} tokens in common"
            if shared_tokens
            else "conversations have nothing in common but the chat template"
        )
    if not turns:
        return said
    if not any(row.lengths and row.lengths.cached_share for row in turns):
        said.append("the endpoint tells of no cached tokens (vLLM: --enable-prompt-tokens-details)")
        return said
    first = turns[0].lengths
    if first is not None and first.cached_share is not None:
        cached = first.cached_share * first.prompt
        if shared_tokens is None:
            said.append(
                "conversations may begin alike (tool schemas, system text): in the first turn "
                f"{percent(first.cached_share)} of the prompts came from the cache"
            )
        elif cached > shared_tokens * 1.1 + TEMPLATE_TOKENS:
            said.append(
                f"but of a first prompt {cached:,.0f} tokens were cached: the endpoint has seen these conversations "
                "before (another --seed makes others)"
            )
    return said
