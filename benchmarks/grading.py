"""The math reward beside bare math_verify: golds against themselves, a table of cases, grades a second, a storm.

    AGENTFLOW_TEST_DATA=<folder> python benchmarks/grading.py --cases tests/rewards/math_kinds.jsonl

The folder holds ``gsm8k/test.jsonl``, ``math500/test.jsonl`` and ``math_cases.jsonl`` (gold, prediction, expected).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from math_verify import parse, verify

from agentflow.datasets import open_dataset
from agentflow.rewards import GraderError, math_reward
from agentflow.rewards.grading import grade

logging.getLogger("math_verify").setLevel(logging.ERROR)
TOWER = "I get \\boxed{\\dfrac{5^{\\left(5^{\\left(5^{\\left(5^5\\right)}\\right)}-4\\right)}-5}{16}}."
TOWERS = (TOWER, "9^9^9^9", "The answer is $(10^8)!$", "\\boxed{\\binom{1000000}{500000}}")

MANY = 100  # cases; of longer tables only our own mistakes are shown


def bare(completion: str, gold: str) -> float:
    """What people write who use math_verify alone."""
    return float(verify(parse(gold), parse(completion)))


def written(gold: str) -> str:
    """A completion as a model writes it that gives this answer."""
    return f"Let us work it out step by step. Hence the answer is $\\boxed{{{gold}}}$."


def golds_against_themselves(name: str, rows: Sequence[dict[str, Any]], golds: Sequence[str]) -> None:
    """A gold answer as the data set has it, graded against a completion that gives just this answer."""
    given = [str(row["answer"]) for row in rows]
    ours = sum(grade(written(gold), answer) for gold, answer in zip(golds, given, strict=True))
    theirs = sum(bare(written(gold), answer) for gold, answer in zip(golds, given, strict=True))
    print(f"{name:<10} ours {ours:.0f} of {len(rows)}   bare math_verify {theirs:.0f} of {len(rows)}")


def cases(path: Path) -> None:
    """Every case in which one of the two (of a long table: ours) disagrees with a mathematician's verdict."""
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    right = {"ours": 0, "bare": 0}
    accepted_wrongly = {"ours": 0, "bare": 0}
    long = len(rows) > MANY
    print(f"{'id':>3} {'expected':<8} {'ours':<5} {'bare':<5} gold | prediction (cases in which one is wrong)")
    for row in rows:
        expected = bool(row["expected"])
        ours, theirs = bool(grade(row["prediction"], row["gold"])), bool(bare(row["prediction"], row["gold"]))
        for name, verdict in (("ours", ours), ("bare", theirs)):
            right[name] += verdict == expected
            accepted_wrongly[name] += verdict and not expected
        if ours != expected or (theirs != expected and not long):
            text = f"{row['gold']} | {row['prediction']}".replace("\n", " ")[:90]
            print(f"{row['id']:>3} {expected!s:<8} {ours!s:<5} {theirs!s:<5} {text}")
    print(f"agree with the verdict: ours {right['ours']} of {len(rows)}, bare math_verify {right['bare']}")
    wrongly = f"ours {accepted_wrongly['ours']}, bare math_verify {accepted_wrongly['bare']}"
    print(f"accepted but wrong: {wrongly} of {sum(not row['expected'] for row in rows)}")


async def through_the_pool(pairs: Sequence[tuple[str, str]]) -> float:
    """Seconds for all grades in reward processes, 64 calls in flight."""
    gate = asyncio.Semaphore(64)

    async def one(completion: str, gold: str) -> float:
        async with gate:
            return await math_reward(completion, gold)

    started = time.perf_counter()
    await asyncio.gather(*(one(*pair) for pair in pairs))
    return time.perf_counter() - started


def in_a_row(fn: Callable[[str, str], float], pairs: Sequence[tuple[str, str]]) -> float:
    started = time.perf_counter()
    for pair in pairs:
        fn(*pair)
    return time.perf_counter() - started


def cpu_seconds() -> float:
    """Of this process and all reward processes, those still alive included."""
    from agentflow.rewards.pool import shared_pool

    total = time.process_time()
    for pid in shared_pool().pids():
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        total += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return total


