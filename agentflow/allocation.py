"""The grammar of ``rollout.backend``: ``sglang:d4t2p1`` is 4 replicas of SGLang on 2 x 1 GPUs each.

    backend    = engine ":" dimension {dimension}
    engine     = "sglang" | "vllm" | "llamacpp"
    dimension  = ("d" | "t" | "p") number        any order, each at most once, a missing one is 1

``d`` replicas (data parallel), each ``t`` (tensor parallel) times ``p`` (pipeline parallel) GPUs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import get_close_matches

from agentflow.errors import AllocationError

ENGINES = ("sglang", "vllm", "llamacpp")
TRAINING_ENGINES = ("fsdp", "megatron", "archon")
EXAMPLE = "write it like 'sglang:d4t2p1'"

_NAMES = {"d": "replicas", "t": "tensor parallel size", "p": "pipeline parallel size"}
_TRAINING = {"c": "context parallelism", "e": "expert parallelism"}
_NUMBER = re.compile(r"[0-9]+")


@dataclass(frozen=True)
class Allocation:
    """What a backend string asks for."""

    engine: str
    replicas: int = 1
    tensor_parallel: int = 1
    pipeline_parallel: int = 1

    @property
    def gpus_per_replica(self) -> int:
        """Tensor times pipeline parallel size."""
        return self.tensor_parallel * self.pipeline_parallel

    @property
    def gpus(self) -> int:
        """GPUs of all replicas together."""
        return self.replicas * self.gpus_per_replica

    def __str__(self) -> str:
        return f"{self.engine}:d{self.replicas}t{self.tensor_parallel}p{self.pipeline_parallel}"


def parse_backend(text: str) -> Allocation:
    """Read a backend string.

    Raises:
        AllocationError: one sentence with the string, the place (characters are counted from 1) and the rule.
    """
    engine, colon, dimensions = text.partition(":")
    _check_engine(text, engine, colon)
    sizes: dict[str, int] = {}
    at = len(engine) + 1
    if not dimensions:
        raise _error(text, at, "no dimension follows the colon", f"write '{engine}:d1' for one replica on one GPU")
    while at < len(text):
        name = text[at]
        if name in _TRAINING:
            rule = "inference takes d, t and p only"
            raise _error(text, at, f"'{name}' is {_TRAINING[name]}, a dimension of training", rule)
        if name not in _NAMES:
            raise _error(text, at, f"{name!r} is no dimension", f"dimensions are d, t and p; {EXAMPLE}")
        if name in sizes:
            raise _error(text, at, f"'{name}' appears a second time", "each of d, t and p may appear once")
        number = _NUMBER.match(text, at + 1)
        if number is None:
            raise _error(text, at + 1, f"a number must follow '{name}' ({_NAMES[name]})", EXAMPLE)
        if number.group().startswith("0"):
            raise _error(text, at + 1, f"the number after '{name}' is {number.group()}", "it must be 1, 2, 3, ...")
        sizes[name] = int(number.group())
        at = number.end()
    return Allocation(engine, sizes.get("d", 1), sizes.get("t", 1), sizes.get("p", 1))


def _check_engine(text: str, engine: str, colon: str) -> None:
    known = " | ".join(ENGINES)
    if not text.strip():
        raise _error(text, 0, "it is empty", EXAMPLE)
    if text != text.strip() or " " in text:
        at = next(i for i, c in enumerate(text) if c.isspace())
        raise _error(text, at, "it holds a space", EXAMPLE)
    for sign in "+|":
        if sign in text:
            rule = "give the inference part alone, as in 'sglang:d4'"
            raise _error(text, text.index(sign), f"'{sign}' joins several allocations", rule)
    if engine in ENGINES and colon:
        return
    if engine in ENGINES:
        raise _error(text, len(text), "a colon and dimensions are missing", f"write '{engine}:d1' for one replica")
    if engine in TRAINING_ENGINES:
        raise _error(text, 0, f"'{engine}' is an engine of training", f"an evaluation runs on {known}")
    for name in ENGINES:
        if engine.startswith(f"{name}."):
            raise _error(text, len(name), "a dot stands where a colon must", f"write '{name}:{text[len(name) + 1 :]}'")
        if engine.lower() == name:
            raise _error(text, 0, f"engines are written in small letters: '{name}'", EXAMPLE)
    near = get_close_matches(engine.lower(), ENGINES, n=1)
    hint = f"did you mean '{near[0]}'? The" if near else "the"
    raise _error(text, 0, f"{engine!r} is no engine", f"{hint} engine is one of {known}; {EXAMPLE}")


def _error(text: str, at: int, problem: str, rule: str) -> AllocationError:
    return AllocationError(f"backend {text!r}: {problem} (at character {at + 1}); {rule}.")
