"""A reward function named in a configuration (``reward_fn``), called the same way whatever protocol it has."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType
from typing import Any

from agentflow.errors import ConfigError
from agentflow.rewards.errors import GraderError
from agentflow.rewards.function import AsyncRewardWrapper

_AREAL = ("prompt", "completions", "prompt_ids", "completion_ids")


class Reward:
    """A loaded reward function.

    ``fn`` may have AReaL's protocol, ``(prompt, completions, prompt_ids, completion_ids, **row)``, told by its first
    two parameters, or ours, ``(completion, **row)``; a function without ``**`` gets the columns that it names. A
    blocking function runs in a reward process, an asynchronous one on the loop; an AsyncRewardWrapper keeps its limits.

    Raises:
        TypeError: the function cannot be given these by position.
    """

    def __init__(self, fn: Callable[..., Any], name: str, *, timeout: float | None = None) -> None:
        signature = inspect.signature(fn)
        parameters = signature.parameters
        self.name = name
        self.is_areal = list(parameters)[:2] == list(_AREAL[:2])
        by_position = signature.bind_partial(*(_AREAL if self.is_areal else ("completion",))).arguments
        self._taken = frozenset(by_position)  # a column of that name would be given twice
        self._takes_all = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
        self._names = frozenset(parameters)
        if inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(type(fn).__call__):
            self._call: Callable[..., Any] = fn
        else:
            self._call = AsyncRewardWrapper(fn) if timeout is None else AsyncRewardWrapper(fn, timeout=timeout)

    async def __call__(
        self,
        completion: str,
        row: Mapping[str, Any],
        *,
        prompt: Any = None,
        prompt_ids: Sequence[int] | None = None,
        completion_ids: Sequence[int] | None = None,
    ) -> float:
        """The reward of one completion.

        Args:
            completion: what the model wrote.
            row: the item's data; its columns become keyword arguments.
            prompt: the messages or text that the model was given.
            prompt_ids: token ids, None unless the engine returned them.
            completion_ids: likewise.

        Raises:
            GraderError: the function took too long, crashed, raised, or returned what is no number.
        """
        if self.is_areal:
            first: tuple[Any, ...] = (prompt, completion, prompt_ids, completion_ids)
        else:
            first = (completion,)
        rest = {k: v for k, v in row.items() if k not in self._taken and (self._takes_all or k in self._names)}
        value = await self._call(*first, **rest)
        try:
            if isinstance(value, str | bytes):  # float() would read it
                raise TypeError
            return float(value)
        except (TypeError, ValueError, OverflowError) as e:
            raise GraderError(
                f"The reward function {self.name} returned {str(value)[:100]} ({type(value).__name__}), not a number. "
                f"Its input: {completion[:500]!r}"
            ) from e


def load_reward(path: str, *, timeout: float | None = None) -> Reward:
    """Load ``pkg.mod:fn``, ``pkg.mod.fn`` or ``file.py:fn``; a bare name is one of ``agentflow.rewards``.

    Args:
        path: where the function is.
        timeout: seconds for one call of a blocking function; the pool's default if None.

    Raises:
        ConfigError: there is no such module or function, or it cannot take a completion.
    """
    module_name, name = _split(path)
    module = _module(module_name, path)
    fn = getattr(module, name, None)
    if not callable(fn):
        names = [n for n, value in vars(module).items() if callable(value) and not n.startswith("_")]
        near = get_close_matches(name, names, n=1)
        hint = f"; did you mean {module_name}:{near[0]}?" if near else "."
        raise ConfigError(f"reward_fn {path}: {module_name} has no function {name!r}{hint}")
    try:
        return Reward(fn, path, timeout=timeout)
    except (TypeError, ValueError) as e:
        raise ConfigError(f"reward_fn {path} cannot be used as a reward function: {e}") from e


def _split(path: str) -> tuple[str, str]:
    module, colon, name = path.rpartition(":")
    if not colon:
        module, _, name = path.rpartition(".")
    if not name.isidentifier() or (name == "py" and not colon):
        raise ConfigError(f"reward_fn {path!r} names no function: write pkg.mod:function or file.py:function.")
    return module or "agentflow.rewards", name


def _module(name: str, path: str) -> ModuleType:
    try:
        return _file_module(Path(name)) if name.endswith(".py") else importlib.import_module(name)
    except (ImportError, FileNotFoundError) as e:
        raise ConfigError(f"reward_fn {path} cannot be imported: {e}.") from e


def _file_module(file: Path) -> ModuleType:
    """A module of a name that nothing else has; its folder is importable, as for a script."""
    file = file.expanduser().resolve()
    if not file.is_file():
        raise FileNotFoundError(f"{file} does not exist")
    if str(file.parent) not in sys.path:
        sys.path.insert(0, str(file.parent))
    name = f"agentflow_reward_{hashlib.sha256(bytes(file)).hexdigest()[:12]}"
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
