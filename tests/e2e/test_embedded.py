"""The whole path on the real embedded engine: llama.cpp with SmolLM2-135M, the example agent in openai-agents."""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import urllib.request
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from agentflow.channel.messages import EngineLoad
from agentflow.store import read_calls, read_results
from agentflow.workers.engines import ENGINES
from agentflow.workers.ports import free_port
from agentflow.workers.smollm2 import embedded_model
from tests.e2e.conftest import DEADLINE_S, ROOT, CommandLine, lines, ours, until

pytestmark = pytest.mark.engine

EXAMPLE = ROOT / "examples" / "math" / "agent.py"
AGENT_SIDE = {"exception", "timeout", "max_turns", "context_overflow", "invalid_reward", "call_timeout", "server_error"}


@dataclass
class Engine:
    url: str
    key: str

    def load(self) -> EngineLoad:
        """Its own counters."""
        request = urllib.request.Request(f"{self.url}/metrics", headers={"Authorization": f"Bearer {self.key}"})
        with urllib.request.urlopen(request, timeout=30) as reply:
            return ENGINES["llamacpp"].load(reply.read().decode())


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    """A llama.cpp server of our own, beside which agentflow is a client."""
    port, key = free_port("127.0.0.1"), secrets.token_hex(16)
    log = tmp_path / "engine.log"
    command = [sys.executable, "-m", "agentflow.workers.llamacpp.server", "--model", str(embedded_model())]
    command += ["--served-name", "smol", "--host", "127.0.0.1", "--port", str(port)]
    command += ["--n-parallel", "4", "--n-ctx", "2048", "--cache-mib", "64"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "AGENTFLOW_ENGINE_KEY": key}
    with log.open("w") as out:
        process = subprocess.Popen(command, env=environment, stdout=out, stderr=out, cwd=ROOT)
    try:
        until(lambda: "ready" in log.read_text() or process.poll() is not None, "the start of the engine")
        assert process.poll() is None, log.read_text()
        yield Engine(f"http://127.0.0.1:{port}", key)
    finally:
        process.terminate()
        process.wait(30)


def gsm8k() -> str:
    data = os.environ.get("AGENTFLOW_TEST_DATA")
    if not data:
        pytest.skip("AGENTFLOW_TEST_DATA is not set: GSM8K is not here")
    return str(Path(data) / "gsm8k" / "test.jsonl")


def trial(agentflow: CommandLine, name: str = "t") -> Path:
    return agentflow.cwd / "runs" / "agentflow" / name


def test_every_call_of_gsm8k_is_in_the_trace_and_the_tokens_are_those_the_server_counted(
    agentflow: CommandLine, engine: Engine
) -> None:
    before = engine.load()
    data = ["--data", gsm8k(), "--limit", "4", "--n-samples", "2", "gconfig.max_new_tokens=48"]
    agentflow.variables["SMOL_KEY"] = engine.key
    endpoint = ["--base-url", engine.url, "--api-key-env", "SMOL_KEY"]
    done = agentflow("run", str(EXAMPLE), *data, *endpoint, "trial_name=t", "rollout.runners=1")
    assert done.code == 0, done.out + done.err
    assert "recipe gsm8k" in done.out
    results = read_results(trial(agentflow))
    assert Counter(r.id.rpartition("/")[2] for r in results) == {"0": 4, "1": 4}
    assert all(r.outcome == "scored" or (r.outcome == "failed" and r.kind in AGENT_SIDE) for r in results)
    for r in results:
        calls = read_calls(trial(agentflow), r)
        assert [c["call"]["id"] for c in calls] == [c.id for c in r.calls]
        assert all(c["request"] and c["response"] for c in calls)
    after = engine.load()
    recorded = [c for r in results for c in r.calls]
    assert sum(c.completion_tokens for c in recorded) == (after.generated_tokens or 0) - (before.generated_tokens or 0)
    assert sum(c.prompt_tokens for c in recorded) == (after.prompt_tokens or 0) - (before.prompt_tokens or 0)