def speed(name: str, pairs: Sequence[tuple[str, str]], rounds: int) -> None:
    """Grades a second a core: CPU time of all processes involved, both ways in turns so that both see the same load."""
    asyncio.run(through_the_pool(pairs[:200]))  # processes up, parser warm
    in_a_row(bare, pairs[:200])
    ours, theirs = [], []
    for _ in range(rounds):
        before = cpu_seconds()
        asyncio.run(through_the_pool(pairs))
        ours.append((cpu_seconds() - before) / len(pairs))
        started = time.process_time()
        in_a_row(bare, pairs)
        theirs.append((time.process_time() - started) / len(pairs))
    a, b = statistics.median(ours), statistics.median(theirs)
    print(
        f"{name:<28} ours {a * 1e3:6.3f} ms = {1 / a:6.0f}/s a core   bare {b * 1e3:6.3f} ms = {1 / b:6.0f}/s a core"
        f"   ratio {b / a:5.2f} x"
    )


async def storm(count: int, pairs: Sequence[tuple[str, str]]) -> None:
    """``count`` grades with 1 % towers among them, all from this event loop, whose longest stall is measured."""
    stalls: list[float] = []

    async def watch() -> None:
        while True:
            before = time.perf_counter()
            await asyncio.sleep(0.001)
            stalls.append(time.perf_counter() - before - 0.001)

    outcomes = {"1.0": 0, "0.0": 0, "GraderError": 0}

    left = iter(range(count))

    async def player() -> None:
        for index in left:
            completion, gold = pairs[index % len(pairs)]
            if index % 100 == 50:
                completion = TOWERS[index // 100 % len(TOWERS)]
            try:
                outcomes[str(await math_reward(completion, gold))] += 1
            except GraderError:
                outcomes["GraderError"] += 1

    watching = asyncio.create_task(watch())
    started = time.perf_counter()
    await asyncio.gather(*(player() for _ in range(512)))
    elapsed = time.perf_counter() - started
    watching.cancel()
    print(
        f"{count} grades, {count // 100} of them towers: {elapsed:.1f} s, {count / elapsed:.0f}/s; "
        f"{', '.join(f'{n} x {k}' for k, n in outcomes.items())}; longest stall of the loop {max(stalls) * 1e3:.0f} ms"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--storm", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cases", type=Path, nargs="*", default=[], help="more files of cases, such as ours")
    parser.add_argument("--only-cases", action="store_true", help="nothing but the tables of cases")
    options = parser.parse_args()
    for path in options.cases:
        print(f"# Cases of {path.name}")
        cases(path)
    if options.only_cases:
        return
    folder = Path(os.environ["AGENTFLOW_TEST_DATA"])
    gsm8k, math500 = (open_dataset(str(folder / name / "test.jsonl")) for name in ("gsm8k", "math500"))
    gsm8k_rows = [gsm8k.raw(i) for i in range(len(gsm8k))]
    math_rows = [math500.raw(i) for i in range(len(math500))]
    gsm8k_golds = [gsm8k.item(i).data["answer"] for i in range(len(gsm8k))]
    math_golds = [str(row["answer"]) for row in math_rows]

    print("# Golds against themselves, as the files have them")
    golds_against_themselves("GSM8K", gsm8k_rows, gsm8k_golds)
    golds_against_themselves("MATH-500", math_rows, math_golds)

    print("\n# Cases")
    cases(folder / "math_cases.jsonl")

    print("\n# Grades a second a core, CPU of all processes, beside each other")
    dollars = [math500.item(i).data["answer"] for i in range(len(math500))]
    right = [(row["solution"], gold) for row, gold in zip(math_rows, dollars, strict=True)]
    wrong = [(math_rows[i]["solution"], dollars[(i + 1) % len(dollars)]) for i in range(len(dollars))]
    speed("GSM8K, right answers", [(written(g), g) for g in gsm8k_golds], options.rounds)
    speed("MATH-500, right answers", right, options.rounds)
    speed("MATH-500, another's answer", wrong, options.rounds)

    print("\n# Storm")
    asyncio.run(storm(options.storm, [(written(g), g) for g in gsm8k_golds] + right))


if __name__ == "__main__":
    main()
