"""One side of the overhead benchmark, once: plays episodes, then prints what CPU that took as a line of JSON.

``python benchmarks/overhead_side.py SIDE --agent PlainAgent --episodes 512 --base-url URL``, as ``overhead.py`` does.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import resource
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PATIENCE_S = 600.0  # on a busy machine, 256 connections at once take longer than the 5 s that the SDK gives each
QUESTION = (
    "A train of {n} cars carries {m} people in each car, and 17 more wait at the station. How many people is that?"
)


def rows(episodes: int) -> list[dict[str, Any]]:
    """As many different problems."""
    return [
        {"id": f"row-{n}", "messages": [{"role": "user", "content": QUESTION.format(n=n, m=n % 90)}], "answer": "1"}
        for n in range(episodes)
    ]


async def play_bare(agent: type[Any], transport: str, episodes: int, at_once: int, base_url: str) -> None:
    """A loop as one writes it by hand: one client for all, a queue, ``at_once`` tasks."""
    from openai import AsyncOpenAI, DefaultAioHttpClient

    http_client = DefaultAioHttpClient() if transport == "aiohttp" else None
    todo = iter(rows(episodes))
    async with AsyncOpenAI(
        base_url=f"{base_url}/v1", api_key="none", max_retries=0, timeout=PATIENCE_S, http_client=http_client
    ) as client:

        async def play() -> None:
            for row in todo:
                assert await agent(client).run(row) == 1.0

        await asyncio.gather(*[play() for _ in range(at_once)])


def play_agentflow(agent: str, episodes: int, at_once: int, base_url: str, runners: str) -> None:
    """``agentflow run``, as a user types it."""
    from agentflow.cli import main

    with tempfile.TemporaryDirectory() as scratch:
        data = Path(scratch, "rows.jsonl")
        data.write_text("".join(json.dumps(row) + "\n" for row in rows(episodes)))
        arguments = ["run", f"{HERE / 'overhead_agents.py'}:{agent}", "--data", str(data), "--base-url", base_url]
        arguments += ["--max-concurrent", str(at_once), f"rollout.runners={runners}"]
        with contextlib.suppress(SystemExit):  # how it ended shows in what was written
            main([*arguments, f"cluster.fileroot={scratch}", "trial_name=run"])
        played = [json.loads(line) for line in Path(scratch, "agentflow/run/episodes.jsonl").read_text().splitlines()]
        assert [e["reward"] for e in played] == [1.0] * episodes
        assert {len(e["calls"]) for e in played} == {3}


def cpu_s(who: int) -> float:
    """User and system seconds so far."""
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("side", choices=("httpx2", "aiohttp", "agentflow"))
    arguments.add_argument("--agent", required=True)
    arguments.add_argument("--episodes", type=int, required=True)
    arguments.add_argument("--at-once", type=int, required=True)
    arguments.add_argument("--base-url", required=True)
    arguments.add_argument("--runners", default="auto")
    options = arguments.parse_args()
    if options.side == "agentflow":
        play_agentflow(options.agent, options.episodes, options.at_once, options.base_url, options.runners)
    else:
        import overhead_agents

        agent = getattr(overhead_agents, options.agent)
        asyncio.run(play_bare(agent, options.side, options.episodes, options.at_once, options.base_url))
    used = {"own_s": cpu_s(resource.RUSAGE_SELF), "children_s": cpu_s(resource.RUSAGE_CHILDREN)}
    print(json.dumps(used), flush=True)


if __name__ == "__main__":
    main()
