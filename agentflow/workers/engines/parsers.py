"""How a model writes tool calls and its reasoning: which parser of an engine reads it.

AReaL's names are SGLang's; vLLM calls most of them differently. A parser that the user names is translated; where none
is named it is guessed from what the checkpoint says of itself: its name, the marks in its chat template, its type.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

OFF = "none"  # as a parser's name: use none, and do not guess


@dataclass(frozen=True)
class Parser:
    """One format, and what each engine calls its parser of it. ``also`` are further names by which people ask for it.

    Args:
        names: pattern of model names that use it.
        marks: texts of which a chat template that uses it has one.
        types: ``model_type`` of checkpoints that use it.
    """

    vllm: str
    sglang: str
    also: tuple[str, ...] = ()
    names: str = ""
    marks: tuple[str, ...] = ()
    types: tuple[str, ...] = ()


# The more special one first: the first that fits is taken.
TOOL_CALLS = (
    Parser("openai", "gpt-oss", ("gpt_oss",), names=r"gpt-oss", types=("gpt_oss",)),
    Parser(
        "qwen3_coder", "qwen3_coder", names=r"qwen3-coder|qwen3\.[5-9]", marks=("<function=",),
        types=("qwen3_5", "qwen3_5_moe"),
    ),
    Parser("glm47", "glm47", names=r"glm-?(4\.7|5)"),
    Parser("glm45", "glm45", ("glm",), names=r"glm-?4\.[56]", marks=("<arg_key>",), types=("glm4_moe",)),
    Parser("minimax_m2", "minimax-m2", names=r"minimax-?m2", marks=("<minimax:tool_call>",), types=("minimax_m2",)),
    Parser("kimi_k2", "kimi_k2", names=r"kimi-?k2", marks=("<|tool_calls_section_begin|>",), types=("kimi_k2",)),
    Parser("deepseek_v32", "deepseekv32", names=r"deepseek-?v3\.2", types=("deepseek_v32",)),
    Parser("deepseek_v31", "deepseekv31", names=r"deepseek-?v3\.1"),
    Parser("deepseek_v3", "deepseekv3", names=r"deepseek-?(v3|r1-0528)", marks=("<｜tool▁calls▁begin｜>",)),
    Parser("llama4_pythonic", "pythonic", names=r"llama-?4", types=("llama4",)),
    Parser("llama3_json", "llama3", names=r"llama-?3", marks=("<|python_tag|>",)),
    Parser("mistral", "mistral", names=r"mi[sx]tral|devstral|magistral", marks=("[TOOL_CALLS]",), types=("mistral",)),
    Parser("lfm2", "lfm2", names=r"lfm-?2", marks=("<|tool_call_start|>",), types=("lfm2", "lfm2_moe")),
    Parser("gemma4", "gemma4", names=r"gemma-?4", types=("gemma4",)),
    Parser("hermes", "hermes", names=r"hermes|smollm"),
    Parser(
        "hermes", "qwen25", ("qwen", "qwen3_json"), names=r"qwen-?(2\.5|3)|qwq", marks=("<tool_call>",),
        types=("qwen2", "qwen2_moe", "qwen3", "qwen3_moe"),
    ),
)  # fmt: skip
# Guessed more carefully than tool calls: the wrong one hides a whole answer. So not from a type, which Qwen's instruct
# models share with its reasoning ones.
REASONING = (
    Parser("openai_gptoss", "gpt-oss", ("gpt_oss",), names=r"gpt-oss", types=("gpt_oss",)),
    Parser("glm45", "glm45", names=r"glm-?(4\.[5-9]|5)"),
    Parser("minimax_m2", "minimax", names=r"minimax-?m2"),
    Parser("kimi_k2", "kimi_k2", names=r"kimi-?k2-thinking"),
    Parser("deepseek_v3", "deepseek-v3", names=r"deepseek-?v3\.[12]"),
    Parser("deepseek_r1", "deepseek-r1", names=r"deepseek-?r1|qwq"),
    Parser("gemma4", "gemma4", names=r"gemma-?4"),
    Parser("qwen3", "qwen3-thinking", names=r"qwen3.*thinking"),
    Parser("qwen3", "qwen3", names=r"qwen3-[\d.]+b(-a[\d.]+b)?$", marks=("enable_thinking",)),
)


@dataclass(frozen=True)
class Checkpoint:
    """What a checkpoint says of itself: its names, its ``model_type``, its chat template; empty where it does not."""

    names: tuple[str, ...]
    model_type: str = ""
    template: str = ""


def translated(name: str, table: tuple[Parser, ...], engine: str) -> str:
    """What the engine calls the parser of this name; the name itself where we know no other."""
    for parser in table:
        if name == getattr(parser, engine):
            return name
    for parser in table:
        if name in (parser.vllm, parser.sglang, *parser.also):
            return str(getattr(parser, engine))
    return name


def guessed(checkpoint: Checkpoint, table: tuple[Parser, ...], engine: str) -> tuple[str, str] | None:
    """The engine's parser for a checkpoint and one phrase that says why; None where nothing speaks for one."""
    for parser in table:
        for name in checkpoint.names:
            if parser.names and re.search(parser.names, name, re.IGNORECASE):
                return str(getattr(parser, engine)), f"the model is called {name}"
    for parser in table:
        for mark in parser.marks:
            if mark in checkpoint.template:
                return str(getattr(parser, engine)), f"its chat template holds {mark}"
    for parser in table:
        if checkpoint.model_type in parser.types:
            return str(getattr(parser, engine)), f"its model_type is {checkpoint.model_type}"
    return None


def read_checkpoint(model: str, template_path: str | None = None) -> Checkpoint:
    """Of a folder what its files say; of a name on the hub the name alone. What cannot be read counts as not said.

    Args:
        template_path: the chat template that is used instead of the checkpoint's own.
    """
    folder = Path(model)
    config = _json(folder / "config.json")
    names = (folder.name, str(config.get("_name_or_path", "")))
    own = _text(folder / "chat_template.jinja") or str(_json(folder / "tokenizer_config.json").get("chat_template", ""))
    template = _text(Path(template_path)) if template_path else own
    return Checkpoint(tuple(dict.fromkeys(n for n in names if n)), str(config.get("model_type", "")), template)


def drops_tools(checkpoint: Checkpoint) -> bool:
    """Whether the chat template is known and never looks at a request's tools, which then do not reach the model."""
    return bool(checkpoint.template) and "tools" not in checkpoint.template


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


def _json(path: Path) -> dict[str, object]:
    try:
        found = json.loads(_text(path) or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
