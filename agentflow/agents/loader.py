"""Find the agent that a user named, check it, and make a new one for every episode.

Which object of a file is taken when only the file is named (``agent.py``, ``pkg.mod``):

1. the classes *defined* in it (imported ones do not count) that are public and have a ``run`` method;
2. if there is none: the public functions defined in it that are called ``run`` or ``run_...``.

Exactly one candidate is taken; with several the error lists them. A function with another name has to be named
(``agent.py:function``); where nothing can be taken, the error names those that could be meant.

What a name may lead to: a class (constructed with ``kwargs`` for every episode), an instance with a ``run`` method
(pickled once, unpickled for every episode, so that no state passes between episodes), or a function (``kwargs`` are
passed to it beside the data).
"""

from __future__ import annotations

import functools
import hashlib
import inspect
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import cloudpickle

from agentflow.agents import attributes
from agentflow.agents.adapter import OFFERED, takes
from agentflow.agents.importing import SHOWN_NAMES, Found, ImportRefusedError, attribute, find, near
from agentflow.agents.sources import fingerprint, where
from agentflow.channel.messages import AgentInfo, AgentSpec
from agentflow.errors import AgentLoadError, UsageError

Run = Callable[..., Any]


@dataclass(frozen=True)
class LoadedAgent:
    """An agent that can be played.

    Args:
        info: its name, whether ``run`` is a coroutine function, and the fingerprint of its modules.
        new: makes the ``run`` of a new instance; may raise whatever the user's constructor raises.
        takes: which of :data:`agentflow.agents.adapter.OFFERED` that ``run`` wants by keyword.
    """

    info: AgentInfo
    new: Callable[[], Run]
    takes: frozenset[str]


@dataclass(frozen=True)
class ImportedAgent:
    """The object that a spec names. ``is_async``: it is to be constructed where an event loop runs."""

    spec: AgentSpec
    target: object
    label: str
    roots: tuple[Path, ...]
    is_async: bool


def import_agent(spec: AgentSpec) -> ImportedAgent:
    """Find and import an agent.

    Raises:
        AgentLoadError: one sentence that says what is wrong with it, and where.
    """
    try:
        target, label, folder = _target(spec)
    except ImportRefusedError as e:
        raise AgentLoadError(str(e)) from e
    roots = (Path.cwd(),) if folder is None else (folder, Path.cwd())
    return ImportedAgent(spec, target, label, roots, _is_async(getattr(target, "run", target)))


def check_agent(imported: ImportedAgent) -> LoadedAgent:
    """Construct it once (and throw that away), and check what its ``run`` takes.

    Raises:
        AgentLoadError: as above.
    """
    target, label, spec = imported.target, imported.label, imported.spec
    kwargs = _arguments(spec, label)
    new = _factory(target, label, kwargs)
    run = _try_once(new, label)
    wanted = _check_run(run, label) - (frozenset() if inspect.isclass(target) else kwargs.keys())
    modules = fingerprint(imported.roots)
    for name, pickled in spec.objects.items():
        modules[f"<argument {name} of {label}, given from Python>"] = hashlib.sha256(pickled).hexdigest()
    if spec.pickled:  # a class from a notebook has no file to hash
        modules[f"<{label}, given from Python>"] = hashlib.sha256(spec.pickled).hexdigest()
    info = AgentInfo(
        label,
        _is_async(run),
        modules,
        dataset=attributes.dataset(target, imported.roots[0]),
        group_by=attributes.names(target, "group_by", label),
        headline=attributes.headline(target, label),
        roles=attributes.names(target, "roles", label),
    )
    return LoadedAgent(info, new, wanted)


def _arguments(spec: AgentSpec, label: str) -> dict[str, Any]:
    try:
        return {**spec.kwargs, **{name: cloudpickle.loads(pickled) for name, pickled in spec.objects.items()}}
    except Exception as e:
        raise AgentLoadError(f"The arguments given to {label} cannot be unpickled in a runner: {_said(e)}.") from e


def _target(spec: AgentSpec) -> tuple[object, str, Path | None]:
    """The named object, what to call it, and the folder of its file."""
    if spec.pickled:
        try:
            target = cloudpickle.loads(spec.pickled)
        except BaseException as e:
            raise AgentLoadError(f"The agent given from Python cannot be unpickled in a runner: {_said(e)}.") from e
        return target, _name_of(target), None
    found = find(spec.path)
    if found.name:
        target = attribute(found, "class or function")
        if isinstance(target, ModuleType):
            found = Found(target, "", spec.path, found.folder)
            target = _only_candidate(found)
    else:
        target = _only_candidate(found)
    return target, _name_of(target), found.folder


def _name_of(target: object) -> str:
    named = target if hasattr(target, "__qualname__") else type(target)
    return f"{named.__module__}:{named.__qualname__}"


def _only_candidate(found: Found) -> object:
    module = found.module
    own = {n: v for n, v in vars(module).items() if getattr(v, "__module__", None) == module.__name__}
    classes = {n: v for n, v in own.items() if inspect.isclass(v) and v.__name__ == n and not n.startswith("_")}
    agents: dict[str, object] = {
        n: v for n, v in classes.items() if callable(getattr(v, "run", None)) and not inspect.isabstract(v)
    }
    if not agents:
        agents = {n: v for n, v in own.items() if inspect.isfunction(v) and (n == "run" or n.startswith("run_"))}
    if len(agents) == 1:
        return next(iter(agents.values()))
    if agents:
        listed = ", ".join(f"{found.source}:{n}" for n in agents)
        functions = _functions(own, found.source, agents)
        others = f"; or a function: {', '.join(functions)}" if functions else ""
        raise AgentLoadError(f"{found.source} has several agents; name one of them: {listed}{others}.")
    for name, workflow in classes.items():
        _refuse_workflow(workflow, f"{found.source}:{name}")
    hint = f"; its classes are {', '.join(classes)}" if classes else ""
    if functions := _functions(own, found.source):
        hint += f"; if a function is the agent, write {' or '.join(functions)}"
    raise AgentLoadError(
        f"{found.source} defines no class with a 'run' method and no function called 'run' or 'run_...'{hint}."
    )


