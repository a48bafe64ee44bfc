"""The engines, by the name that ``rollout.backend`` gives them."""

from __future__ import annotations

from agentflow.workers.engines.base import Engine
from agentflow.workers.engines.llamacpp import LlamaCpp
from agentflow.workers.engines.sglang import Sglang
from agentflow.workers.engines.vllm import Vllm

ENGINES: dict[str, Engine] = {engine.name: engine for engine in (LlamaCpp(), Sglang(), Vllm())}
