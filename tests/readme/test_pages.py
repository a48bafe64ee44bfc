"""What the pages say of extras and examples, and how they show tables, is as it is."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

import pytest

from tests.readme.test_links import PAGES, ROOT

README = (ROOT / "README.md").read_text()
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
OWN_SDKS = {"anthropic", "langchain", "langchain_openai"}  # what the extra examples has beyond demo


def test_the_readme_lists_every_extra() -> None:
    table = README.partition("\n## Extras\n")[2]
    listed = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \|", table, re.MULTILINE)
    assert sorted(name for names in listed for name in re.findall(r"\w+", names)) == sorted(EXTRAS)


def test_each_example_is_listed_with_the_extra_that_it_needs() -> None:
    page = (ROOT / "docs" / "workflows.md").read_text().partition("\n## Examples\n")[2]
    listed = dict(re.findall(r"^\| `([\w/.]+)` \|.*\| `(\w+)` \|$", page, re.MULTILINE))
    examples = ROOT / "examples"
    paths = set(examples.rglob("*.py")) - {examples / "child" / "answer.py"}  # a program that child/agent.py runs
    assert listed == {str(p.relative_to(examples)): "examples" if imports(p) & OWN_SDKS else "demo" for p in paths}


def imports(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.partition(".")[0])
        elif isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_tables_have_the_title_that_is_printed(page: Path) -> None:
    """Agent, model and data, three spaces apart."""
    agents = re.findall(r"^ *([\w.]+:[A-Z]\w+ .*)$", page.read_text(), re.MULTILINE)
    assert all(re.fullmatch(r"\S+   \S+   \S+", title) for title in agents), agents


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_data_of_the_hub_is_not_shown_without_its_extra(page: Path) -> None:
    text = page.read_text()
    if re.search(r"--data (math500|gsm8k|aime)\b(?!-)", text):
        assert re.search(r"extra\]?(\(\S+\))?\s+`hub`", text), "say that it needs the extra hub"
