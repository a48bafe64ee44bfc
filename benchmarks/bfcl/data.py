"""The data of ``bfcl:multi_turn_base`` and its siblings: the package's entries with their golden calls."""

from __future__ import annotations

from typing import Any

from benchmarks.bfcl.package import read_lines, require

CATEGORIES = ("multi_turn_base", "multi_turn_miss_func", "multi_turn_miss_param", "multi_turn_long_context")


def multi_turn_base() -> list[dict[str, Any]]:
    """200 conversations in which all that is needed is there."""
    return rows("multi_turn_base")


def multi_turn_miss_func() -> list[dict[str, Any]]:
    """The same, but a needed function is missing until it is handed over in a turn of its own."""
    return rows("multi_turn_miss_func")


def multi_turn_miss_param() -> list[dict[str, Any]]:
    """The same, but the user leaves a needed value out until he is asked."""
    return rows("multi_turn_miss_param")


def multi_turn_long_context() -> list[dict[str, Any]]:
    """The same, in worlds with hundreds of files, flights and messages: results are long."""
    return rows("multi_turn_long_context")


def multi_turn() -> list[dict[str, Any]]:
    """All four, 800 conversations: the multi-turn column of the leaderboard."""
    return [row for category in CATEGORIES for row in rows(category)]


def rows(category: str) -> list[dict[str, Any]]:
    """The package's entries of a category, each with ``ground_truth``, ``category``, ``apis`` and ``turns``.

    Raises:
        UsageError: the package is not installed.
    """
    require()
    file = f"BFCL_v4_{category}.json"
    golden = {answer["id"]: answer["ground_truth"] for answer in read_lines(f"possible_answer/{file}")}
    return [
        {
            **entry,
            "ground_truth": golden[entry["id"]],
            "category": category,
            "apis": " + ".join(sorted(entry["involved_classes"])),
            "turns": len(entry["question"]),
        }
        for entry in read_lines(file)
    ]
