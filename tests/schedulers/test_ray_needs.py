"""What Ray is asked for, what it can never give, and what is said of what it does not do."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from agentflow.config import load_config
from agentflow.errors import MissingExtraError
from agentflow.schedulers import make_scheduler
from agentflow.schedulers.base import Job, Resources
from agentflow.schedulers.ray_needs import GIB, Node, bundle, elsewhere, impossible, missing, unenforced


def nodes(*gpus: int, cpus: int = 4) -> list[Node]:
    return [Node(str(i), f"10.0.0.{i}", {"CPU": cpus, "GPU": n} if n else {"CPU": cpus}) for i, n in enumerate(gpus)]


@pytest.mark.parametrize(
    ("resources", "asked"),
    [
        (Resources(), {"CPU": 1}),
        (Resources(cpus=8, gpus=2, memory_gb=3), {"CPU": 8, "GPU": 2, "memory": 3 * GIB}),
        (Resources(cpus=0), {"CPU": 0.01}),  # Ray refuses an empty bundle
    ],
)
def test_a_copy_asks_for_what_it_needs_and_for_nothing_else(resources: Resources, asked: dict[str, float]) -> None:
    assert bundle(resources) == asked


@pytest.mark.parametrize(
    ("copies", "gpus", "there"),
    [(8, 1, (4, 4)), (4, 2, (4, 4)), (2, 3, (4, 4)), (3, 4, (0, 4, 8)), (4, 0, (0,))],
)
def test_what_fits_the_nodes_is_not_refused(copies: int, gpus: int, there: Sequence[int]) -> None:
    assert impossible("worker", copies, bundle(Resources(gpus=gpus)), nodes(*there)) == ""


def test_too_many_are_refused_with_all_numbers() -> None:
    assert impossible("worker", 12, bundle(Resources(gpus=1)), nodes(0, 4, 4)) == (
        "worker needs 12 times 1 CPU and 1 GPU, each on one node, but there is room for 8: the Ray cluster has "
        "1 node with 4 CPUs and 0 GPUs, 2 nodes with 4 CPUs and 4 GPUs. Ask for fewer replicas or smaller ones."
    )


@pytest.mark.parametrize(
    ("copies", "resources", "there", "room"),
    [
        (1, Resources(gpus=5), (4, 4), 0),  # enough in the cluster, not on one node
        (3, Resources(gpus=3), (4, 4), 2),  # one GPU of each node is left over
        (2, Resources(cpus=3), (0,), 1),
        (1, Resources(memory_gb=1), (4,), 0),
        (1, Resources(), (), 0),
    ],
)
def test_what_no_node_can_hold_is_refused(copies: int, resources: Resources, there: Sequence[int], room: int) -> None:
    assert f"there is room for {room}:" in impossible("worker", copies, bundle(resources), nodes(*there))


def test_a_copy_that_waits_says_what_for() -> None:
    needs = bundle(Resources(cpus=2, gpus=4, memory_gb=16))
    free = {"CPU": 7.5, "GPU": 2.0}  # Ray leaves out what is all taken
    assert missing(needs, free, {"CPU": 12.0, "GPU": 8.0, "memory": 64 * GIB}) == (
        "waits for a node with 2 CPUs and 4 GPUs and 16 GiB of memory free; free in the whole cluster: "
        "7.5 of 12 CPUs, 2 of 8 GPUs, 0 of 64 GiB of memory"
    )


def test_nodes_on_loopback_are_this_machine() -> None:
    there = [
        Node("a", "127.0.0.11", {}),
        Node("b", "10.0.0.1", {}),
        Node("c", "10.0.0.2", {}),
        Node("d", "10.0.0.2", {}),
    ]
    assert elsewhere(there, "10.0.0.1") == ["10.0.0.2"]


def test_what_ray_does_not_do_of_a_scheduling_spec_is_said() -> None:
    config, _ = load_config(
        None, ["rollout.scheduling_spec=[{cpu: 4, mem: 32, gpu: 1, image: x.sif, nodelist: n1, env_vars: {A: b}}]"]
    )
    assert unenforced(config) == [
        "Ray does nothing for scheduling_spec.image, scheduling_spec.nodelist.",
        "Ray reserves scheduling_spec.mem on the node but does not hold the process to it.",
    ]
    assert unenforced(load_config(None)[0]) == []


def test_render_needs_no_ray_and_shows_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    config, _ = load_config(None, ["scheduler.type=ray", "rollout.scheduling_spec=[{image: x.sif}]"])
    job = Job("job", ("python", "-c", "print('a b')"), 1, tmp_path, Resources(gpus=2), {"X": "1 2"}, {"TOKEN": "t"})
    assert make_scheduler(config).render(job).splitlines() == [
        "# Ray does nothing for scheduling_spec.image.",
        f"# job-0: output in {tmp_path}/job-0.log",
        "# job-0: child of an actor on a node with 1 CPU and 2 GPUs free",
        "# job-0: secrets in its environment: TOKEN",
        """env AGENTFLOW_NAME=job-0 'X=1 2' python -c 'print('"'"'a b'"'"')'""",
    ]


@pytest.mark.asyncio
async def test_without_ray_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    scheduler = make_scheduler(load_config(None, ["scheduler.type=ray"])[0])
    with pytest.raises(MissingExtraError, match="needs the extra 'ray'"):
        await scheduler.__aenter__()
