"""``agentflow run`` from the outside: a real controller, real runners, a scripted endpoint."""

from __future__ import annotations

import json
import re
import subprocess
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tests.e2e.conftest import AGENTS, DEADLINE_S, CommandLine, lines, ours, scripted_process, until

RowsFile = Callable[..., Path]


def run_dir(cwd: Path, trial: str = "t") -> Path:
    return cwd / "runs" / "agentflow" / trial


def test_a_run_prints_its_table_and_leaves_every_file_it_promises(
    agentflow: CommandLine, endpoint: str, rows: RowsFile
) -> None:
    data = rows(6, lambda i, row: row.update(reward=i % 2))
    done = agentflow(
        "run", f"{AGENTS}:Quick", "--data", str(data), "--n-samples", "2", "--base-url", endpoint, "trial_name=t"
    )
    assert done.code == 0, done.err
    assert "The columns id, question, answer, reward match no recipe" in done.out
    assert "12 of 12 episodes are in the mean" in done.out
    assert "0.500" in done.out
    where = run_dir(agentflow.cwd)
    assert str(where.relative_to(agentflow.cwd)) in done.out
    episodes = lines(where / "episodes.jsonl")
    assert sorted((e["item_id"], e["sample_index"]) for e in episodes) == sorted(
        (f"row-{i}", s) for i in range(6) for s in range(2)
    )
    assert len(lines(where / "traces.jsonl")) == 12
    assert json.loads((where / "summary.json").read_text())["reward"]["mean"] == 0.5
    manifest = json.loads((where / "run.json").read_text())
    assert manifest["data"]["n_items"] == 6
    assert any(path.endswith("agents.py") for path in manifest["agent"]["modules"])
    assert not ours(str(agentflow.cwd))


METRICS = """
def spread(results):
    return max(r.reward for r in results) - min(r.reward for r in results)

def calls(results, run_dir):
    from agentflow.store import read_calls
    return {"all": sum(len(read_calls(run_dir, r)) for r in results), "mean": 1 / 0}

def played(results):
    return len(results)
"""


def test_metrics_of_the_users_own_stand_in_the_table_and_in_the_files_and_one_that_fails_says_so(
    agentflow: CommandLine, endpoint: str, rows: RowsFile
) -> None:
    (agentflow.cwd / "own.py").write_text(METRICS)
    run = ("run", f"{AGENTS}:Quick", "--data", str(rows(3)), "--n-samples", "2", "--base-url", endpoint)
    done = agentflow(
        *run,
        "--item-metric",
        "own.py:spread",
        "--run-metric",
        "own.py:calls",
        "--run-metric",
        "own:played",
        "trial_name=t",
    )
    assert done.code == 0, done.err
    assert re.search(r"spread +0.000 .*over 3 items", done.out)
    assert re.search(r"played +6.000", done.out)
    assert re.search(r"calls +– it raised ZeroDivisionError: division by zero \(at .*own.py:7 in calls\)", done.out)
    own = json.loads((run_dir(agentflow.cwd) / "summary.json").read_text())["own"]
    assert own["of_run"] == {"played": 6.0}

    (agentflow.cwd / "own.py").write_text(METRICS.replace(', "mean": 1 / 0', ""))
    (agentflow.cwd / "elsewhere").mkdir()
    later = CommandLine(agentflow.cwd / "elsewhere")("show", "../runs/agentflow/t", "--run-metric", "../own.py:played")
    assert later.code == 0, later.err
    assert re.search(r"calls/all +6.000", later.out)
    assert re.search(r"played +6.000", later.out)


STILL_THERE = """
import os, psutil

def runners(results):
    family = psutil.Process(os.getppid()).children(recursive=True)
    return sum("agentflow.runner.main" in p.cmdline() for p in family)
"""


def test_runners_have_ended_before_metric_functions_take_their_time(
    agentflow: CommandLine, endpoint: str, rows: RowsFile
) -> None:
    (agentflow.cwd / "own.py").write_text(STILL_THERE)
    run = ("run", f"{AGENTS}:Quick", "--data", str(rows(2)), "--base-url", endpoint, "trial_name=t")
    done = agentflow(*run, "--run-metric", "own.py:runners")
    assert done.code == 0, done.out + done.err
    own = json.loads((run_dir(agentflow.cwd) / "summary.json").read_text())["own"]
    assert own["of_run"] == {"runners": 0.0}


