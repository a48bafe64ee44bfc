"""The commands that the README shows, run as a newcomer would: in a fresh copy of the checkout."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.conftest import scripted_process

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


def commands() -> list[str]:
    blocks = re.findall(r"```console\n(.*?)```", README, re.DOTALL)
    return [line.removeprefix("$ ") for block in blocks for line in block.splitlines() if line.startswith("$ ")]


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files that git tracks or would track, in a folder of their own."""
    copy = tmp_path_factory.mktemp("checkout")
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            (copy / name).write_bytes((ROOT / name).read_bytes())
            (copy / name).chmod((ROOT / name).stat().st_mode)
    return copy


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with scripted_process() as url:
        yield url


def test_the_two_commands_are_there_and_ci_runs_the_test_command() -> None:
    assert commands()[0] == "make demo"
    assert "make test" in commands()
    assert " make test\n" in (ROOT / ".ci" / "run").read_text()


@pytest.mark.readme
@pytest.mark.timeout(900)
def test_every_command_of_the_readme_works_one_after_the_other(checkout: Path, endpoint: str) -> None:
    outside = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "VIRTUAL_ENV", "AGENTFLOW_"))}
    for command in commands():
        if command == "make test":  # it is what runs this; .ci/run calls it
            continue
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=checkout,
            env={**outside, "ENDPOINT": endpoint, "COLUMNS": "100"},
            capture_output=True,
            text=True,
            timeout=600,
        )
        print(f"$ {command}\n{done.stdout[-3000:]}")
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        if (" run " in command and "--dry-run" not in command) or command == "make demo":
            assert "coverage      100 %" in done.stdout
        if " show " in command:
            assert "call 1" in done.stdout