def test_one_at_a_time_at_temperature_0_with_a_seed_gives_the_same_rewards_and_replies_twice(
    agentflow: CommandLine,
) -> None:
    said = []
    for name in ("a", "b"):
        done = agentflow(
            "run", str(EXAMPLE), "--limit", "4", "--max-concurrent", "1", "--seed", "7", f"trial_name={name}",
            "gconfig.temperature=0", "gconfig.max_new_tokens=32",
        )  # fmt: skip
        assert done.code == 0, done.out + done.err
        results = read_results(trial(agentflow, name))
        replies = {
            r.id: [c["response"]["output"][0].get("content") for c in read_calls(trial(agentflow, name), r)]
            for r in results
        }
        said.append(({r.id: (r.outcome, r.reward) for r in results}, replies))
    assert said[0][0] == said[1][0]
    texts = [json.dumps([[part["text"] for part in c or []] for r in s[1].values() for c in r]) for s in said]
    assert texts[0] == texts[1]


def test_many_at_once_send_the_same_bodies_twice(agentflow: CommandLine) -> None:
    bodies = []
    for name in ("a", "b"):
        done = agentflow(
            "run", str(EXAMPLE), "--limit", "6", "--max-concurrent", "6", "--seed", "7", f"trial_name={name}",
            "gconfig.temperature=0", "gconfig.max_new_tokens=8",
        )  # fmt: skip
        assert done.code == 0, done.out + done.err
        results = read_results(trial(agentflow, name))
        bodies.append({r.id: read_calls(trial(agentflow, name), r)[0]["request"] for r in results})
    assert bodies[0] == bodies[1]
    assert len({body["seed"] for body in bodies[0].values()}) == 6, "episodes do not have seeds of their own"


def test_a_worker_that_is_killed_is_restarted_and_no_episode_is_lost(agentflow: CommandLine) -> None:
    controller = agentflow.background(
        "run", str(EXAMPLE), "--limit", "16", "--max-concurrent", "4", "trial_name=t", "gconfig.max_new_tokens=48"
    )
    where = trial(agentflow)
    until(lambda: len(lines(where / "episodes.jsonl")) >= 3 or controller.poll() is not None, "three results")
    engines = [p for p in ours(str(agentflow.cwd)) if "agentflow.workers.llamacpp.server" in " ".join(p.cmdline())]
    engine = next(p for p in engines if "guard.py" not in " ".join(p.cmdline()))
    engine.kill()
    out, _ = controller.communicate(timeout=240)
    assert controller.returncode == 0, out
    results = read_results(where)
    assert len(results) == 16
    assert Counter(r.outcome.value for r in results)["lost"] == 0
    assert not ours(str(agentflow.cwd))


def test_kill_9_of_the_controller_leaves_no_engine_behind(agentflow: CommandLine) -> None:
    controller = agentflow.background("run", str(EXAMPLE), "--limit", "16", "trial_name=t")
    until(lambda: len(ours(str(agentflow.cwd))) >= 5 or controller.poll() is not None, "the start of all processes")
    assert controller.poll() is None
    os.kill(controller.pid, signal.SIGKILL)
    controller.wait()
    until(lambda: not ours(str(agentflow.cwd)), "the end of every process of the run")


