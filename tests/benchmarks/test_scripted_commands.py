"""The scripted servers as a user starts them: a mistake is one sentence, Ctrl-C an end, a plain call has an answer."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer

from benchmarks.multi_turn.scripted import REPLY_TOKENS, Pace, paced
from tests.e2e.conftest import DEADLINE_S, ROOT

BFCL, TAU2, MULTI_TURN = (f"benchmarks.{name}.scripted" for name in ("bfcl", "tau2", "multi_turn"))


def started(module: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", module, *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=DEADLINE_S)


@pytest.mark.parametrize(
    ("module", "name", "sentence"),
    [
        (
            BFCL,
            "multi_turn_bse",
            "no category 'multi_turn_bse' (did you mean 'multi_turn_base'?): there are multi_turn_",
        ),
        (BFCL, "multi_turn", "multi_turn_long_context; multi_turn is all four, and a server plays one of them."),
        (TAU2, "airlines", "no domain 'airlines' (did you mean 'airline'?): there are airline, retail, telecom, mock"),
        (TAU2, "base", "There is no domain 'base': there are airline, retail, telecom, mock (the first three"),
    ],
)
def test_another_name_is_refused_with_those_that_there_are(module: str, name: str, sentence: str) -> None:
    done = started(module, name)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("Error: There is no ")
    assert sentence in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(("module", "name"), [(BFCL, "multi_turn_miss_param"), (TAU2, "mock"), (MULTI_TURN, "--port")])
def test_the_help_lists_what_can_be_given(module: str, name: str) -> None:
    done = started(module, "--help")
    assert done.returncode == 0
    assert name in done.stdout


def test_a_port_that_is_taken_or_none_is_one_sentence() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        for wrong, reason in ((port, "in use"), (70_000, "0-65535")):
            done = started(MULTI_TURN, "--port", str(wrong))
            assert (done.returncode, done.stdout) == (2, "")
            assert done.stderr.startswith(f"Error: Port {wrong} of 127.0.0.1 cannot be had (")
            assert reason in done.stderr
            assert done.stderr.count("\n") == 1


def test_ctrl_c_ends_it_without_a_word() -> None:
    command = [sys.executable, "-m", MULTI_TURN]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        assert server.stdout.readline().startswith("http://127.0.0.1:")
        server.send_signal(signal.SIGINT)
        _, said = server.communicate(timeout=DEADLINE_S)
    assert (server.returncode, said) == (0, "")


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("asked", "length"), [({}, REPLY_TOKENS), ({"max_tokens": None}, REPLY_TOKENS), ({"max_completion_tokens": 3}, 3)]
)
async def test_a_call_without_max_tokens_has_a_reply_of_the_default_length(asked: dict[str, Any], length: int) -> None:
    messages = [{"role": "user", "content": [{"type": "text", "text": "Two words"}]}]
    body = {"messages": messages, **asked}
    async with (
        TestClient(TestServer(paced(Pace()))) as client,
        client.post("/v1/chat/completions", json=body) as reply,
    ):
        assert reply.status == 200
        usage = (await reply.json())["usage"]
    assert (usage["prompt_tokens"], usage["completion_tokens"]) == (6, length)
