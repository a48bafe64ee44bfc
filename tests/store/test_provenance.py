"""Git state and versions, where they can be had."""

from __future__ import annotations

import platform
import subprocess

from agentflow import __version__
from agentflow.store import git_state, model_fingerprint, package_versions


def git(directory, *arguments):
    identity = ["-c", "user.name=n", "-c", "user.email=e@example.org"]
    done = subprocess.run(["git", *identity, *arguments], cwd=directory, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_a_checkout_tells_its_commit_and_whether_tracked_files_changed(tmp_path):
    git(tmp_path, "init")
    assert git_state(tmp_path) is None
    (tmp_path / "agent.py").write_text("1")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-m", "first")
    state = git_state(tmp_path)
    assert state.commit == git(tmp_path, "rev-parse", "HEAD")
    assert not state.dirty
    (tmp_path / "untracked").write_text("")
    assert not git_state(tmp_path).dirty
    (tmp_path / "agent.py").write_text("2")
    assert git_state(tmp_path).dirty


def test_without_a_checkout_or_without_git_there_is_none(tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    (tmp_path / "plain").mkdir()
    assert git_state(tmp_path / "plain") is None
    monkeypatch.setenv("PATH", str(tmp_path))
    assert git_state(tmp_path) is None


def test_versions_name_python_agentflow_and_only_what_is_installed():
    versions = package_versions()
    assert versions["python"] == platform.python_version()
    assert versions["agentflow"] == __version__
    assert all(versions.values())


def test_another_checkpoint_under_the_same_path_has_another_fingerprint(tmp_path):
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(bytes(1 << 20))
    (tmp_path / "config.json").write_text("{}")
    before = model_fingerprint(tmp_path)
    (tmp_path / "events.log").write_text("of no meaning to the model")
    assert model_fingerprint(tmp_path) == before
    with weights.open("r+b") as f:
        f.seek(-8, 2)
        f.write(b"trained!")
    assert model_fingerprint(tmp_path) != before


def test_the_fingerprint_of_one_file_does_not_depend_on_where_it_lies_and_a_hub_name_has_none(tmp_path):
    for name in ("a.gguf", "b.gguf"):
        (tmp_path / name).write_bytes(b"GGUF")
    assert model_fingerprint(tmp_path / "a.gguf") == model_fingerprint(tmp_path / "b.gguf")
    assert model_fingerprint(tmp_path / "org" / "name") == ""
