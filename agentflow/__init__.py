"""agentflow: how good is this checkpoint as an agent?"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agentflow.runner.environment import episode_env

__version__ = "0.1.0"
__all__ = ["__version__", "episode_env"]

_LAZY = {"episode_env": "agentflow.runner.environment"}  # public name -> its module: `import agentflow` stays light


def __getattr__(name: str) -> object:
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'agentflow' has no attribute '{name}'")
