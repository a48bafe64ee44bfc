"""The data of ``tau2:airline`` and its siblings: the package's tasks, those of its split ``base`` unless it says so."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from benchmarks.tau2.package import require, task_rows

DOMAINS = ("airline", "retail", "telecom")  # those of the leaderboard


def airline() -> list[dict[str, Any]]:
    """50 tasks: bookings, changes, cancellations and refunds."""
    return rows("airline")


def retail() -> list[dict[str, Any]]:
    """114 tasks: orders to be cancelled, changed, returned and exchanged."""
    return rows("retail")


def telecom() -> list[dict[str, Any]]:
    """114 tasks: a phone that does not work, in the hands of a user who has tools as well."""
    return rows("telecom")


def base() -> list[dict[str, Any]]:
    """All 278 of these, as the leaderboard has them."""
    return [row for domain in DOMAINS for row in rows(domain)]


def telecom_small() -> list[dict[str, Any]]:
    """20 of telecom's tasks with one fault each."""
    return rows("telecom", "small")


def telecom_full() -> list[dict[str, Any]]:
    """All 2,285 combinations of faults and personas, of which ``telecom`` is a choice."""
    return rows("telecom", "full")


def mock() -> list[dict[str, Any]]:
    """9 tasks of a tiny domain (a list of things to do), to try out an engine."""
    return rows("mock")


def telecom_named() -> list[dict[str, Any]]:
    """``telecom`` for the scripted server: the user's scenario names the task, since 113 share theirs with others."""
    return [_with_name(row) for row in telecom()]


def mock_named() -> list[dict[str, Any]]:
    """``mock`` likewise."""
    return [_with_name(row) for row in mock()]


def rows(domain: str, split: str = "base") -> list[dict[str, Any]]:
    """A domain's tasks, each with ``domain``, ``basis``, ``issue`` and ``persona``.

    ``basis`` is what the reward is made of; ``issue`` (``mms_issue``, ...) and ``persona`` (``None``, ``Easy``,
    ``Hard``) are telecom's, and empty in other domains.

    Raises:
        UsageError: the package is not installed.
    """
    require()
    return [
        {
            "id": f"{domain}_{task['id']}",
            "domain": domain,
            "basis": _basis(task),
            **_named(domain, task["id"]),
            "task": task,
        }
        for task in task_rows(domain, split)
    ]


def _with_name(row: Mapping[str, Any]) -> dict[str, Any]:
    task, scenario = row["task"], row["task"]["user_scenario"]
    persona = f"{scenario.get('persona') or ''}\nThis is about {row['id']}."
    return {**row, "task": {**task, "user_scenario": {**scenario, "persona": persona}}}


def _basis(task: Mapping[str, Any]) -> str:
    criteria = task.get("evaluation_criteria") or {}
    return " + ".join(sorted(criteria.get("reward_basis") or ("DB", "COMMUNICATE")))


def _named(domain: str, id: str) -> dict[str, str]:
    """What telecom's ids say: ``[mms_issue]break_app_sms_permission|...[PERSONA:Hard]``."""
    found = re.fullmatch(r"\[(\w+)\].*\[PERSONA:(\w+)\]", id) if domain == "telecom" else None
    return {"issue": found[1], "persona": found[2]} if found else {"issue": "", "persona": ""}
