"""Git state and versions, where they can be had."""

from __future__ import annotations

import platform
import subprocess

from agentflow import __version__
from agentflow.store import git_state, package_versions


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
