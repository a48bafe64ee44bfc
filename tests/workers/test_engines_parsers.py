"""Which parser reads a model's tool calls and reasoning: under each engine's names, guessed and said so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agentflow.channel.messages import StartEngine
from agentflow.workers.engines import ENGINES
from agentflow.workers.engines.parsers import (
    REASONING,
    TOOL_CALLS,
    Checkpoint,
    drops_tools,
    guessed,
    read_checkpoint,
    translated,
)


@pytest.mark.parametrize(
    ("named", "vllm", "sglang"),
    [
        ("qwen25", "hermes", "qwen25"),
        ("qwen", "hermes", "qwen25"),
        ("hermes", "hermes", "hermes"),
        ("llama3_json", "llama3_json", "llama3"),
        ("deepseekv3", "deepseek_v3", "deepseekv3"),
        ("gpt-oss", "openai", "gpt-oss"),
        ("qwen3_coder", "qwen3_coder", "qwen3_coder"),
        ("one-of-a-plugin", "one-of-a-plugin", "one-of-a-plugin"),
    ],
)
def test_a_tool_call_parser_is_translated_to_each_engines_name(named: str, vllm: str, sglang: str) -> None:
    assert translated(named, TOOL_CALLS, "vllm") == vllm
    assert translated(named, TOOL_CALLS, "sglang") == sglang


@pytest.mark.parametrize(
    ("named", "vllm", "sglang"),
    [
        ("qwen3", "qwen3", "qwen3"),
        ("deepseek-r1", "deepseek_r1", "deepseek-r1"),
        ("gpt-oss", "openai_gptoss", "gpt-oss"),
    ],
)
def test_a_reasoning_parser_is_translated_to_each_engines_name(named: str, vllm: str, sglang: str) -> None:
    assert translated(named, REASONING, "vllm") == vllm
    assert translated(named, REASONING, "sglang") == sglang


@pytest.mark.parametrize(
    ("model", "tools", "reasoning"),
    [
        ("Qwen2.5-7B-Instruct", "hermes", None),
        ("Qwen3-8B", "hermes", "qwen3"),
        ("Qwen3-30B-A3B", "hermes", "qwen3"),
        ("Qwen3-4B-Instruct-2507", "hermes", None),
        ("Qwen3-4B-Thinking-2507", "hermes", "qwen3"),
        ("Qwen3-Coder-30B-A3B-Instruct", "qwen3_coder", None),
        ("QwQ-32B", "hermes", "deepseek_r1"),
        ("Llama-3.1-8B-Instruct", "llama3_json", None),
        ("Llama-4-Scout-17B-16E", "llama4_pythonic", None),
        ("Mistral-Small-3.2", "mistral", None),
        ("gpt-oss-20b", "openai", "openai_gptoss"),
        ("DeepSeek-V3.1", "deepseek_v31", "deepseek_v3"),
        ("DeepSeek-R1-Distill-Qwen-7B", None, "deepseek_r1"),
        ("GLM-4.5-Air", "glm45", "glm45"),
        ("GLM-4.7", "glm47", "glm45"),
        ("SmolLM2-135M", "hermes", None),
        ("pythia-70m", None, None),
    ],
)
def test_the_name_of_a_model_tells_its_parsers(model: str, tools: str | None, reasoning: str | None) -> None:
    checkpoint = Checkpoint((model,))
    found = [guessed(checkpoint, table, "vllm") for table in (TOOL_CALLS, REASONING)]
    assert [f and f[0] for f in found] == [tools, reasoning]


def test_the_chat_template_tells_more_than_the_type() -> None:
    distilled = Checkpoint(("step-100",), "llama", "{{ '<tool_call>' }} {{ tools }}")
    assert guessed(distilled, TOOL_CALLS, "sglang") == ("qwen25", "its chat template holds <tool_call>")
    coder = Checkpoint(("step-100",), "qwen3_moe", "<tool_call>\n<function=f>")
    assert guessed(coder, TOOL_CALLS, "vllm") == ("qwen3_coder", "its chat template holds <function=")
    assert guessed(Checkpoint(("step-100",), "qwen2"), TOOL_CALLS, "vllm") == ("hermes", "its model_type is qwen2")
    assert guessed(Checkpoint(("step-100",), "llama"), TOOL_CALLS, "vllm") is None


def test_a_type_alone_never_brings_a_reasoning_parser() -> None:
    for model_type in ("qwen2", "qwen3", "qwen3_moe", "llama"):
        assert guessed(Checkpoint(("step-100",), model_type), REASONING, "sglang") is None


def test_a_checkpoint_is_read_from_its_files(tmp_path: Path) -> None:
    folder = tmp_path / "step-100"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"model_type": "qwen2", "_name_or_path": "Qwen/Qwen2.5-7B"}))
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": "{{ messages }}"}))
    assert read_checkpoint(str(folder)) == Checkpoint(("step-100", "Qwen/Qwen2.5-7B"), "qwen2", "{{ messages }}")
    (folder / "chat_template.jinja").write_text("{{ tools }}")
    assert read_checkpoint(str(folder)).template == "{{ tools }}"
    (tmp_path / "mine.jinja").write_text("{{ mine }}")
    assert read_checkpoint(str(folder), str(tmp_path / "mine.jinja")).template == "{{ mine }}"


def test_broken_or_missing_files_count_as_not_said(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{")
    assert read_checkpoint(str(tmp_path)) == Checkpoint((tmp_path.name,))
    assert read_checkpoint("Qwen/Qwen3-8B") == Checkpoint(("Qwen3-8B",))


def test_a_template_without_tools_is_seen() -> None:
    assert drops_tools(Checkpoint(("m",), "llama", "{{ messages }}"))
    assert not drops_tools(Checkpoint(("m",), "llama", "{{ tools }}"))
    assert not drops_tools(Checkpoint(("m",)))


def completed(engine: str, model: str, **options: Any) -> tuple[dict[str, Any], str]:
    spec, notes = ENGINES[engine].complete(StartEngine(engine, model, "default", "key", "log", options))
    return spec.options, "\n".join(notes)


def test_what_is_guessed_is_said() -> None:
    options, notes = completed("vllm", "Qwen/Qwen3-8B")
    assert options == {"tool_call_parser": "hermes", "reasoning_parser": "qwen3"}
    assert "tool_call_parser is hermes, guessed: the model is called Qwen3-8B" in notes
    assert "reasoning_parser is qwen3, guessed" in notes
    assert "rollout.agent.reasoning_parser" in notes


def test_what_is_named_is_not_guessed_and_none_is_none() -> None:
    options, notes = completed("vllm", "Qwen/Qwen3-8B", tool_call_parser="qwen25", reasoning_parser="none")
    assert options == {"tool_call_parser": "hermes", "reasoning_parser": "none"}
    assert notes == "tool_call_parser qwen25 is called hermes by vllm."


def test_a_model_that_nothing_is_known_of_is_said_to_have_no_tool_calls() -> None:
    options, notes = completed("sglang", "EleutherAI/pythia-70m")
    assert options == {}
    assert "No tool_call_parser could be guessed for EleutherAI/pythia-70m" in notes


def test_the_embedded_engine_needs_no_parser() -> None:
    assert completed("llamacpp", "m.gguf") == ({}, "")
