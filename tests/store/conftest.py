"""A manifest and results to store."""

from __future__ import annotations

import pytest

from agentflow.channel.messages import AgentInfo
from agentflow.episode import Call, EpisodeResult, Outcome, usage_by_role
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


def make_result(item: str, sample: int = 0, attempt: int = 0, **fields: object) -> EpisodeResult:
    call = Call(f"call-{item}-{sample}", "chat", 1.0, 0.5, 200, prompt_tokens=10, completion_tokens=5)
    values: dict[str, object] = {
        "outcome": Outcome.SCORED,
        "reward": 1.0,
        "calls": (call,),
        "usage": usage_by_role([call]),
        **fields,
    }
    return EpisodeResult(item, sample, attempt, **values)  # type: ignore[arg-type]


@pytest.fixture
def result():  # type: ignore[no-untyped-def]
    return make_result
