"""Anyone's reward function, run in a reward process."""

from __future__ import annotations

import asyncio
import inspect
import os
import pickle
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import cloudpickle

from agentflow.rewards.pool import DEFAULT_MEMORY_BYTES, DEFAULT_TIMEOUT_S, RewardPool, shared_pool
from agentflow.rewards.worker import Call


class AsyncRewardWrapper:
    """Makes a blocking reward function awaitable: ``reward = await AsyncRewardWrapper(fn)(prompt, completions, ...)``.

    Args:
        fn: any function that cloudpickle can send: from a module, a script, a notebook cell, a closure; or its name,
            ``module:function``, for one that is imported in the reward process only. Its arguments and what it
            returns must be picklable.
        timeout: wall-clock seconds for one call, imports of the function's module not counted.
        memory_bytes: resident memory of the process that runs it.
        pool: the pool to use, the shared one of this process by default.

    Raises:
        TypeError: ``fn`` is asynchronous: await it as it is.
    """

    def __init__(
        self,
        fn: Callable[..., Any] | str,
        *,
        timeout: float = DEFAULT_TIMEOUT_S,
        memory_bytes: int = DEFAULT_MEMORY_BYTES,
        pool: RewardPool | None = None,
    ) -> None:
        if inspect.iscoroutinefunction(fn):
            raise TypeError(f"{_name(fn)} is asynchronous: await it as it is, AsyncRewardWrapper is for blocking ones.")
        if not isinstance(fn, str):
            self.__wrapped__ = fn  # its signature is this one's
        self._name = _name(fn)
        self._blob = pickled(fn)
        self._timeout = timeout
        self._memory_bytes = memory_bytes
        self._pool = pool

    async def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """What ``fn`` returns. Raises GraderError when it gives nothing: too slow, too large, crashed or raised."""
        return await asyncio.wrap_future(self._submit(args, kwargs))

    def call_sync(self, *args: Any, **kwargs: Any) -> Any:
        """The same, blocking the calling thread."""
        return self._submit(args, kwargs).result()

    def _submit(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Future[Any]:
        call = Call(self._name, self._blob, args, kwargs, self._timeout, self._memory_bytes)
        return (self._pool or shared_pool()).submit(call)


def pickled(fn: Callable[..., Any] | str) -> bytes:
    """``fn`` for another interpreter: by name where that can import it, with its code where it cannot."""
    if isinstance(fn, str):
        return pickle.dumps((list(sys.path), {}, fn))
    module = sys.modules.get(getattr(fn, "__module__", None) or "")
    if module is None or module.__name__ == "__main__" or _importable(module):
        return pickle.dumps((list(sys.path), {}, cloudpickle.dumps(fn)))
    homes = _home(module)
    cloudpickle.register_pickle_by_value(module)
    try:
        code = cloudpickle.dumps(fn)
    except Exception:  # a lock, a client, ... of the module: let the other interpreter make its own
        if not homes:
            raise
        code = b""
    finally:
        cloudpickle.unregister_pickle_by_value(module)
    # what functools.cache makes goes by name even so
    return pickle.dumps((list(sys.path), homes, code or cloudpickle.dumps(fn)))


def _home(module: ModuleType) -> dict[str, str]:
    """The file of a module that was loaded by path, by its name; empty where that name may give another one."""
    file = getattr(module, "__file__", None)
    name = module.__name__
    return {name: os.path.abspath(file)} if file and "." not in name and _spec(name, None) is None else {}


def _importable(module: ModuleType) -> bool:
    """Whether another interpreter that imports the module's name gets this module: not for files loaded by path."""
    parent, _, _ = module.__name__.rpartition(".")
    if parent and (parent not in sys.modules or not _importable(sys.modules[parent])):
        return False
    path = getattr(sys.modules[parent], "__path__", None) if parent else None
    spec = _spec(module.__name__, path)
    return spec is not None and spec.origin == getattr(module.__spec__, "origin", None)


def _spec(name: str, path: Sequence[str] | None) -> ModuleSpec | None:
    # not importlib.util.find_spec: it would answer with what sys.modules has under that name
    return next((spec for finder in sys.meta_path if (spec := finder.find_spec(name, path)) is not None), None)


def _name(fn: Callable[..., Any] | str) -> str:
    return fn if isinstance(fn, str) else getattr(fn, "__qualname__", None) or type(fn).__qualname__
