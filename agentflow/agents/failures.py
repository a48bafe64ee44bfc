"""What an exception out of ``run()`` means, and how it is shown. Pure.

Kinds are told by class names, so that no agent SDK is imported to recognise its exceptions.
"""

from __future__ import annotations

import linecache
import traceback
from collections.abc import Iterator

from agentflow.agents.adapter import Ending
from agentflow.agents.sources import place, users_lines
from agentflow.episode import Kind, Outcome

KINDS_BY_CLASS = {
    "MaxTurnsExceeded": Kind.MAX_TURNS,  # openai-agents
    "GraphRecursionError": Kind.MAX_TURNS,  # langgraph
    "GraderError": Kind.GRADER,  # agentflow.rewards
}
MAX_ERROR_CHARS = 600
MAX_TRACEBACK_CHARS = 6000
MAX_FRAMES_SHOWN = 12
MAX_RELATED = 20  # causes and group members that are looked at; chains can be circular


def ending_of_exception(error: BaseException, hint: Kind | None = None) -> Ending:
    """A failed ending for whatever ``run()`` raised.

    Args:
        hint: what the doors saw go wrong with the episode's last call (context overflow, server error, call
            timeout); it names the kind unless the exception names a better one.
    """
    kind = next((k for e in related(error) if (k := _kind_of(e)) is not None), hint or Kind.EXCEPTION)
    return Ending(
        Outcome.FAILED,
        kind,
        error=bounded(" / ".join(dict.fromkeys(said(e) for e in _leaves(error))), MAX_ERROR_CHARS),
        traceback=bounded(render(error), MAX_TRACEBACK_CHARS),
    )


def related(error: BaseException) -> Iterator[BaseException]:
    """The exception, what caused it, and the members of groups among these; each once."""
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting and len(seen) < MAX_RELATED:
        e = waiting.pop(0)
        if e is None or id(e) in seen:
            continue
        seen.add(id(e))
        yield e
        waiting.append(e.__cause__)
        if isinstance(e, BaseExceptionGroup):
            waiting.extend(e.exceptions)


def said(error: BaseException) -> str:
    """``ValueError: text``, bounded; never raises."""
    try:
        text = str(error)
    except Exception as e:  # noqa: BLE001 - a user's __str__ may raise anything
        text = f"<its text raises {type(e).__name__}>"
    return bounded(f"{type(error).__name__}: {text}" if text else type(error).__name__, MAX_ERROR_CHARS)


def render(error: BaseException) -> str:
    """The user's own frames and what was raised, then what caused it. Reads a dozen source lines, not thousands."""
    parts = []
    for e in related(error):
        lines = users_lines(e.__traceback__)
        if not lines:
            frames = traceback.extract_tb(e.__traceback__, limit=-3)
            lines = [(f.filename, f.lineno or 0, f.name) for f in frames]
        skipped = [f"  ... {len(lines) - MAX_FRAMES_SHOWN} more frames"] if len(lines) > MAX_FRAMES_SHOWN else []
        shown = [_frame(*line) for line in lines[-MAX_FRAMES_SHOWN:]]
        parts.append("\n".join([*skipped, *shown, said(e)]))
    return "\ncaused by\n".join(parts)


def bounded(text: str, most: int) -> str:
    """The text, cut in its middle when it is longer than ``most`` characters."""
    if len(text) <= most:
        return text
    return f"{text[: most // 2]} [... {len(text) - most} characters ...] {text[-(most - most // 2) :]}"


def _frame(file: str, line: int, function: str) -> str:
    source = linecache.getline(file, line).strip()
    return f"  {place(file, line, function)}" + (f"\n    {source}" if source else "")


def _kind_of(error: BaseException) -> Kind | None:
    return next((KINDS_BY_CLASS[c.__name__] for c in type(error).__mro__ if c.__name__ in KINDS_BY_CLASS), None)


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        yield from (leaf for member in error.exceptions[:MAX_RELATED] for leaf in _leaves(member))
    else:
        yield error
