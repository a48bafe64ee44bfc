"""An agent as the user gives it in Python, as something that can travel to a runner."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import cloudpickle

from agentflow.channel.messages import AgentSpec
from agentflow.errors import AgentLoadError


def agent_spec(workflow: Any, kwargs: Mapping[str, Any] | None = None) -> AgentSpec:
    """Make a spec of a path, a class, an instance or a function.

    Args:
        workflow: ``file.py[:Class]``, ``pkg.mod:Class`` or ``pkg.mod.Class``; or the object itself, which is pickled
            (by value where it is defined in the main script or a notebook cell).
        kwargs: for the class's constructor.

    Raises:
        AgentLoadError: the object cannot be pickled, or an instance is given with constructor arguments.
    """
    arguments = dict(kwargs or {})
    if isinstance(workflow, str):
        return AgentSpec(path=workflow, kwargs=arguments)
    if arguments and not isinstance(workflow, type):
        raise AgentLoadError(
            f"workflow_kwargs are for a class's constructor, and {workflow!r} is no class: give the class."
        )
    try:
        return AgentSpec(pickled=cloudpickle.dumps(workflow), kwargs=arguments)
    except Exception as e:  # cloudpickle lets anything out that the object's own __reduce__ raises
        raise AgentLoadError(
            f"{workflow!r} cannot be sent to a runner ({type(e).__name__}: {e}); give its import path instead, for "
            "instance 'my_module.MyAgent'."
        ) from e
