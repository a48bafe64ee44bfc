"""Filling in what the user left open and the checkpoint tells: the parsers of vLLM and SGLang."""

from __future__ import annotations

from typing import Any

import msgspec

from agentflow.channel.messages import StartEngine
from agentflow.workers.engines.parsers import (
    OFF,
    REASONING,
    TOOL_CALLS,
    drops_tools,
    guessed,
    read_checkpoint,
    translated,
)

TABLES = {"tool_call_parser": TOOL_CALLS, "reasoning_parser": REASONING}


def with_parsers(spec: StartEngine) -> tuple[StartEngine, tuple[str, ...]]:
    """The spec with each parser under the engine's own name, and a sentence for each that was guessed or renamed.

    Reads the checkpoint's small files where it lies here.
    """
    options: dict[str, Any] = dict(spec.options)
    checkpoint = read_checkpoint(spec.model, options.get("chat_template"))
    notes: list[str] = []
    if drops_tools(checkpoint):
        notes.append(
            f"The chat template of {spec.model} drops tools without a word: where the agent has any, give one that "
            f"renders them by {spec.engine}.chat_template=FILE."
        )
    for key, table in TABLES.items():
        named = options.get(key)
        if named == OFF:
            continue
        if named:
            options[key] = translated(named, table, spec.engine)
            if options[key] != named:
                notes.append(f"{key} {named} is called {options[key]} by {spec.engine}.")
            continue
        guess = guessed(checkpoint, table, spec.engine)
        if guess is not None:
            options[key], why = guess
            notes.append(f"{key} is {options[key]}, guessed: {why}; set rollout.agent.{key} to another, or to {OFF}.")
        elif key == "tool_call_parser":
            notes.append(
                f"No {key} could be guessed for {spec.model}: {spec.engine} will not recognise tool calls; "
                f"set rollout.agent.{key} if the model makes any."
            )
    return msgspec.structs.replace(spec, options=options), tuple(notes)
