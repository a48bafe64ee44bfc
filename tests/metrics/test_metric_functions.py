"""The user's own metric functions: what they see, what becomes of what they return, and what goes wrong in them."""

from __future__ import annotations

import os
from pathlib import Path

import anyio
import msgspec
import psutil
import pytest

from agentflow.channel.messages import AgentInfo
from agentflow.episode import EpisodeResult, Kind, Outcome
from agentflow.errors import UsageError
from agentflow.metrics import item_mean, stats, summarize
from agentflow.metrics.functions import Functions, check_functions, own_metrics
from agentflow.metrics.summary import OwnMetrics, Scoring
from agentflow.store import DataInfo, Manifest, Rules
from agentflow.store.files import EPISODES
from agentflow.store.manifest import write_manifest

SOURCE = """
import os, sys

def spread(results):
    rewards = [r.reward for r in results]
    return max(rewards) - min(rewards)

def seen(results):
    return {"episodes": len(results), "failed": sum(r.outcome == "failed" for r in results)}

def only_of_a(results):
    return 1 if results[0].item_id == "a" else None

def files(results, run_dir):
    return len(list(run_dir.glob("*.json*")))

def divides(results):
    return 1 / 0

def nan(results):
    return float("nan")

def words(results):
    return "1"

def nested(results):
    return {"a": {"b": 1}}

def long(results):
    return 10**5000

def nothing(results):
    return None

def empty(results):
    return {"a": None}

def exits(results):
    sys.exit(0)

async def later(results):
    return 1

def leaves(results):
    os._exit(3)

def nothing_of_the_kind():
    return 1.0

number = 3
"""


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    """Items a and b, two samples each: a got 1 and failed, b got 0.5 and 0.5; c was lost; d is no part of the run."""
    rules = Rules(n_samples=2, failed_reward=-1.0)
    manifest = Manifest(
        run_id="r",
        created_at=1.0,
        versions={},
        config={},
        agent=AgentInfo("A", True),
        rules=rules,
        data=DataInfo("d", ids=("a", "b", "c"), n_items=3),
    )
    write_manifest(tmp_path, manifest)
    results = [
        EpisodeResult("b", 1, 0, Outcome.SCORED, reward=0.5),
        EpisodeResult("a", 0, 0, Outcome.LOST, Kind.RUNNER_DIED, final=False),
        EpisodeResult("a", 0, 1, Outcome.SCORED, reward=1.0),
        EpisodeResult("a", 1, 0, Outcome.FAILED, Kind.TIMEOUT),
        EpisodeResult("b", 0, 0, Outcome.SCORED, reward=0.5),
        EpisodeResult("c", 0, 0, Outcome.LOST, Kind.UNREACHABLE),
        EpisodeResult("d", 0, 0, Outcome.SCORED, reward=0.0),
    ]
    (tmp_path / EPISODES).write_bytes(b"".join(msgspec.json.encode(r) + b"\n" for r in results))
    (tmp_path / "own.py").write_text(SOURCE)
    return tmp_path


def own(run_dir: Path, *, item: tuple[str, ...] = (), run: tuple[str, ...] = ()) -> OwnMetrics:
    named = Functions(*(tuple(f"{run_dir}/own.py:{name}" for name in names) for names in (item, run)))
    return anyio.run(own_metrics, run_dir, named)


def test_a_function_of_an_item_sees_the_results_that_count_and_its_values_are_averaged_over_items(run_dir):
    found = own(run_dir, item=("spread",))
    assert found.of_item == {"spread": item_mean([[2.0], [0.0]])}  # the failed episode of a counts -1
    assert found.missing == {}


def test_a_function_of_the_run_sees_them_all_once_and_may_return_several_numbers(run_dir):
    assert own(run_dir, run=("seen",)).of_run == {"seen/episodes": 4.0, "seen/failed": 1.0}


def test_none_leaves_an_item_out(run_dir):
    assert own(run_dir, item=("only_of_a",)).of_item["only_of_a"] == item_mean([[1.0]])


def test_a_function_that_asks_for_the_run_directory_gets_it(run_dir):
    assert own(run_dir, run=("files",)).of_run == {"files": 2.0}


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("divides", "for item a it raised ZeroDivisionError: division by zero (at "),
        ("nan", "for item a it returned nan for nan; where it is undefined, None is wanted."),
        ("words", "for item a it returned '1' (str) for words; a number, a dict of numbers or None is wanted."),
        (
            "nested",
            "for item a it returned {'b': 1} (dict) for nested/a; a number, a dict of numbers or None is wanted.",
        ),
        ("long", "for item a it returned something (int) for long; a number, a dict of numbers or None is wanted."),
        ("nothing", "it returned None for every item."),
        ("empty", "it returned None or a dict without a number for every item."),
        ("leaves", "its process exited (3)."),
        ("exits", "it raised SystemExit: 0."),
    ],
)
def test_a_function_that_fails_costs_only_its_own_value(run_dir, name, why):
    found = own(run_dir, item=(name, "spread"))
    assert list(found.of_item) == ["spread"]
    assert list(found.missing) == [name]
    assert why in found.missing[name]


def test_a_function_of_the_run_that_returns_none_is_said_to_have_returned_it(run_dir):
    assert own(run_dir, run=("nothing",)).missing == {"nothing": "it returned None."}