def test_a_metric_that_cannot_be_imported_is_refused_before_anything_is_played(
    agentflow: CommandLine, endpoint: str, rows: RowsFile
) -> None:
    (agentflow.cwd / "own.py").write_text(METRICS)
    run = ("run", f"{AGENTS}:Quick", "--data", str(rows(1)), "--base-url", endpoint, "trial_name=t")
    done = agentflow(*run, "--run-metric", "own.py:plaid")
    assert done.code == 2
    assert "has no function 'plaid' (did you mean 'played'?)" in done.err
    assert "Traceback" not in done.err
    assert not run_dir(agentflow.cwd).exists()


def test_an_endpoint_of_somebody_else_is_reached_through_the_proxy_of_the_environment(
    agentflow: CommandLine, endpoint: str, rows: RowsFile
) -> None:
    agentflow.variables |= {"http_proxy": endpoint}  # the scripted server answers for whatever host it is asked
    done = agentflow(
        "run", f"{AGENTS}:Quick", "--data", str(rows(2)), "--base-url", "http://model.invalid/v1", "trial_name=t"
    )
    assert done.code == 0, done.out + done.err
    assert "2 of 2 episodes are in the mean" in done.out
    assert "cannot reach" not in done.out + done.err


def test_an_existing_run_is_refused_with_the_resume_command(
    agentflow: CommandLine, endpoint: str, rows: RowsFile
) -> None:
    arguments = ("run", f"{AGENTS}:Quick", "--data", str(rows(1)), "--base-url", endpoint, "trial_name=t")
    assert agentflow(*arguments).code == 0
    again = agentflow(*arguments)
    assert again.code == 2
    assert "agentflow resume" in again.err
    assert len(lines(run_dir(agentflow.cwd) / "episodes.jsonl")) == 1


def test_a_plain_run_is_played_through_the_gateway(agentflow: CommandLine, endpoint: str, rows: RowsFile) -> None:
    done = agentflow("run", f"{AGENTS}:Plain", "--data", str(rows(4)), "--base-url", endpoint, "trial_name=t")
    assert done.code == 0, done.err
    episodes = lines(run_dir(agentflow.cwd) / "episodes.jsonl")
    assert [e["outcome"] for e in episodes] == ["scored"] * 4
    assert all(len(e["calls"]) == 1 for e in episodes)  # type: ignore[arg-type]


def test_inline_plays_in_the_controller_itself(agentflow: CommandLine, endpoint: str, rows: RowsFile) -> None:
    done = agentflow(
        "run", f"{AGENTS}:Quick", "--data", str(rows(3)), "--base-url", endpoint, "--inline", "trial_name=t"
    )
    assert done.code == 0, done.err
    episodes = lines(run_dir(agentflow.cwd) / "episodes.jsonl")
    assert {e["runner"] for e in episodes} == {"inline"}
    assert [e["outcome"] for e in episodes] == ["scored"] * 3


def test_a_role_that_is_nearly_one_of_the_agents_is_refused_and_one_that_nobody_asks_for_is_told(
    agentflow: CommandLine, endpoint: str, rows: RowsFile
) -> None:
    run = ("run", f"{AGENTS}:WithUser", "--data", str(rows(1)), "--base-url", endpoint)
    done = agentflow(*run, "roles.usr.gconfig.temperature=0", "trial_name=a")
    assert done.code == 2
    assert "asks for no such role; did you mean roles.user?" in done.err
    assert not run_dir(agentflow.cwd, "a").exists()
    done = agentflow(*run, "roles.judge.gconfig.temperature=0", "trial_name=b")
    assert done.code == 0, done.err
    assert "No call asked for the role judge: does the agent call model='judge'?" in done.out


@pytest.mark.parametrize("how", [(), ("--inline",), ("roles.user.gconfig.temperature=0",)], ids=" ".join)
def test_a_role_that_the_class_declares_is_played_by_the_same_workers_and_counted_apart(
    agentflow: CommandLine, endpoint: str, rows: RowsFile, how: tuple[str, ...]
) -> None:
    done = agentflow(
        "run", f"{AGENTS}:WithUser", "--data", str(rows(3)), "--base-url", endpoint, *how, "gconfig.temperature=0.7",
        "trial_name=t",
    )  # fmt: skip
    assert done.code == 0, done.err
    where = run_dir(agentflow.cwd)
    calls = [call for episode in lines(where / "episodes.jsonl") for call in episode["calls"]]  # type: ignore[attr-defined]
    assert Counter(call["role"] for call in calls) == {"default": 3, "user": 6}
    assert len({call["worker"] for call in calls}) == 1
    summary = json.loads((where / "summary.json").read_text())
    assert {role: use["calls"] for role, use in summary["roles"].items()} == {"default": 3, "user": 6}
    assert "user calls" in done.out
    traced = lines(where / "traces.jsonl")
    sent = {(one["call"]["role"], one["request"].get("temperature")) for one in traced}  # type: ignore[attr-defined, index]
    assert sent == {("default", 0.7), ("user", 0.0 if "roles" in str(how) else None)}


