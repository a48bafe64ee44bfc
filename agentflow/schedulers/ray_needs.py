"""What copies need of a Ray cluster, whether it can ever have it, and what is missing now. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentflow.config import Config
from agentflow.config.rollout import SchedulingSpec
from agentflow.schedulers.base import Resources

GIB = 2**30
NOT_ON_RAY = (
    "port_count", "image", "container_type", "mount", "nodelist", "exclude", "reservation", "exclusive",
    "srun_additional_args", "additional_bash_cmds",
)  # fmt: skip
OWN_ENVIRONMENT = ("pip", "uv", "conda", "py_executable", "image_uri", "container")  # of runtime_env


@dataclass(frozen=True)
class Node:
    """A living node: its address and all that it has, by Ray's names of resources."""

    id: str
    address: str
    resources: Mapping[str, float]


def nodes_of(listed: Sequence[Mapping[str, Any]]) -> list[Node]:
    """The living ones of ``ray.nodes()``."""
    return [Node(n["NodeID"], n["NodeManagerAddress"], n["Resources"]) for n in listed if n["Alive"]]


def bundle(resources: Resources) -> dict[str, float]:
    """One copy's, by Ray's names. A bundle lies on one node, and so do the copy's GPUs."""
    wanted = {"CPU": resources.cpus, "GPU": resources.gpus, "memory": (resources.memory_gb or 0) * GIB}
    return {name: float(amount) for name, amount in wanted.items() if amount} or {"CPU": 0.01}  # none may be empty


def impossible(job: str, copies: int, needs: Mapping[str, float], nodes: Sequence[Node]) -> str:
    """Why so many copies can never run on these nodes, with all numbers; empty when they can."""
    room = sum(min(math.floor(n.resources.get(name, 0) / amount) for name, amount in needs.items()) for n in nodes)
    if room >= copies:
        return ""
    kinds = Counter(described({name: n.resources.get(name, 0) for name in needs}) for n in nodes)
    cluster = ", ".join(f"{count} node{'s' * (count > 1)} with {kind}" for kind, count in kinds.items())
    return (
        f"{job} needs {copies} times {described(needs)}, each on one node, but there is room for {room}: the Ray "
        f"cluster has {cluster or 'no living node'}. Ask for fewer replicas or smaller ones."
    )


def missing(needs: Mapping[str, float], free: Mapping[str, float], total: Mapping[str, float]) -> str:
    """Why a copy waits: what it needs of one node, and what the whole cluster has free."""
    now = ", ".join(f"{_number(name, free.get(name, 0))} of {described({name: total.get(name, 0)})}" for name in needs)
    return f"waits for a node with {described(needs)} free; free in the whole cluster: {now}"


def described(resources: Mapping[str, float]) -> str:
    """``2 CPUs and 4 GPUs``."""
    units = {
        name: " GiB of memory" if name == "memory" else f" {name}{'s' * (n != 1)}" for name, n in resources.items()
    }
    return " and ".join(f"{_number(name, amount)}{units[name]}" for name, amount in resources.items())


def _number(name: str, amount: float) -> str:
    return f"{amount / GIB:.0f}" if name == "memory" else f"{amount:g}"


def elsewhere(nodes: Sequence[Node], here: str) -> list[str]:
    """Addresses of nodes that a controller on this machine's loopback cannot be reached from."""
    return sorted({n.address for n in nodes if n.address != here and not n.address.startswith("127.")})


def unenforced(config: Config) -> list[str]:
    """Sentences on what Ray does not do of ``scheduling_spec``."""
    spec = config.rollout.scheduling_spec[0] if config.rollout.scheduling_spec else SchedulingSpec()
    set_here = [name for name in NOT_ON_RAY if getattr(spec, name)]
    notes = []
    if set_here:
        notes.append(f"Ray does nothing for scheduling_spec.{', scheduling_spec.'.join(set_here)}.")
    if spec.mem is not None:
        notes.append("Ray reserves scheduling_spec.mem on the node but does not hold the process to it.")
    return notes