def test_a_run_of_which_nothing_counts_has_no_value_of_its_items_and_says_so(run_dir):
    (run_dir / EPISODES).write_bytes(b"")
    assert own(run_dir, item=("spread",)).missing == {"spread": "no item has an episode that counts."}


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("sprad", "own.py has no function 'sprad' (did you mean 'spread'?)"),
        ("", "it names no function: write file.py:function or pkg.mod:function."),
        ("later", "it is asynchronous; a metric function is a plain def."),
        ("number", "it is no function, but of type int."),
        ("nothing_of_the_kind", "it has to take the results, and may take run_dir: too many positional arguments"),
    ],
)
def test_a_function_that_cannot_be_used_is_refused_before_anything_is_played(run_dir, name, why):
    path = f"{run_dir}/own.py:{name}"
    with pytest.raises(UsageError) as refused:
        anyio.run(check_functions, Functions(of_run=(path,)))
    assert str(refused.value).startswith(f"Metric function {path}: ")
    assert why in str(refused.value)


def test_modules_and_files_are_found_from_the_folder_in_which_the_run_was_begun(run_dir, monkeypatch):
    (run_dir / "begun").mkdir()
    (run_dir / "begun" / "mine_alone.py").write_text("def two(results): return 2")
    monkeypatch.chdir("/")
    for path in ("mine_alone:two", "mine_alone.py:two"):
        found = anyio.run(own_metrics, run_dir, Functions(of_run=(path,), folder=f"{run_dir}/begun"))
        assert found.of_run == {"two": 2.0}


def test_functions_of_the_same_name_in_two_files_do_not_overwrite_each_other(run_dir):
    for folder, value in (("one", 1), ("two", 2)):
        (run_dir / folder).mkdir()
        (run_dir / folder / "m.py").write_text(
            f"def same(results): return {value}\ndef apart_{value}(results): return 0"
        )
    paths = ("one/m.py:same", "two/m.py:same", "two/m.py:apart_2")
    found = anyio.run(own_metrics, run_dir, Functions(paths, paths, str(run_dir)))
    assert found.of_run == {"one/m.py:same": 1.0, "two/m.py:same": 2.0, "apart_2": 0.0}
    assert found.of_item.keys() == found.of_run.keys()


def test_a_function_that_is_named_twice_is_called_once_and_files_of_two_folders_stay_apart(run_dir):
    for folder, value in (("one", 1), ("two", 2)):
        (run_dir / folder).mkdir()
        (run_dir / folder / "m.py").write_text(f"def same(results): return {value}")
    begun, given = (Functions(of_run=("m.py:same",), folder=f"{run_dir}/{folder}") for folder in ("one", "two"))
    again = Functions(of_run=("../one/m.py:same",), folder=f"{run_dir}/one")
    assert anyio.run(own_metrics, run_dir, begun, again).of_run == {"same": 1.0}
    apart = anyio.run(own_metrics, run_dir, begun, given).of_run
    assert apart == {f"{run_dir}/one/m.py:same": 1.0, f"{run_dir}/two/m.py:same": 2.0}


def test_each_function_gets_the_module_beside_its_own_file(run_dir):
    for folder, value in (("one", 1), ("two", 2)):
        (run_dir / folder).mkdir()
        (run_dir / folder / "beside.py").write_text(f"VALUE = {value}")
        (run_dir / folder / f"{folder}.py").write_text(f"import beside\ndef f{value}(results): return beside.VALUE")
    found = anyio.run(own_metrics, run_dir, Functions(of_run=("one/one.py:f1", "two/two.py:f2"), folder=str(run_dir)))
    assert found.of_run == {"f1": 1.0, "f2": 2.0}


@pytest.mark.asyncio
async def test_functions_that_are_cut_off_are_ended_and_named_and_what_was_done_before_stays(run_dir):
    (run_dir / "slow.py").write_text(
        "import os, time\n"
        "def first(results): return 1\n"
        "def waits(results, run_dir):\n"
        "    with open(run_dir / 'begun', 'w') as begun: print(os.getpid(), file=begun)\n"
        "    time.sleep(3600)\n"
        "def last(results): return 1\n"
    )
    os.mkfifo(run_dir / "begun")
    cut = anyio.CancelScope()
    pids = []

    async def cut_it() -> None:
        async with await anyio.open_file(run_dir / "begun") as begun:
            pids.append(int(await begun.readline()))
        cut.cancel()

    paths = tuple(f"slow.py:{name}" for name in ("first", "waits", "last"))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(cut_it)
        found = await own_metrics(run_dir, Functions(of_run=paths, folder=str(run_dir)), cut=cut)
    assert found.of_run == {"first": 1.0}
    assert list(found.missing) == ["waits", "last"]
    assert not psutil.pid_exists(pids[0])


def test_the_flat_dict_has_them_under_names_of_their_own(run_dir):
    found = own(run_dir, item=("spread",), run=("seen",))
    flat = stats(msgspec.structs.replace(summarize([], Scoring()), own=found))
    assert flat["item_metrics/spread"] == 1.0
    assert flat["item_metrics/spread/items"] == 2
    assert flat["run_metrics/seen/failed"] == 1.0
