"""Ids, the shuffle, the limit, and what a source's name means."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agentflow.datasets import is_function, open_dataset, rows_dataset
from agentflow.datasets.hub import HubName, hub_name
from agentflow.errors import DataError

TEN = [{"id": f"r{i}", "x": i} for i in range(10)]
ORDER_OF_SEED_1 = ["r6", "r5", "r1", "r0", "r3", "r7", "r8", "r2", "r4", "r9"]


def test_identical_rows_get_an_ordinal_and_their_first_keeps_its_id() -> None:
    once = rows_dataset([{"q": "a"}]).ids[0]
    assert list(rows_dataset([{"q": "a"}, {"q": "b"}, {"q": "a"}, {"q": "a"}]).ids)[0::2] == [once, f"{once}-2"]
    assert rows_dataset([{"q": "a"}, {"q": "b"}, {"q": "a"}, {"q": "a"}]).ids[3] == f"{once}-3"


def test_an_empty_or_null_id_counts_as_none() -> None:
    dataset = rows_dataset([{"id": None, "q": "a"}, {"id": "", "q": "b"}, {"id": "own", "q": "c"}])
    assert dataset.ids[2] == "own"
    assert len(set(dataset.ids)) == 3


def test_ids_come_from_the_raw_row_so_another_recipe_does_not_change_them() -> None:
    rows = [{"question": "?", "answer": "so #### 4"}]
    assert rows_dataset(rows).ids == rows_dataset(rows, template="Q: {question}").ids


def test_the_limit_takes_the_first_rows_and_after_a_shuffle_the_first_of_that() -> None:
    assert list(rows_dataset(TEN, limit=3).ids) == ["r0", "r1", "r2"]
    shuffled = rows_dataset(TEN, shuffle=True)
    assert sorted(shuffled.ids) == sorted(r["id"] for r in TEN)
    assert list(rows_dataset(TEN, shuffle=True, limit=3).ids) == list(shuffled.ids)[:3]
    assert len(rows_dataset(TEN, limit=99)) == 10
    with pytest.raises(DataError, match="limit of 0"):
        rows_dataset(TEN, limit=0)


def test_the_order_of_a_shuffle_is_this_one_on_every_machine() -> None:
    assert list(rows_dataset(TEN, shuffle=True, seed=1).ids) == ORDER_OF_SEED_1
    assert list(rows_dataset(TEN, shuffle=True, seed=2).ids) != ORDER_OF_SEED_1


def test_a_row_more_leaves_the_order_of_the_others() -> None:
    before = list(rows_dataset(TEN, shuffle=True).ids)
    after = list(rows_dataset([*TEN, {"id": "new"}], shuffle=True).ids)
    assert [i for i in after if i != "new"] == before


def test_an_items_index_is_its_place_in_the_selection() -> None:
    dataset = rows_dataset(TEN, shuffle=True, limit=4)
    for index in range(4):
        item = dataset.item(index)
        assert (item.index, item.id) == (index, dataset.ids[index])
        assert item.data["id"] == item.id


def test_rows_stay_in_the_file_and_not_in_memory(tmp_path: Path) -> None:
    import tracemalloc

    path = tmp_path / "big.jsonl"
    path.write_text("".join(json.dumps({"id": i, "text": "x" * 2000}) + "\n" for i in range(5000)))
    tracemalloc.start()
    dataset = open_dataset(str(path))
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert dataset.raw(4999)["id"] == 4999
    assert held < 0.2 * path.stat().st_size


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("pkg.mod:rows", True),
        ("rows.py:rows", True),
        ("some/where/rows.py:rows", True),
        ("data.jsonl", False),
        ("gsm8k", False),
        ("gsm8k:train", False),
        ("org/name:test", False),
        ("org/name", False),
    ],
)
def test_a_module_and_function_is_told_from_a_hub_name(source: str, expected: bool) -> None:
    assert is_function(source) is expected


def test_a_file_wins_over_a_function_of_that_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pkg:rows").write_text("x")
    assert not is_function("pkg:rows")


def test_a_function_is_not_opened_in_this_process() -> None:
    with pytest.raises(DataError, match="rows come from a runner"):
        open_dataset("os.path:join")


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("gsm8k", HubName("openai/gsm8k", "main", "test")),
        ("gsm8k:train", HubName("openai/gsm8k", "main", "train")),
        ("openai/gsm8k", HubName("openai/gsm8k", "main", None)),
        ("openai/gsm8k/socratic:test", HubName("openai/gsm8k", "socratic", "test")),
        ("aime24", HubName("HuggingFaceH4/aime_2024", None, "train")),
        ("org/name", HubName("org/name")),
        ("org/name:train[:10%]", HubName("org/name", None, "train[:10%]")),
        ("word", None),
        ("a/b/c/d", None),
        ("what is this", None),
    ],
)
def test_a_hub_name_says_config_and_split(source: str, name: HubName | None) -> None:
    assert hub_name(source) == name


def test_a_misspelt_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(DataError, match="did you mean 'gsm8k'"):
        open_dataset("gms8k")
