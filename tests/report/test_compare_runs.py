"""Two stored runs against each other, as a reader sees them."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from agentflow.channel.messages import AgentInfo
from agentflow.episode import EpisodeResult, Outcome
from agentflow.errors import NotARunError, StoreError
from agentflow.report import compare_runs
from agentflow.store import DataInfo, Manifest, Rules, forced, read_manifest
from agentflow.store.files import EPISODES
from agentflow.store.manifest import write_manifest


def stored(folder: Path, rewards: dict[str, float], ids: tuple[str, ...] = (), **rules: object) -> Path:
    folder.mkdir()
    manifest = Manifest(
        run_id="r",
        created_at=1.0,
        versions={},
        config={},
        agent=AgentInfo("MathAgent", True),
        rules=Rules(**rules),  # type: ignore[arg-type]
        data=DataInfo("problems.jsonl", ids=ids, n_items=len(ids)),
    )
    write_manifest(folder, manifest)
    results = [EpisodeResult(item, 0, 0, Outcome.SCORED, reward=reward) for item, reward in rewards.items()]
    (folder / EPISODES).write_bytes(b"".join(msgspec.json.encode(r) + b"\n" for r in results))
    return folder


def test_a_run_that_mixes_two_versions_says_so(tmp_path, printed):
    a, b = (stored(tmp_path / name, {"p": 1.0}, model="small") for name in "ab")
    old = read_manifest(b)
    new = msgspec.structs.replace(old, agent=AgentInfo("MathAgent", True, {"agent.py": "0"}))
    write_manifest(b, msgspec.structs.replace(new, forced=(forced(old, new, 1.0),)))
    text = printed(compare_runs, a, b, width=140)
    assert text.count("resumed with --force after a change of the agent: its numbers may mix two versions") == 1


def test_the_difference_is_paired_and_what_else_differs_is_said(tmp_path, printed):
    a = stored(tmp_path / "a", {"p": 0.0, "q": 0.0, "r": 1.0, "x": 1.0}, model="small")
    b = stored(tmp_path / "b", {"p": 1.0, "q": 0.0, "r": 1.0, "y": 1.0}, model="large")
    text = printed(compare_runs, a, b, width=120)
    assert "model: small -> large" in text
    assert "B - A         0.333" in text
    assert "over 3 items that both have" in text
    assert "1 better   2 the same   0 worse" in text
    assert "only in A     1 item, such as x" in text
    assert "only in B     1 item, such as y" in text
    assert [line.split() for line in text.splitlines() if "+1.000" in line] == [["p", "0.000", "1.000", "+1.000"]]
    assert "PARTIAL" not in text


def test_of_many_items_the_most_worse_and_the_most_better_are_listed(tmp_path, printed):
    a = stored(tmp_path / "a", {f"i{n:02}": 0.5 for n in range(20)})
    b = stored(tmp_path / "b", {f"i{n:02}": n / 20 for n in range(20)})
    text = printed(compare_runs, a, b, width=120)
    listed = [line.split()[0] for line in text.splitlines() if line.strip().startswith("i") and line.split()[1:]]
    assert listed == ["items", "item", *(f"i{n:02}" for n in (0, 1, 2, 3, 4, 15, 16, 17, 18, 19))]
    assert "and 9 more that changed" in text  # i10 is as it was


def test_a_run_that_is_not_over_is_called_partial_and_one_of_several_samples_says_so(tmp_path, printed):
    a = stored(tmp_path / "a", {"p": 0.0, "q": 1.0}, ids=("p", "q"))
    b = stored(tmp_path / "b", {"p": 1.0}, ids=("p", "q"), n_samples=2)
    first, second = (line for line in printed(compare_runs, a, b, width=160).splitlines() if "MathAgent" in line)
    assert "PARTIAL" not in first
    assert "samples" not in first
    assert "2 samples" in second
    assert "PARTIAL, 3 episodes owed" in second


def test_a_run_against_itself_is_said_to_be_one(tmp_path, printed):
    a = stored(tmp_path / "a", {"p": 0.0, "q": 1.0})
    b = stored(tmp_path / "b", {"p": 0.0, "q": 1.0})
    assert "A and B are the same run" in printed(compare_runs, a, tmp_path / "b" / ".." / "a", width=140)
    assert "A and B are the same run" not in printed(compare_runs, a, b, width=140)


def test_a_file_in_place_of_a_run_is_a_mistake_of_usage(tmp_path):
    (tmp_path / "rows.jsonl").touch()
    with pytest.raises(NotARunError, match="is not a run directory"):
        compare_runs(tmp_path / "rows.jsonl", tmp_path / "rows.jsonl")


def test_runs_that_have_nothing_in_common_have_no_difference(tmp_path, printed):
    text = printed(compare_runs, stored(tmp_path / "a", {"p": 0.0}), stored(tmp_path / "b", {"q": 1.0}), width=120)
    assert "no item has a counted episode in both runs" in text


def test_runs_that_have_nothing_in_common_say_that_first_and_then_some_of_what_differs(tmp_path, printed):
    a = stored(tmp_path / "a", {"p": 0.0}, sampling={f"s{n}": 1 for n in range(8)})
    b = stored(tmp_path / "b", {"q": 1.0}, sampling={f"s{n}": 2 for n in range(8)})
    lines = [line for line in printed(compare_runs, a, b, width=120).splitlines() if line.strip()]
    assert [line.split()[0] for line in lines] == ["A", "B", "B", "only", "only", *["differs"] * 5, "and"]
    assert lines[-1].strip() == "and 3 more that differ"


def test_a_folder_that_is_no_run_is_named(tmp_path):
    with pytest.raises(StoreError, match=r"nowhere/run\.json"):
        compare_runs(stored(tmp_path / "a", {"p": 0.0}), tmp_path / "nowhere")