def _functions(own: Mapping[str, object], source: str, taken: Collection[str] = ()) -> list[str]:
    """How to name the functions of a file that could be played, a few of them; if some are async, only those."""
    could = {
        n: v for n, v in own.items() if inspect.isfunction(v) and not n.startswith("_") and n not in taken and _fits(v)
    }
    waiting = [n for n, v in could.items() if _is_async(v)]
    return [f"{source}:{n}" for n in waiting or could][:SHOWN_NAMES]


def _fits(function: Run) -> bool:
    """It takes the data, and beside it only what ``run`` is offered."""
    try:
        inspect.signature(function).bind({}, **dict.fromkeys(takes(function)))
    except (TypeError, ValueError):
        return False
    return True


def _refuse_workflow(target: object, label: str) -> None:
    if callable(getattr(target, "arun_episode", None)) and not callable(getattr(target, "run", None)):
        raise AgentLoadError(
            f"{label} is a RolloutWorkflow with arun_episode(engine, data): agentflow hands out an endpoint instead of "
            f"an engine. Give it 'async def run(self, data, **extra_kwargs)' that calls the model with an OpenAI "
            f"client on extra_kwargs['base_url'], ['api_key'] and ['http_client'], and returns the reward as a float."
        )


def _factory(target: object, label: str, kwargs: Mapping[str, Any]) -> Callable[[], Run]:
    _refuse_workflow(target, label)
    if inspect.isclass(target):
        if not callable(getattr(target, "run", None)):
            methods = [n for n, v in vars(target).items() if callable(v) and not n.startswith("_")]
            raise AgentLoadError(f"{label} has no 'run' method{near('run', methods)}: add 'async def run(self, data)'.")
        if inspect.isabstract(target):
            raise AgentLoadError(
                f"{label} is abstract; it lacks {', '.join(sorted(getattr(target, '__abstractmethods__', ())))}."
            )
        _check_kwargs(target, kwargs, f"The constructor of {label}")
        constructor: Callable[..., Any] = target
        return lambda: constructor(**kwargs).run
    if callable(getattr(target, "run", None)):
        if kwargs:
            raise AgentLoadError(f"{label} is an instance already; agent arguments ({', '.join(kwargs)}) need a class.")
        return _unpickler(target, label)
    if inspect.isroutine(target) or isinstance(target, functools.partial):
        return lambda: functools.partial(target, **kwargs) if kwargs else target
    raise AgentLoadError(f"{label} is neither a class with 'run', nor an instance of one, nor a function.")


def _unpickler(instance: object, label: str) -> Callable[[], Run]:
    try:
        pickled = cloudpickle.dumps(instance)
    except Exception as e:
        raise AgentLoadError(
            f"The instance of {label} cannot be pickled, so not every episode can have its own ({_said(e)}): "
            f"name the class instead, and give its arguments as agent arguments."
        ) from e
    return lambda: cloudpickle.loads(pickled).run


def _check_kwargs(constructor: Callable[..., Any], kwargs: Mapping[str, Any], who: str) -> None:
    try:
        signature = inspect.signature(constructor)
    except ValueError:  # written in C: only calling it tells
        return
    try:
        signature.bind(**kwargs)
    except TypeError as e:
        names = list(signature.parameters)
        unknown = [k for k in kwargs if k not in names]
        hint = near(unknown[0], names) if unknown else ""
        takes_what = f"it takes {', '.join(names)}" if names else "it takes none"
        raise AgentLoadError(f"{who} does not fit the agent arguments: {e}{hint}; {takes_what}.") from e


def _try_once(new: Callable[[], Run], label: str) -> Run:
    try:
        return new()
    except UsageError as e:  # a ready-made agent says in one sentence what it lacks
        raise AgentLoadError(str(e)) from e
    except BaseException as e:
        at = where(e)
        raise AgentLoadError(f"{label} cannot be constructed{f' (at {at})' if at else ''}: {_said(e)}.") from e


def _is_async(run: object) -> bool:
    """Also behind a plain decorator that keeps ``functools.wraps``'s trail and returns the coroutine."""
    return inspect.iscoroutinefunction(run) or (callable(run) and inspect.iscoroutinefunction(inspect.unwrap(run)))


def _check_run(run: Run, label: str) -> frozenset[str]:
    if inspect.isasyncgenfunction(run) or inspect.isgeneratorfunction(run):
        raise AgentLoadError(f"{label} yields; 'run' has to return the reward.")
    wanted = takes(run)
    try:
        signature = inspect.signature(run)
    except ValueError:
        return wanted
    try:
        signature.bind({}, **dict.fromkeys(wanted))
    except TypeError as e:
        raise AgentLoadError(
            f"{label}: 'run' has to take the data first, and by keyword any of {', '.join(OFFERED)}: {e}."
        ) from e
    return wanted


def _said(error: BaseException) -> str:
    return type(error).__name__ + (f": {error}" if str(error) else "")
