"""Imports run downwards only: the rooms of docs/architecture.md, from the attic to the cellar."""

from __future__ import annotations

import ast
from pathlib import Path

import agentflow

FLOORS = [
    {"cli"},
    {"controller", "report"},
    {"runner", "workers", "schedulers"},
    {"store", "metrics", "agents", "datasets", "rewards", "workflows"},
    {"channel", "config", "processes"},
    {"allocation", "episode", "errors", "proxy", "sampling"},
]
PACKAGE = Path(agentflow.__file__).parent


def floor(room: str) -> int:
    return next(i for i, rooms in enumerate(FLOORS) if room in rooms)


def imported_rooms(file: Path) -> set[str]:
    """Rooms that a file imports, also inside functions, but not for type checking only."""
    tree = ast.parse(file.read_text())
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names.add(node.module)
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    return {name.split(".")[1] for name in names if name.startswith("agentflow.")}


def test_every_room_has_its_floor_and_imports_only_from_below_or_beside() -> None:
    wrong = []
    for file in PACKAGE.rglob("*.py"):
        parts = file.relative_to(PACKAGE).parts
        room = parts[0].removesuffix(".py")
        if room in ("__init__", "__main__"):
            continue
        for other in imported_rooms(file) - {room}:
            if floor(other) < floor(room):
                wrong.append(f"{file.relative_to(PACKAGE)} imports {other}")
    assert not wrong, "\n".join(wrong)


def test_engines_and_schedulers_know_nothing_of_each_other() -> None:
    for room, other in (("schedulers", "workers"), ("workers", "schedulers")):
        assert not [f for f in (PACKAGE / room).rglob("*.py") if other in imported_rooms(f)]


def test_plain_data_imports_nothing_of_ours() -> None:
    assert not imported_rooms(PACKAGE / "episode.py")
    assert not imported_rooms(PACKAGE / "errors.py")
