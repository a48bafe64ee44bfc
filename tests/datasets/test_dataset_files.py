"""Files become items, and what is wrong with a file is said in one sentence with its line."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from agentflow.channel.messages import MAX_ROW_BYTES
from agentflow.datasets import open_dataset, preview, rows_dataset
from agentflow.errors import DataError


def write(path: Path, text: str | bytes) -> str:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(path)


ROWS = [{"q": "one", "n": 1}, {"q": "zwei, drei", "n": 2}, {"q": 'say "four"\nplease', "n": 3}]


def test_the_same_rows_have_the_same_ids_in_every_format(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    pq.write_table(pa.Table.from_pylist(ROWS), tmp_path / "d.parquet")
    lines = "\n".join(json.dumps(r) for r in ROWS)
    swapped = "\n".join(json.dumps(dict(reversed(r.items())), indent=None, separators=(",", ":")) for r in ROWS)
    opened = [
        rows_dataset(ROWS),
        open_dataset(write(tmp_path / "d.jsonl", lines)),
        open_dataset(write(tmp_path / "swapped.ndjson", swapped + "\n\n")),
        open_dataset(write(tmp_path / "d.json", json.dumps(ROWS, indent=2))),
        open_dataset(write(tmp_path / "wrapped.json", json.dumps({"data": ROWS}))),
        open_dataset(write(tmp_path / "lines.json", lines)),
        open_dataset(str(tmp_path / "d.parquet")),
    ]
    for dataset in opened:
        assert dataset.ids == opened[0].ids
        assert [dataset.item(i).data for i in range(len(dataset))] == ROWS
        assert dataset.recipe == "none"


def test_csv_and_tsv_give_text_and_quoted_fields_may_hold_line_breaks(tmp_path: Path) -> None:
    text = '\ufeffid,q,answer\r\na,"first,\r\nsecond",1\r\n\r\nb,"say ""hi""\u2028there",2\r\n'
    dataset = open_dataset(write(tmp_path / "d.csv", text))
    expected = [
        {"id": "a", "q": "first,\r\nsecond", "answer": "1"},
        {"id": "b", "q": 'say "hi"\u2028there', "answer": "2"},
    ]
    assert [i.data for i in preview(dataset, 9)] == expected
    assert list(dataset.ids) == ["a", "b"]
    tabs = open_dataset(write(tmp_path / "d.tsv", "id\tq\na\tx, y\n"))
    assert tabs.raw(0) == {"id": "a", "q": "x, y"}


def test_a_csv_field_may_be_longer_than_pythons_own_limit(tmp_path: Path) -> None:
    dataset = open_dataset(write(tmp_path / "d.csv", "q,n\n" + "x" * 300_000 + ",1\n"))
    assert len(dataset.raw(0)["q"]) == 300_000


def test_a_byte_order_mark_and_windows_line_ends_are_fine(tmp_path: Path) -> None:
    dataset = open_dataset(write(tmp_path / "d.jsonl", '\ufeff{"id": "a", "q": "\u2028"}\r\n{"id": "b", "q": "y"}\r\n'))
    assert [dataset.raw(i) for i in range(2)] == [{"id": "a", "q": "\u2028"}, {"id": "b", "q": "y"}]


def test_the_fingerprint_is_of_the_files_bytes_and_covers_what_was_not_selected(tmp_path: Path) -> None:
    import hashlib

    for name, text in {
        "d.jsonl": '{"a": 1}\n{"a": 2}\n',
        "d.csv": "a\n1\n2\n",
        "d.json": '[{"a": 1}, {"a": 2}]',
    }.items():
        path = write(tmp_path / name, text)
        expected = hashlib.sha256(text.encode()).hexdigest()
        assert open_dataset(path).fingerprint == open_dataset(path, limit=1).fingerprint == expected
    assert rows_dataset([{"a": 1}]).fingerprint == rows_dataset([{"a": 1}]).fingerprint
    assert rows_dataset([{"a": 1}]).fingerprint != rows_dataset([{"a": 2}]).fingerprint


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("d.jsonl", "", "is empty"),
        ("d.jsonl", "\ufeff", "is empty"),
        ("d.jsonl", "\n\n", "has no rows"),
        ("d.csv", "a,b\n", "has no rows"),
        ("d.json", "[]", "has no rows"),
        ("d.jsonl", '{"a": 1}\n{"a": 1,}\n', "line 2 is not JSON"),
        ("d.jsonl", '{"a": 1}\n\n{"a": \n', "line 3 is not JSON"),
        ("d.jsonl", '{"a": 1}\n[1, 2]\n', "line 2: the row is a list, not an object"),
        ("d.jsonl", '{"a": 1}\n"x"\n', "line 2: the row is text"),
        ("d.jsonl", '{"id": 7}\n\n{"id": "7"}\n', "line 3: the id '7' is used already in line 1"),
        ("d.jsonl", '{"id": [1]}\n', "line 1: the id is [1]"),
        ("d.jsonl", '{"id": true}\n', "line 1: the id is True"),
        ("d.jsonl", '{"a": 123456789012345678901234567890}\n', "line 1 cannot be sent to a runner"),
        ("d.jsonl", b'{"a": "x"}\n{"a": "caf\xe9"}\n', "line 2 is not UTF-8 (byte 0xe9)"),
        ("d.csv", b"a,b\n1,2\n1,caf\xe9\n", "line 3 is not UTF-8 (byte 0xe9)"),
        ("d.json", b'[{"a": "x"},\n{"a": "caf\xe9"}]', "line 2 is not UTF-8"),
        ("d.jsonl", '{"a": "x"}\n'.encode("utf-16"), "is UTF-16"),
        ("d.csv", "a,b\n1,2\n".encode("utf-16-le"), "is UTF-16"),
        ("d.csv", "a,b\n1,2\n1,2,3\n", "line 3 has 3 fields where the header has 2"),
        ("d.csv", 'a,b\n"x\ny",2\n1\n', "line 4 has 1 fields"),
        ("d.csv", 'a,b\n1,2\n"never ends,2\n', "line 3: "),
        ("d.csv", "a,,b\n1,2,3\n", "column 2 of the header has no name"),
        ("d.csv", "a,b,a\n1,2,3\n", "names the column 'a' twice"),
        ("d.json", '[{"a": 1},\n{"a": 1,}]', "is not JSON: JSON is malformed: trailing comma in object (line 2)"),
        ("d.json", '{"train": [], "test": []}', "holds one object (with 'train', 'test'), not a list"),
        ("d.json", "3", "holds neither a list nor an object"),
        ("d.json", '[{"a": 1}, 2]', "row 2: the row is a number"),
        ("d.parquet", "PAR0 no parquet at all", "cannot be read as Parquet"),
        ("d.txt", "x", "has no known kind"),
    ],
)
def test_a_fault_is_one_sentence_that_names_file_and_line(
    tmp_path: Path, name: str, content: str | bytes, said: str
) -> None:
    path = write(tmp_path / name, content)
    with pytest.raises(DataError) as caught:
        open_dataset(path)
    message = str(caught.value)
    assert said in message
    assert path in message
    assert "\n" not in message


def test_a_missing_file_is_named_with_its_nearest_neighbour(tmp_path: Path) -> None:
    write(tmp_path / "problems.jsonl", "{}")
    with pytest.raises(DataError, match=r"did you mean .*problems\.jsonl\?"):
        open_dataset(str(tmp_path / "problem.jsonl"))
    with pytest.raises(DataError, match="there is no directory"):
        open_dataset(str(tmp_path / "nowhere" / "x.jsonl"))
    with pytest.raises(DataError, match=r"is a directory: name a file in it, such as .*problems\.jsonl"):
        open_dataset(str(tmp_path))


def test_a_file_changed_after_it_was_opened_is_refused_and_not_misread(tmp_path: Path) -> None:
    path = write(tmp_path / "d.jsonl", '{"a": "first"}\n{"a": "second"}\n')
    dataset = open_dataset(path)
    assert dataset.raw(1) == {"a": "second"}
    write(tmp_path / "d.jsonl", '{"a": "another length"}\n{"a": "second"}\n')
    with pytest.raises(DataError, match="was changed while it was in use"):
        dataset.raw(1)
    (tmp_path / "d.jsonl").unlink()
    with pytest.raises(DataError, match="can no longer be read"):
        dataset.raw(1)


def test_rows_from_python_may_hold_numpy_values_and_times_but_no_open_file(tmp_path: Path) -> None:
    import datetime

    np = pytest.importorskip("numpy")
    when = datetime.datetime(2025, 1, 2, tzinfo=datetime.UTC)
    dataset = rows_dataset([{"id": np.int64(3), "x": np.float64(0.5), "v": np.arange(3), "when": when, "b": b"\0"}])
    assert dataset.item(0).data == {"id": 3, "x": 0.5, "v": [0, 1, 2], "when": when, "b": b"\0"}
    assert list(dataset.ids) == ["3"]
    with (
        pytest.raises(DataError, match=r"row 2 cannot be sent to a runner: a _io\.FileIO"),
        open(write(tmp_path / "f", "x"), "rb", buffering=0) as file,
    ):
        rows_dataset([{"a": 1}, {"a": file}])
    with pytest.raises(DataError, match="row 1: the row is text"):
        rows_dataset(["x"])  # type: ignore[list-item]


def test_a_row_that_does_not_fit_the_channel_is_refused_with_its_line(tmp_path: Path) -> None:
    path = write(tmp_path / "d.jsonl", '{"id": "a"}\n' + msgspec.json.encode({"image": "x" * MAX_ROW_BYTES}).decode())
    with pytest.raises(DataError, match="line 2 has 15 MiB"):
        open_dataset(str(path))
