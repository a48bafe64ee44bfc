"""Results to store."""

from __future__ import annotations

from agentflow.episode import Call, EpisodeResult, Outcome, usage_by_role


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
