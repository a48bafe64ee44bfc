"""Names of the hub become rows. The library is a stand-in here: what is tested is how we call it and what we make of
its answers."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from agentflow.datasets import open_dataset
from agentflow.errors import DataError, MissingExtraError

GSM8K = [{"question": "2+2?", "answer": "#### 4"}, {"question": "2+3?", "answer": "#### 5"}]


class DatasetNotFoundError(FileNotFoundError):
    """As in the library: a FileNotFoundError, hence an OSError."""


class Hub:
    """Answers load_dataset with ``answer`` (raised if it is an exception) and keeps what was asked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.answer: Any = GSM8K
        self.asked: list[tuple[Any, ...]] = []
        module = ModuleType("datasets")
        module.load_dataset = self.load  # type: ignore[attr-defined]
        module.exceptions = SimpleNamespace(DatasetNotFoundError=DatasetNotFoundError)  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "datasets", module)

    def load(self, path: str, name: str | None, split: str | None) -> Any:
        self.asked.append((path, name, split))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Hub:
    return Hub(monkeypatch)


def test_a_short_name_is_loaded_with_its_config_and_test_split(hub: Hub) -> None:
    dataset = open_dataset("gsm8k", limit=1)
    assert hub.asked == [("openai/gsm8k", "main", "test")]
    assert (len(dataset), dataset.recipe, dataset.item(0).data["answer"]) == (1, "gsm8k", "4")
    assert dataset.raw(0) == GSM8K[0]
    assert len(dataset.fingerprint) == 64


def test_without_a_split_the_test_split_is_taken_or_the_only_one(hub: Hub) -> None:
    hub.answer = {"train": GSM8K, "test": GSM8K[:1]}
    assert len(open_dataset("org/name")) == 1
    hub.answer = {"all": GSM8K}
    assert len(open_dataset("org/name")) == 2
    hub.answer = {"easy": GSM8K, "hard": GSM8K}
    with pytest.raises(DataError, match="splits easy, hard: name one, as in org/name:easy"):
        open_dataset("org/name")


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (ConnectionError("Couldn't reach 'org/name' on the Hub"), "cannot be reached"),
        (ConnectionError("Couldn't reach 'org/name' on the Hub"), "give a local file instead"),
        (DatasetNotFoundError("Dataset 'org/name' doesn't exist on the Hub"), "neither a file here nor a data set"),
        (ValueError("Unknown split \"x\". Should be one of ['test'].\nmore"), "Should be one of"),
    ],
)
def test_what_went_wrong_is_one_sentence(hub: Hub, answer: Exception, said: str) -> None:
    hub.answer = answer
    with pytest.raises(DataError) as caught:
        open_dataset("org/name:x")
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_without_the_library_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(MissingExtraError, match="extra 'hub'"):
        open_dataset("gsm8k")


def test_without_pyarrow_the_extra_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    (tmp_path / "d.parquet").write_bytes(b"PAR1")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match="extra 'parquet'"):
        open_dataset(str(tmp_path / "d.parquet"))
