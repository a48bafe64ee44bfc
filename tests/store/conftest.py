"""A manifest and results to store."""

from __future__ import annotations

import pytest
from store_samples import make_result

from agentflow.channel.messages import AgentInfo
from agentflow.store import DataInfo, Manifest, Rules


@pytest.fixture
def manifest() -> Manifest:
    return Manifest(
        run_id="r1",
        created_at=1700000000.0,
        versions={"python": "3.11.7", "agentflow": "0.1.0"},
        config={"experiment_name": "math", "base_url": []},
        agent=AgentInfo("agent:MathAgent", True, {"agent.py": "a" * 64, "tools.py": "b" * 64}),
        agent_kwargs={"max_turns": 4},
        rules=Rules(model="tiny", sampling={"temperature": 0.7}, n_samples=2, episode_timeout_s=60.0),
        data=DataInfo("math.jsonl", "gsm8k", "f" * 64, 3, ("a", "b", "c")),
    )


@pytest.fixture
def result():  # type: ignore[no-untyped-def]
    return make_result
