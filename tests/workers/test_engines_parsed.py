"""Every command line that we render is understood by the engine's own argument parser, in its own environment."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest
from engine_settings import each_setting

from agentflow.channel.messages import StartEngine
from agentflow.workers.engines import ENGINES
from agentflow.workers.engines.parsers import REASONING, TOOL_CALLS
from tests.engines_cpu.environments import python_of

ROOT = Path(__file__).parents[2]
LIMIT_S = 240
# Of an SGLang older than the one that is tested here; they reach it and it says so.
GONE_FROM_SGLANG = {"torchao_config", "enable_ep_moe", "enable_nan_detection"}

ENGINE = [pytest.param(name, marks=getattr(pytest.mark, name)) for name in ("vllm", "sglang")]


def parsed(engine: str, specs: dict[str, StartEngine]) -> dict[str, str | None]:
    """By the name of each spec the parser's complaint, or None."""
    rendered = {name: ENGINES[engine].render(spec, 21000).argv for name, spec in specs.items()}
    command = ENGINES[engine].render(next(iter(specs.values())), 21000).argv
    skip = command.index("serve") + 1 if engine == "vllm" else command.index("sglang.launch_server") + 1
    script = str(ROOT / "tests" / "engines_cpu" / "parse_commands.py")
    done = subprocess.run(
        [python_of(engine), script, engine],
        input=json.dumps([argv[skip:] for argv in rendered.values()]),
        capture_output=True, text=True, timeout=LIMIT_S, check=False, env={**os.environ, "PYTHONPATH": ""},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return dict(zip(rendered, json.loads(done.stdout.splitlines()[-1]), strict=True))


def spec(engine: str, **options: Any) -> StartEngine:
    return StartEngine(engine, "org/model", "default", "key", "/logs/worker-0-engine.log", options)


@pytest.mark.parametrize("engine", ENGINE)
def test_every_setting_and_every_parser_is_understood(engine: str) -> None:
    specs = {"nothing set": spec(engine)}
    for name, values in each_setting(engine).items():
        specs |= {f"{name}={v}": spec(engine, **{name: v}) for v in values}
    for key, table in (("tool_call_parser", TOOL_CALLS), ("reasoning_parser", REASONING)):
        for parser in {getattr(p, engine) for p in table}:
            specs[f"{key}={parser}"] = spec(engine, **{key: parser})
    specs["of other sections"] = spec(engine, chat_template_kwargs={"a": False}, tokenizer_path="/t")
    specs["further flags"] = spec(engine, extra_args=("--trust-remote-code",))
    specs["parallel"] = msgspec.structs.replace(spec(engine), tensor_parallel=2, pipeline_parallel=3)
    if engine == "sglang":
        for rank in (0, 1):
            several = {"nodes": 2, "node_rank": rank, "dist_init_addr": "node-a:21001", "tensor_parallel": 16}
            specs[f"rank {rank}"] = msgspec.structs.replace(spec(engine), **several)
    specs["wrong"] = spec(engine, extra_args=("--no-such-flag",))
    complaints = {name: said for name, said in parsed(engine, specs).items() if said}
    assert "--no-such-flag" in complaints.pop("wrong"), "the parser takes everything"
    gone = {n: s for n, s in complaints.items() if n.partition("=")[0] in GONE_FROM_SGLANG}
    assert {n: s for n, s in complaints.items() if n not in gone} == {}
    assert all("unrecognized arguments" in said for said in gone.values()), gone