def test_serve_gives_a_url_and_a_key_that_any_client_can_use(agentflow: CommandLine) -> None:
    server = agentflow.background("serve")
    assert server.stdout is not None
    said: dict[str, str] = {}
    while "OPENAI_API_KEY" not in said:
        line = server.stdout.readline()
        assert line, "serve ended"
        name, equals, value = line.strip().partition("=")
        if equals:
            said[name] = value
    body = {"model": "default", "messages": [{"role": "user", "content": "Say hello."}], "max_tokens": 8}
    for path in ("/chat/completions", "/responses"):
        if path == "/responses":
            body = {"model": "default", "input": "Say hello.", "max_output_tokens": 16}
        request = urllib.request.Request(
            said["OPENAI_BASE_URL"] + path,
            data=json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {said['OPENAI_API_KEY']}", "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=60) as reply:
            answer = json.load(reply)
        assert answer.get("choices") or answer.get("output")
    server.send_signal(signal.SIGINT)
    server.communicate(timeout=DEADLINE_S)
    assert server.returncode == 0
    assert not ours(str(agentflow.cwd))


CHILD = """
import json, os, urllib.request
def post(path, body, headers):
    headers = {"Content-Type": "application/json", **headers}
    request = urllib.request.Request(path, data=json.dumps(body).encode(), headers=headers)
    return json.load(urllib.request.urlopen(request, timeout=60))
url, key = os.environ["OPENAI_BASE_URL"], os.environ["OPENAI_API_KEY"]
bearer = {"Authorization": "Bearer " + key}
hello = [{"role": "user", "content": "Say hello."}]
post(url + "/chat/completions", {"model": "default", "messages": hello, "max_tokens": 4}, bearer)
post(url.removesuffix("/v1") + "/chat/completions", {"model": "default", "messages": hello, "max_tokens": 4}, bearer)
post(url + "/completions", {"model": "default", "prompt": "One, two,", "max_tokens": 4}, bearer)
post(url + "/responses", {"model": "default", "input": "Say hello.", "max_output_tokens": 16}, bearer)
post(os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages", {"model": "default", "messages": hello, "max_tokens": 4},
     {"x-api-key": os.environ["ANTHROPIC_API_KEY"], "anthropic-version": "2023-06-01"})
print("done")
"""


def test_a_child_process_that_never_heard_of_us_is_captured_in_every_dialect(agentflow: CommandLine) -> None:
    (agentflow.cwd / "child.py").write_text(CHILD)
    (agentflow.cwd / "agent.py").write_text(
        "import asyncio, sys, agentflow\n"
        "class Child:\n"
        "    async def run(self, data):\n"
        "        command = [sys.executable, 'child.py']\n"
        "        pipes = {'stdout': asyncio.subprocess.PIPE, 'env': agentflow.episode_env()}\n"
        "        child = await asyncio.create_subprocess_exec(*command, **pipes)\n"
        "        out, _ = await child.communicate()\n"
        "        return float(out.strip() == b'done')\n"
    )
    (agentflow.cwd / "rows.jsonl").write_text('{"id": "a"}\n{"id": "b"}\n')
    done = agentflow("run", "agent.py", "--data", "rows.jsonl", "trial_name=t")
    assert done.code == 0, done.out + done.err
    results = read_results(trial(agentflow))
    assert [r.reward for r in results] == [1.0, 1.0], results
    apis = ["/v1/chat/completions", "/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages"]
    for r in results:
        assert [c.api for c in r.calls] == apis
        assert all(c.prompt_tokens > 0 and c.completion_tokens > 0 for c in r.calls)


def test_dry_run_prints_what_would_be_started_and_starts_nothing(agentflow: CommandLine) -> None:
    done = agentflow("run", str(EXAMPLE), "--backend", "llamacpp:d2", "--dry-run")
    assert done.code == 0, done.err
    for part in ("agentflow.workers.supervisor", "worker-1", "agentflow.runner.main", "llamacpp.server"):
        assert part in done.out
    assert not list(agentflow.cwd.iterdir())


def test_help_imports_no_sdk() -> None:
    code = "import sys, agentflow.cli; agentflow.cli.cli.main(['--help'], standalone_mode=False); "
    code += (
        "print(sorted(m for m in ('openai', 'agents', 'pydantic', 'omegaconf', 'aiohttp', 'rich') if m in sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.stdout.strip().endswith("[]"), done.stdout + done.stderr
