"""An agent as the user gives it in Python, as something that can travel to a runner."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import cloudpickle
import msgspec

from agentflow.channel.messages import AgentSpec
from agentflow.errors import AgentLoadError
from agentflow.workflows.ready_made import path_of


def agent_spec(workflow: Any, kwargs: Mapping[str, Any] | None = None) -> AgentSpec:
    """Make a spec of a path, a class, an instance or a function.

    Args:
        workflow: ``file.py[:Class]``, ``pkg.mod:Class``, ``pkg.mod.Class``, or the short name of a ready-made agent; or
            the object itself, which is pickled (by value where it is defined in the main script or a notebook cell).
        kwargs: for the class's constructor; functions and other objects are pickled likewise.

    Raises:
        AgentLoadError: the object cannot be pickled, or an instance is given with constructor arguments.
    """
    arguments = dict(kwargs or {})
    if isinstance(workflow, type) and workflow.__module__.startswith("agentflow.workflows."):
        workflow = f"agentflow.workflows.{workflow.__qualname__}"
    if isinstance(workflow, str):
        return _with_arguments(AgentSpec(path=path_of(workflow)), arguments)
    if arguments and not isinstance(workflow, type):
        raise AgentLoadError(
            f"workflow_kwargs are for a class's constructor, and {workflow!r} is no class: give the class."
        )
    hint = "give its import path instead, for instance 'my_module.MyAgent'"
    return _with_arguments(AgentSpec(pickled=_pickle(workflow, hint)), arguments)


def _with_arguments(spec: AgentSpec, arguments: Mapping[str, Any]) -> AgentSpec:
    plain = {name: value for name, value in arguments.items() if _travels_as_it_is(value)}
    hint = "give the constructor plain data from which it can make that"
    objects = {name: _pickle(value, hint) for name, value in arguments.items() if name not in plain}
    return msgspec.structs.replace(spec, kwargs=plain, objects=objects)


def _travels_as_it_is(value: object) -> bool:
    try:
        return bool(msgspec.msgpack.decode(msgspec.msgpack.encode(value)) == value)
    except (TypeError, ValueError, OverflowError, msgspec.MsgspecError):
        return False


def _pickle(value: object, hint: str) -> bytes:
    try:
        pickled: bytes = cloudpickle.dumps(value)
        return pickled
    except Exception as e:  # cloudpickle lets anything out that the object's own __reduce__ raises
        raise AgentLoadError(f"{value!r} cannot be sent to a runner ({type(e).__name__}: {e}); {hint}.") from e
