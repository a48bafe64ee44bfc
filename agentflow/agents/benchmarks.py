"""Short names of the benchmarks that lie beside this package in a checkout.

``bfcl`` is the agent of ``benchmarks/bfcl/agent.py``, ``bfcl:multi_turn_base`` the function of that name in
``benchmarks/bfcl/data.py``. A new benchmark is one folder with these two files.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import agentflow

FOLDER = Path(agentflow.__file__).resolve().parents[1] / "benchmarks"


@dataclass(frozen=True)
class Benchmark:
    """What a short name stands for: a module, a name in it ("" for the module's only agent), and its folder."""

    module: str
    attribute: str
    folder: Path


def benchmark(path: str) -> Benchmark | None:
    """What ``path`` stands for, if it is a benchmark's short name. It wins over a module of the same name."""
    name, _, attribute = path.partition(":")
    folder = FOLDER / name
    if not name.isidentifier() or not (folder / "agent.py").is_file():
        return None
    return Benchmark(f"{FOLDER.name}.{name}.{'data' if attribute else 'agent'}", attribute, folder)


def names() -> list[str]:
    """The short names of the benchmarks that there are; none outside a checkout."""
    return sorted(agent.parent.name for agent in FOLDER.glob("*/agent.py") if agent.parent.name.isidentifier())