def test_a_run_without_a_headline_among_its_metrics_stops_and_says_which_key_to_set(
    agentflow: CommandLine, endpoint: str, rows: RowsFile
) -> None:
    arguments = ("run", f"{AGENTS}:Metrics", "--data", str(rows(50)), "--base-url", endpoint, "--max-concurrent", "2")
    stopped = agentflow(*arguments, "trial_name=t")
    assert stopped.code == 1
    assert "reward_key" in stopped.err
    assert "Traceback" not in stopped.err
    where = run_dir(agentflow.cwd)
    assert lines(where / "episodes.jsonl") == []
    assert f"'agentflow resume {where.relative_to(agentflow.cwd)} rollout.reward_key=NAME" in stopped.err
    resumed = agentflow("resume", str(where), "rollout.reward_key=accuracy")
    assert resumed.code == 0, resumed.err
    assert json.loads((where / "summary.json").read_text())["reward"]["mean"] == 1.0
    told = agentflow(*arguments, "trial_name=u", "rollout.reward_key=style")
    assert told.code == 0, told.err
    assert json.loads((run_dir(agentflow.cwd, "u") / "summary.json").read_text())["reward"]["mean"] == 0.5


def said_by(process: subprocess.Popen[str], words: str) -> str:
    """The output so far, once these words are in it."""
    assert process.stdout is not None
    said = ""
    for line in process.stdout:
        said += line
        if words in line:
            return said
    raise AssertionError(f"{words!r} was never said:\n{said}")


def dying(agentflow: CommandLine, data: Path, *settings: str) -> tuple[subprocess.Popen[str], str]:
    """A run whose endpoint ended after the first result; and that endpoint's URL."""
    arguments = ["run", f"{AGENTS}:Slow", "--data", str(data), "--max-concurrent", "4", "rollout.runners=1"]
    with scripted_process() as url:
        process = agentflow.background(*arguments, "--base-url", url, "trial_name=t", *settings)
        until(lambda: bool(lines(run_dir(agentflow.cwd) / "episodes.jsonl")), "the first result")
    return process, url


def again(url: str) -> AbstractContextManager[str]:
    """An endpoint at the address of one that ended."""
    return scripted_process("tests.scripted", "--port", url.rpartition(":")[2])


def last_outcomes(where: Path) -> Counter[str]:
    return Counter({e["item_id"]: e["outcome"] for e in lines(where / "episodes.jsonl")}.values())


def test_an_endpoint_that_goes_away_is_named_and_waited_for_and_nothing_is_lost(
    agentflow: CommandLine, rows: RowsFile
) -> None:
    where = run_dir(agentflow.cwd)
    process, url = dying(agentflow, rows(40))
    said = said_by(process, f"endpoint-0 at {url} cannot be reached since ")
    assert "(Connection refused): nothing new starts until it is back." in said
    until(lambda: " down " in agentflow("status", str(where)).out, "the endpoint to be down")
    with again(url):
        out, _ = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 0, out
    assert "cannot be reached" not in out
    assert f"endpoint-0 at {url} is back after " in out
    assert last_outcomes(where) == {"scored": 40}


def test_an_endpoint_that_stays_away_ends_the_run_and_a_resume_plays_the_rest_elsewhere(
    agentflow: CommandLine, endpoint: str, rows: RowsFile
) -> None:
    where = run_dir(agentflow.cwd)
    process, url = dying(agentflow, rows(40), "rollout.setup_timeout=1")
    out, _ = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 1, out
    assert f"Error: endpoint-0 at {url} could not be reached for rollout.setup_timeout = 1 s" in out
    assert "lost" not in last_outcomes(where)
    gone = agentflow("resume", str(where))
    assert gone.code == 2
    assert f"The endpoint {url} cannot be reached" in gone.err
    assert "--base-url URL" in gone.err
    done = agentflow("resume", str(where), "--base-url", endpoint)
    assert done.code == 0, done.err
    assert last_outcomes(where) == {"scored": 40}


