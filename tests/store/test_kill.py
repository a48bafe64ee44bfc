"""``kill -9`` at any instant loses at most what had not returned, and counts nothing twice."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from agentflow.store import Store, owed, read_attempts, read_calls, read_results

WRITE = """
import asyncio, json, sys
from pathlib import Path
sys.path.insert(0, {tests!r})
from store_samples import make_result
from agentflow.store import Store, owed

ITEMS = [str(i) for i in range(400)]

async def play(store, episode, gate):
    async with gate:
        size = hash(episode.id) % 3000
        result = make_result(episode.item_id, episode.sample_index, episode.attempt, error="e" * size)
        line = json.dumps({{"episode": result.id, "call": {{"id": "c"}}, "request": {{"messages": []}}}}) + "\\n"
        await store.append(result, [line.encode() * (1 + size % 5)])
        print(result.id.ljust({width}), flush=True)

async def main(run):
    async with Store.open(run) as store:
        gate = asyncio.Semaphore(7)
        async with asyncio.TaskGroup() as group:
            for episode in owed(store.results, ITEMS, 2):
                group.create_task(play(store, episode, gate))

asyncio.run(main(Path(sys.argv[1])))
"""


PIPE_BYTES = 4096  # the smallest pipe that there is
LINE_BYTES = 512  # so a writer that nobody reads from comes to a halt eight lines later


def write_until_killed(run: Path, after: int) -> tuple[list[str], int]:
    """Ids whose append had returned; SIGKILL comes once the writer has said so many, and few lines later at most."""
    code = WRITE.format(tests=str(Path(__file__).parent), width=LINE_BYTES - 1)
    command = [sys.executable, "-c", code, str(run)]
    said = b""
    with subprocess.Popen(command, stdout=subprocess.PIPE, pipesize=PIPE_BYTES, bufsize=0) as process:
        while len(said) < after * LINE_BYTES and (more := process.stdout.read(LINE_BYTES)):
            said += more
        process.send_signal(signal.SIGKILL)
        while more := process.stdout.read(PIPE_BYTES):
            said += more
    return [line.decode().strip() for line in said.split(b"\n")[:-1]], process.returncode


def torn_lines(path: Path) -> int:
    data = path.read_bytes()
    return int(bool(data) and not data.endswith(b"\n"))


@pytest.mark.asyncio
async def test_a_killed_writer_loses_nothing_that_had_returned_and_a_resume_completes_it(tmp_path, manifest):
    run = tmp_path / "run"
    async with Store.create(run, manifest):
        pass
    chance = random.Random(7)
    returned: list[str] = []
    kills = 0
    for _ in range(12):
        said, code = write_until_killed(run, chance.randint(1, 90))
        kills += code == -signal.SIGKILL
        returned += said
        attempts = read_attempts(run)
        ids = [r.id for r in attempts]
        assert len(ids) == len(set(ids))
        assert set(returned) <= set(ids)
        assert torn_lines(run / "episodes.jsonl") <= 1
        for r in attempts:
            assert all(call["episode"] == r.id for call in read_calls(run, r))
    assert kills == 12
    write_until_killed(run, 10_000)
    results = read_results(run)
    assert sorted(r.id for r in results) == sorted(f"{i}/{s}" for i in range(400) for s in range(2))
    assert all(r.attempt == 0 for r in results)
    assert len(returned) == len(set(returned))
    async with Store.open(run) as store:
        assert owed(store.results, [str(i) for i in range(400)], 2) == []


@pytest.mark.asyncio
async def test_reopening_works_wherever_the_last_lines_were_torn(tmp_path, manifest, result):
    run = tmp_path / "run"
    async with Store.create(run, manifest) as store:
        a = await store.append(result("a"))
        await store.append(result("b"))
    whole = (run / "episodes.jsonl").read_bytes()
    first = whole.index(b"\n") + 1
    for cut in range(first, len(whole)):
        (run / "episodes.jsonl").write_bytes(whole[:cut])
        async with Store.open(run) as store:
            assert list(store.results.values()) == [a]
        assert (run / "episodes.jsonl").read_bytes() == whole[:first]
