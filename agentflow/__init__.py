"""agentflow: how good is this checkpoint as an agent?"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agentflow.config import Config, load_config
    from agentflow.controller.controller import Controller
    from agentflow.controller.evaluate import Evaluation, evaluate, evaluate_sync
    from agentflow.controller.facade import BlockingController
    from agentflow.metrics import tabulate_stats
    from agentflow.runner.environment import episode_env

__version__ = "0.1.0"
__all__ = [
    "BlockingController",
    "Config",
    "Controller",
    "Evaluation",
    "__version__",
    "episode_env",
    "evaluate",
    "evaluate_sync",
    "load_config",
    "tabulate_stats",
]

# Public name -> its module: `import agentflow` stays light.
_LAZY = {
    "BlockingController": "agentflow.controller.facade",
    "Config": "agentflow.config",
    "Controller": "agentflow.controller.controller",
    "Evaluation": "agentflow.controller.evaluate",
    "episode_env": "agentflow.runner.environment",
    "evaluate": "agentflow.controller.evaluate",
    "evaluate_sync": "agentflow.controller.evaluate",
    "load_config": "agentflow.config",
    "tabulate_stats": "agentflow.metrics",
}


def __getattr__(name: str) -> object:
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'agentflow' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted(__all__)