def test_without_patience_an_endpoint_that_goes_away_makes_lost_episodes_and_exit_code_3_and_a_resume_plays_them(
    agentflow: CommandLine, endpoint: str, rows: RowsFile
) -> None:
    where = run_dir(agentflow.cwd)
    process, url = dying(agentflow, rows(40), "rollout.request_retries=0", "rollout.lost_retries=0")
    said_by(process, "cannot be reached")
    with again(url):
        out, _ = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 3, out
    assert "bounds" in out
    assert set(last_outcomes(where)) == {"scored", "lost"}
    done = agentflow("resume", str(where), f"base_url={endpoint}")
    assert done.code == 0, done.err
    assert last_outcomes(where) == {"scored": 40}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run", "missing.py"], ["missing.py"]),
        (["run", f"{AGENTS}"], ["Quick", "Slow", "Poison"]),
        (["run", f"{AGENTS}:Quik"], ["Quik", "Quick"]),
        (["run", f"{AGENTS}:NoRun"], ["run"]),
        (["run", f"{AGENTS}:Quick", "--data", "nowhere.jsonl"], ["nowhere.jsonl"]),
        (["run", f"{AGENTS}:Quick"], ["--data"]),
        (["run", f"{AGENTS}:Quick", "rolout.runners=2"], ["rolout", "rollout"]),
        (["run", f"{AGENTS}:Quick", "--backend", "sglang:d4d2"], ["sglang:d4d2"]),
        (["run", f"{AGENTS}:Slow", "--agent-arg", "pace=3"], ["pace"]),
        (["run"], ["No agent"]),
        (["run", f"{AGENTS}:Quick", "stray"], ["stray"]),
        (["run", f"{AGENTS}:Quick", "--limit", "0"], ["--limit (valid_dataset.limit) must be 1 or more, not 0."]),
        (["run", "tools", "--reward", "math_reward", "--data", "rows.jsonl"], ["--tools"]),
        (["run", "rlrv"], ["did you mean 'rlvr'?"]),
        (["rnu"], ["No such command 'rnu' (did you mean 'run'?)."]),
        (["resume", "nowhere"], ["nowhere"]),
        (["show", "nowhere"], ["nowhere"]),
        (["run", f"{AGENTS}:Quick", "--config", "nowhere.yaml"], ["nowhere.yaml"]),
        (["run", f"{AGENTS}:Quick", "--backend", "llamacpp:d1", "--model", "nowhere.gguf"], ["nowhere.gguf"]),
        (["run", f"{AGENTS}:Quick", "--seed", "99999999999999999999"], ["seed"]),
        (["run", f"{AGENTS}:Quick", "cluster.fileroot=/dev/null"], ["/dev/null", "cluster.fileroot"]),
        (["serve", "--backend", "llamacpp:d1", "--model", "nowhere.gguf"], ["nowhere.gguf"]),
    ],
)
def test_a_mistake_is_one_sentence_without_traceback_and_leaves_no_run(
    agentflow: CommandLine, endpoint: str, arguments: list[str], words: list[str]
) -> None:
    if arguments[0] == "run" and "--backend" not in arguments:
        arguments = [*arguments, "--base-url", endpoint]
    (agentflow.cwd / "rows.jsonl").write_text('{"messages": [], "answer": "4"}\n')
    done = agentflow(*arguments)
    assert done.code == 2, done.out + done.err
    assert "Traceback" not in done.err + done.out
    for word in words:
        assert word in done.err
    assert not list(agentflow.cwd.glob("runs/*/*"))
    assert not ours(str(agentflow.cwd))


def test_status_tells_from_another_terminal_what_runs_where(
    agentflow: CommandLine, endpoint: str, rows: RowsFile
) -> None:
    agentflow.background(
        "run", f"{AGENTS}:Slow", "--agent-arg", "pause=200", "--data", str(rows(6)), "--base-url", endpoint,
        "trial_name=t", "rollout.runners=2",
    )  # fmt: skip
    where = run_dir(agentflow.cwd)

    def up() -> set[str]:
        return set(re.findall(r"^(\S+) +up\b", agentflow("status", str(where)).out, re.MULTILINE))

    until(lambda: up() == {"endpoint-0", "runner-0", "runner-1"}, "two runners and an endpoint that are up")
    assert endpoint in agentflow("status", str(where)).out


