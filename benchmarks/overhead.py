"""What agentflow costs a call: CPU of a bare asyncio loop and of the same agent under agentflow, side by side.

``python benchmarks/overhead.py`` plays episodes of three calls against a scripted endpoint that answers at once, in a
process of its own. A side's CPU is user and system time of all its processes: for agentflow controller, runners and
guards, with recorder, store, progress and metrics on. Each side plays a small and a large number of episodes; the
difference of the two, by the calls that the large one made more, is the cost of a call: start-up, imports and shutdown
cancel out. The endpoint's CPU is left out. Sides take turns, so that a machine that others use too slows all of them.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).parents[1]
CALLS_AN_EPISODE = 3
DEADLINE_S = 1800.0


@dataclass(frozen=True)
class Row:
    """A line of the table: which agent, played by which side, and by how many runners (``rollout.runners``)."""

    name: str
    side: str
    agent: str
    runners: str = "auto"


ROWS = (
    Row("openai SDK, bare loop", "httpx2", "PlainAgent"),
    Row("openai SDK, bare loop on its aiohttp client", "aiohttp", "PlainAgent"),
    Row("openai SDK, under agentflow", "agentflow", "PlainAgent"),
)
SDK_ROWS = (
    Row("openai-agents, bare loop", "httpx2", "SdkAgent"),
    Row("openai-agents, under agentflow", "agentflow", "SdkAgent"),
)


@dataclass(frozen=True)
class Used:
    """CPU seconds of one side: of the process that was started, and of its descendants (agentflow's runners)."""

    own_s: float
    children_s: float


@dataclass(frozen=True)
class Cost:
    """CPU milliseconds a call. ``own``: the loop itself, or the controller; ``children``: the runners."""

    own: float
    children: float

    @property
    def total(self) -> float:
        return self.own + self.children


@dataclass(frozen=True)
class Load:
    """How much is played: ``small`` and ``large`` are numbers of episodes."""

    small: int
    large: int
    at_once: int


def cost(small: Used, large: Used, load: Load) -> Cost:
    """The slope between two sizes."""
    calls = (load.large - load.small) * CALLS_AN_EPISODE
    own, children = large.own_s - small.own_s, large.children_s - small.children_s
    return Cost(own * 1000 / calls, children * 1000 / calls)


@contextmanager
def endpoint() -> Iterator[str]:
    """The URL of a scripted endpoint: two tool calls, then an answer, at once."""
    command = [sys.executable, "-m", "tests.scripted"]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
    finally:
        process.kill()
        process.wait()


def play(row: Row, episodes: int, load: Load) -> Used:
    """Play once, in processes that start and end with it."""
    with endpoint() as url:
        command = [sys.executable, str(Path(__file__).with_name("overhead_side.py")), row.side, "--agent", row.agent]
        command += ["--episodes", str(episodes), "--at-once", str(load.at_once), "--runners", row.runners]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
        done = subprocess.run(
            [*command, "--base-url", url], env=environment, stdout=subprocess.PIPE, text=True, timeout=DEADLINE_S
        )
    if done.returncode:
        sys.exit(f"{row.name} ended with {done.returncode}:\n{done.stdout}")
    return Used(**json.loads(done.stdout.splitlines()[-1]))


def measure(rows: Sequence[Row], load: Load, rounds: int) -> dict[Row, list[Cost]]:
    """The cost of each row in each round; within a round the rows take turns, small before large."""
    found: dict[Row, list[Cost]] = {row: [] for row in rows}
    for number in range(1, rounds + 1):
        for row in rows:
            small = play(row, load.small, load)
            found[row].append(cost(small, play(row, load.large, load), load))
            print(f"round {number} of {rounds}: {row.name}: {found[row][-1].total:.2f} ms a call", file=sys.stderr)
    return found


def with_runners(rows: Sequence[Row], runners: Sequence[str]) -> list[Row]:
    """The rows, those of agentflow once for every number of runners."""
    found = []
    for row in rows:
        for number in runners if row.side == "agentflow" else runners[:1]:
            name = f"{row.name}, runners={number}" if row.side == "agentflow" else row.name
            found.append(replace(row, name=name, runners=number))
    return found


def bare_of(row: Row, rows: Iterable[Row]) -> Row:
    """What a row is compared with: the same agent in a bare loop, on the SDK's own transport."""
    return next(other for other in rows if other.side == "httpx2" and other.agent == row.agent)


def table(found: dict[Row, list[Cost]]) -> str:
    """Markdown: medians over the rounds with lowest and highest; ratios are taken within a round."""
    lines = [
        "| CPU ms a call | median | lowest - highest | controller | runners | ratio to the bare loop |",
        "|---|---|---|---|---|---|",
    ]
    for row, costs in found.items():
        totals = [c.total for c in costs]
        own, children = [f"{statistics.median(getattr(c, part) for c in costs):.2f}" for part in ("own", "children")]
        if row.side != "agentflow":
            own = children = ""
        ratios = [c.total / bare.total for c, bare in zip(costs, found[bare_of(row, found)], strict=True)]
        spread = f"{min(ratios):.2f} - {max(ratios):.2f}"
        ratio = "1" if row == bare_of(row, found) else f"**{statistics.median(ratios):.2f}** ({spread})"
        lines.append(
            f"| {row.name} | {statistics.median(totals):.2f} | {min(totals):.2f} - {max(totals):.2f} | {own} "
            f"| {children} | {ratio} |"
        )
    return "\n".join(lines)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rounds", type=int, default=5, help="how often each side plays both sizes")
    arguments.add_argument("--at-once", type=int, default=256, help="episodes at a time")
    arguments.add_argument("--small", type=int, help="episodes of the small size (2 x at once)")
    arguments.add_argument("--large", type=int, help="episodes of the large size (10 x at once)")
    arguments.add_argument("--runners", nargs="+", default=["auto"], help="rollout.runners; several: a row for each")
    arguments.add_argument("--openai-agents", action="store_true", help="also with openai-agents on top of the SDK")
    options = arguments.parse_args()
    load = Load(
        options.small or 2 * options.at_once,
        options.large or 10 * options.at_once,
        options.at_once,
    )
    if load.large <= load.small:
        arguments.error("--large has to be more than --small: the cost is what lies between them.")
    rows = with_runners(ROWS + SDK_ROWS if options.openai_agents else ROWS, options.runners)
    print(table(measure(rows, load, options.rounds)))


if __name__ == "__main__":
    main()
