"""``python -m benchmarks.multi_turn`` from the outside: a real controller, real runners, an endpoint that is known."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from agentflow.store import read_results
from benchmarks.multi_turn.options import first_unknown
from benchmarks.multi_turn.reading import read_requests
from tests.benchmarks_multi_turn.conftest import measured, scripted_endpoint
from tests.e2e.conftest import ROOT, CommandLine, lines, ours, until
from tests.scripted import Answer, Ask, chat, chat_chunks, error, scripted, usage

SMALL = ("--clients", "4", "--rounds", "3", "--input-tokens", "50", "--output-tokens", "8")


def run_dir(command_line: CommandLine, trial: str = "t") -> Path:
    return command_line.cwd / "runs" / "agentflow" / trial


def test_a_run_is_measured_exactly_as_the_endpoint_served_it(multi_turn: CommandLine) -> None:
    with scripted_endpoint() as url:
        done = multi_turn("rounds", *SMALL, "--base-url", url, "trial_name=t")
    assert done.code == 0, done.out + done.err
    m = measured(run_dir(multi_turn))
    assert m.whole is not None
    assert (m.expected, m.warm_up, m.played, m.missing) == (12, 4, 8, 0)
    assert (m.whole.requests, m.whole.errors, m.whole.episodes, m.whole.turns) == (24, 0, 8, 24)
    assert m.whole.output_tokens == 24 * 8
    assert m.whole.most_in_flight <= 4
    prompts, cached = [54, 120, 186], [0, 66, 132]  # 4 tokens a message beside its words
    for row, prompt, from_cache in zip(m.turns, prompts, cached, strict=True):
        assert row.requests == 8
        assert row.lengths is not None
        assert (row.lengths.prompt, row.lengths.output, row.lengths.output_asked) == (prompt, 8, 8)
        assert row.lengths.cached_share == from_cache / prompt
    assert (m.input_asked, m.input_measured) == (50, pytest.approx((54 + 58 + 58) / 3)), "the reply's 4 are not its own"
    assert m.whole.prompt_tokens == 8 * sum(prompts)
    assert m.times is not None
    t = m.times
    assert t.tools == 0
    assert t.model + t.queue + t.preparation + t.harness == pytest.approx(t.wall)
    assert min(t.model, t.harness) > 0
    assert m.cache[0] == "warmed by 4 other conversations"
    for part in ("requests/s", "first token", "between tokens", "from cache", "an episode", "8.0 tokens a reply"):
        assert part in done.out


def test_it_can_be_printed_again_from_the_run_directory_and_read_turn_by_turn(
    multi_turn: CommandLine, agentflow: CommandLine
) -> None:
    with scripted_endpoint() as url:
        done = multi_turn("rounds", *SMALL, "--warmup", "0", "--conversations", "2", "--base-url", url, "trial_name=t")
    assert done.code == 0, done.out + done.err
    numbers = (run_dir(multi_turn) / "serving.json").read_bytes()
    (run_dir(multi_turn) / "serving.json").unlink()
    again = multi_turn("report", "runs/agentflow/t")
    assert again.code == 0, again.err
    assert again.out.strip() in done.out
    assert (run_dir(multi_turn) / "serving.json").read_bytes() == numbers
    assert (run_dir(multi_turn) / "serving.svg").read_text().startswith("<svg")
    shown = agentflow("show", "runs/agentflow/t", "--episode", "conversation-00000/0").out
    assert "word word word word word word word word" in shown


def test_pieces_come_no_sooner_than_the_endpoint_sends_them(multi_turn: CommandLine) -> None:
    first_s, between_s = 0.05, 0.01
    with scripted_endpoint("--first", str(first_s), "--between", str(between_s)) as url:
        done = multi_turn("rounds", *SMALL, "--warmup", "0", "--conversations", "4", "--base-url", url, "trial_name=t")
    assert done.code == 0, done.out + done.err
    results = read_results(run_dir(multi_turn))
    requests = [r for _, found in read_requests(run_dir(multi_turn), results) for r in found]
    assert len(requests) == 12
    for request in requests:
        assert len(request.arrivals_s) == 8
        assert len(request.gaps_s) == 7
        assert request.ttft_s is not None
        assert first_s <= request.ttft_s <= request.latency_s + 1e-4
        assert request.latency_s >= first_s + 7 * between_s
    m = measured(run_dir(multi_turn))
    assert m.whole is not None
    assert m.whole.delays.ttft is not None
    assert m.whole.delays.ttft.p50 >= first_s


@pytest.mark.asyncio
async def test_errors_of_the_endpoint_are_counted_and_shown_and_not_dropped(multi_turn: CommandLine) -> None:
    def refuse_the_second_turn(ask: Ask) -> Answer:
        if not ask.path.endswith("/chat/completions"):
            return {"object": "list", "data": [{"id": "scripted", "object": "model"}]}
        words = sum(len(m["content"].split()) for m in ask.body["messages"])
        if not ask.stream:
            return chat("x", usage=usage(words, 1))
        if len(ask.body["messages"]) == 3:
            return error(400, "that is too much for this context")
        *chunks, last = chat_chunks("a b c d e f g h", include_usage=True)
        return [*chunks, {**last, "usage": usage(words, 8)}]

    import anyio

    async with scripted(refuse_the_second_turn) as server:
        command = ["rounds", *SMALL, "--warmup", "0", "--conversations", "5", "--base-url", server.url, "trial_name=t"]
        done = await anyio.run_process(
            [sys.executable, "-m", "benchmarks.multi_turn", *command],
            cwd=multi_turn.cwd,
            env=multi_turn.environment,
            stderr=subprocess.STDOUT,
            check=False,
        )
    out = done.stdout.decode()
    assert done.returncode == 0, out
    m = measured(run_dir(multi_turn))
    assert m.whole is not None
    assert (m.whole.requests, m.whole.errors, m.whole.turns, m.whole.episodes) == (5, 5, 5, 5)
    assert [(row.turn, row.requests, row.errors) for row in m.turns] == [(1, 5, 0), (2, 0, 5)]
    assert m.unfinished[0].episodes == 5
    assert "that is too much for this context" in out
    assert "5 episodes failed: exception" in out


def test_the_report_of_a_killed_run_says_partial_and_that_of_the_resumed_one_does_not(
    multi_turn: CommandLine, agentflow: CommandLine
) -> None:
    with scripted_endpoint("--between", "0.01") as url:
        process = multi_turn.background("rounds", *SMALL, "--conversations", "100", "--base-url", url, "trial_name=t")
        until(lambda: len(lines(run_dir(multi_turn) / "episodes.jsonl")) >= 6, "the sixth end of an episode")
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        until(lambda: not ours(str(multi_turn.cwd)), "the end of every process of the run")
        done = multi_turn("report", "runs/agentflow/t")
        assert done.code == 0, done.out + done.err
        m = measured(run_dir(multi_turn))
        assert m.partial
        assert m.missing == 104 - m.warm_up - m.played
        assert f"PARTIAL: {m.missing} of 104 conversations not played" in done.out
        assert m.whole is None or m.whole.requests == 3 * m.played
        resumed = agentflow("resume", "runs/agentflow/t", "rollout.max_concurrent_rollouts=32")
        assert resumed.code == 0, resumed.out + resumed.err
    assert "PARTIAL" not in multi_turn("report", "runs/agentflow/t").out
    m = measured(run_dir(multi_turn))
    assert m.whole is not None
    assert (m.played, m.whole.requests) == (100, 300)


def test_vllms_file_is_played_with_the_lengths_that_were_drawn(multi_turn: CommandLine) -> None:
    def between(low: int, high: int) -> dict[str, object]:
        return {"distribution": "uniform", "min": low, "max": high}

    file = {
        "filetype": "generate_conversations",
        "num_conversations": 5,
        "text_files": ["pg1184.txt"],
        "prompt_input": {
            "num_turns": between(2, 6),
            "common_prefix_num_tokens": {"distribution": "constant", "value": 40},
            "prefix_num_tokens": between(5, 30),
            "num_tokens": between(20, 60),
        },
        "prompt_output": {"num_tokens": between(4, 12)},
    }
    (multi_turn.cwd / "small.json").write_text(json.dumps(file))
    with scripted_endpoint() as url:
        done = multi_turn("vllm", "small.json", "--clients", "3", "--base-url", url, "trial_name=t")
    assert done.code == 0, done.out + done.err
    assert "pg1184.txt of small.json are not read" in done.out
    rows = lines(run_dir(multi_turn).parent / "workloads" / "small-3+5-seed1.jsonl")
    turns = {str(row["id"]): row["turns"] for row in rows}
    assert len(rows) == 8
    m = measured(run_dir(multi_turn))
    assert (m.warm_up, m.played, m.shared_asked) == (3, 5, 40)
    for result, requests in read_requests(run_dir(multi_turn), read_results(run_dir(multi_turn))):
        asked = [output for _, output in turns[result.item_id]]  # type: ignore[misc]
        assert [request.completion_tokens for request in requests] == asked
        assert requests[0].prompt_tokens == 40 + turns[result.item_id][0][0] + 4  # type: ignore[index]


def test_another_agents_run_has_a_report_as_well(multi_turn: CommandLine, agentflow: CommandLine) -> None:
    rows = "\n".join(json.dumps({"question": f"What is {i}?", "answer": "word"}) for i in range(3))
    (multi_turn.cwd / "rows.jsonl").write_text(rows + "\n")
    with scripted_endpoint() as url:
        run = agentflow(
            "run", "rlvr", "--data", "rows.jsonl", "--base-url", url, "--reward", "exact_match", "trial_name=t",
            "--prompt-column", "question",
            "gconfig.max_new_tokens=4",
        )  # fmt: skip
        assert run.code == 0, run.out + run.err
    done = multi_turn("report", "runs/agentflow/t")
    assert done.code == 0, done.err
    m = measured(run_dir(multi_turn))
    assert m.whole is not None
    assert (m.whole.requests, m.whole.delays.ttft, m.warm_up) == (3, None, 0), "it does not stream"
    assert "tools, harness" in done.out


def test_where_nothing_can_be_written_the_table_is_still_printed(multi_turn: CommandLine) -> None:
    with scripted_endpoint() as url:
        done = multi_turn("rounds", *SMALL, "--base-url", url, "trial_name=t")
    assert done.code == 0, done.out + done.err
    (run_dir(multi_turn) / ".serving.json.new").mkdir()
    again = multi_turn("report", "runs/agentflow/t")
    assert again.code == 1
    assert "requests/s" in again.out
    assert again.err.startswith("Error: The table is all there is: serving.json and serving.svg cannot be written into")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("report", "nowhere"), "nowhere"),
        (("vllm", "nowhere.json"), "nowhere.json cannot be read"),
        (("rounds", "--clients", "0"), "--clients"),
        (("rounds", "--no-such-thing=1"), "Error: No such option '--no-such-thing'."),
        (("rounds", "--client", "4"), "Error: No such option '--client' (did you mean '--clients'?)."),
        (("rounds", "--input-token=9"), "Error: No such option '--input-token' (did you mean '--input-tokens'?)."),
        (("vllm", "--conversation", "9"), "Error: No such option '--conversation' (did you mean '--conversations'?)."),
        (("bfcl", "--base-ulr", "http://x"), "Error: No such option '--base-ulr' (did you mean '--base-url'?)."),
        (("rounds", "--client", "4"), "Usage: python -m benchmarks.multi_turn rounds [OPTIONS] [OPTIONS OF agentflow"),
        (("rounds", "--data", "mine.jsonl"), "--data has no place here"),
        (("rounds", "cluster.fileroot=/proc/nowhere"), "set cluster.fileroot to a folder that can be written"),
        (("bfcl", "--category", "simple"), "There is no category 'simple'"),
    ],
)
def test_a_mistake_is_one_sentence(multi_turn: CommandLine, arguments: tuple[str, ...], complaint: str) -> None:
    done = multi_turn(*arguments)
    assert done.code == 2, done.out + done.err
    assert complaint in done.err
    assert "Traceback" not in done.err
    assert not list(multi_turn.cwd.glob("runs/agentflow/*/run.json"))


def test_what_follows_an_option_is_its_value_whatever_it_looks_like() -> None:
    takes_value = {"--seed": True, "--inline": False}
    assert first_unknown(["--seed", "--sed", "--seed=1", "key=--sed", "-5"], takes_value) is None
    assert first_unknown(["--inline", "--sed"], takes_value) == "--sed"
    assert first_unknown(["--seed=1", "--sed=2"], takes_value) == "--sed"
    assert first_unknown(["--", "--sed"], takes_value) is None


def test_a_dry_run_shows_the_plan_and_reports_nothing(multi_turn: CommandLine) -> None:
    done = multi_turn("rounds", *SMALL, "--backend", "llamacpp:d2", "--dry-run")
    assert done.code == 0, done.out + done.err
    assert "requests/s" not in done.out
    assert "worker_calls" not in done.err


def documented() -> list[str]:
    page = (ROOT / "docs" / "serving.md").read_text().replace("\\\n", " ")
    return [line for line in page.splitlines() if re.match(r"python -m benchmarks\.multi_turn \w+", line)]


def test_the_commands_of_the_page_work(multi_turn: CommandLine) -> None:
    commands = documented()
    assert len(commands) >= 5
    (multi_turn.cwd / "generate_multi_turn.json").write_text(
        json.dumps(
            {
                "filetype": "generate_conversations",
                "num_conversations": 2,
                "text_files": ["pg1184.txt"],
                "prompt_input": {
                    "num_turns": {"distribution": "constant", "value": 4},
                    "prefix_num_tokens": {"distribution": "constant", "value": 5},
                    "num_tokens": {"distribution": "constant", "value": 20},
                },
                "prompt_output": {"num_tokens": {"distribution": "constant", "value": 4}},
            }
        )
    )
    with scripted_endpoint() as url:
        for number, command in enumerate(commands):
            given = shlex.split(command.partition("#")[0].replace("$ENDPOINT", url))[3:]
            if given[0] == "bfcl":  # .ci/bfcl has what it needs
                continue
            if given[0] == "report":
                given[1] = "runs/agentflow/t0"
            elif "--base-url" in given:
                given += ["--clients", "2", "--conversations", "3", f"trial_name=t{number}"]
            else:  # other engines than this machine may have
                given += ["--dry-run"]
            done = multi_turn(*given)
            assert done.code == 0, f"{command}\n{done.out}{done.err}"