def test_a_data_file_that_changes_during_the_run_stops_it_with_one_sentence_and_costs_no_runner(
    agentflow: CommandLine, endpoint: str, rows: RowsFile
) -> None:
    data = rows(60)
    where = run_dir(agentflow.cwd)
    process = agentflow.background(
        "run", f"{AGENTS}:Slow", "--data", str(data), "--base-url", endpoint, "--max-concurrent", "4", "trial_name=t"
    )
    until(lambda: bool(lines(where / "episodes.jsonl")), "the first result")
    data.write_text('{"id": "row-0"}\n')
    out, _ = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 1, out
    assert f"{data} was changed while it was in use" in out
    assert "Traceback" not in out
    assert "runner_died" not in (where / "episodes.jsonl").read_text()


def test_a_reader_that_goes_away_does_not_end_the_run(agentflow: CommandLine, endpoint: str, rows: RowsFile) -> None:
    process = agentflow.background(
        "run", f"{AGENTS}:Slow", "--data", str(rows(8)), "--base-url", endpoint, "trial_name=t"
    )
    assert process.stdout is not None
    assert process.stdout.readline()
    process.stdout.close()
    assert process.wait(DEADLINE_S) == 0
    assert len(lines(run_dir(agentflow.cwd) / "episodes.jsonl")) == 8
    show = agentflow.background("show", str(run_dir(agentflow.cwd)))
    assert show.stdout is not None
    show.stdout.close()
    assert show.wait(DEADLINE_S) == 0


def test_the_command_line_is_in_the_manifest_and_a_secret_in_it_or_in_the_agents_arguments_is_not(
    agentflow: CommandLine, endpoint: str, rows: RowsFile
) -> None:
    done = agentflow(
        "run", f"{AGENTS}:Keyed", "--data", str(rows(1)), "--base-url", endpoint, "trial_name=t",
        "--agent-arg", "api_key=hunter2hunter2", "workflow_kwargs.password=hunter2hunter2",
    )  # fmt: skip
    assert done.code == 0, done.err
    manifest = (run_dir(agentflow.cwd) / "run.json").read_text()
    assert "hunter2" not in manifest
    assert json.loads(manifest)["command"][:2] == ["agentflow", "run"]
    again = ["resume", str(run_dir(agentflow.cwd)), "--n-samples", "2"]
    refused = agentflow(*again)
    assert refused.code == 2
    assert "workflow_kwargs.password=" in refused.err
    done = agentflow(*again, "workflow_kwargs.api_key=hunter2hunter2", "workflow_kwargs.password=hunter2hunter2")
    assert done.code == 0, done.err
    assert [e["outcome"] for e in lines(run_dir(agentflow.cwd) / "episodes.jsonl")] == ["scored", "scored"]


def test_the_progress_of_a_resume_counts_what_was_played_before_and_has_one_last_line(
    agentflow: CommandLine, endpoint: str, rows: RowsFile
) -> None:
    data = rows(4, lambda i, row: row.update(reward=i % 2))
    run = ("run", f"{AGENTS}:Quick", "--data", str(data), "--limit", "3", "--base-url", endpoint, "trial_name=t")
    first = agentflow(*run)
    assert first.code == 0, first.err
    assert "3 items x 1 = 3 episodes" in first.out
    done = agentflow("resume", str(run_dir(agentflow.cwd)), "--limit", "4")
    assert done.code == 0, done.err
    assert "4 items x 1 = 4 episodes, 3 of them played already" in done.out
    (last,) = (line for line in done.out.splitlines() if "4/4 episodes" in line)
    assert "reward 0.500 (n=4)" in last


def test_after_a_forced_resume_with_other_data_only_the_items_of_the_run_count(
    agentflow: CommandLine, endpoint: str, rows: RowsFile
) -> None:
    data = rows(3, lambda i, row: row.update(reward=1))
    run = ("run", f"{AGENTS}:Quick", "--data", str(data), "--base-url", endpoint, "trial_name=t")
    assert agentflow(*run).code == 0
    rows(3, lambda i, row: row.update(id=f"row-{i + 1}", reward=0))
    where = str(run_dir(agentflow.cwd))
    refused = agentflow("resume", where)
    assert refused.code == 2
    assert "row-0 -> row-1" in refused.err
    forced = agentflow("resume", where, "--force")
    assert forced.code == 0, forced.err
    for out in (forced.out, agentflow("show", where).out):
        assert "3 of 3 episodes are in the mean" in out
        assert "0.667" in out
        assert "warning" in out
        assert "resumed with --force after a change of the data" in out
    later = agentflow("resume", where, "--n-samples", "2")
    assert later.code == 0, later.err
    assert "resumed with --force after a change of the data" in later.out
    (kept,) = json.loads((run_dir(agentflow.cwd) / "run.json").read_text())["forced"]
    assert any("row-0 -> row-1" in line for line in kept["changed"])
