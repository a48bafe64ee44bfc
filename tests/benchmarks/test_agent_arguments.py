"""Arguments of the benchmarks' agents that cannot be meant are refused before a run, in one sentence."""

from __future__ import annotations

from typing import Any

import pytest

from agentflow.agents.loader import check_agent, import_agent
from agentflow.channel.messages import AgentSpec
from agentflow.errors import AgentLoadError


@pytest.mark.parametrize("value", ["ten", -1, 0, 2.5, True])
@pytest.mark.parametrize(
    ("agent", "name"),
    [("bfcl", "max_steps"), ("tau2", "max_steps"), ("tau2", "max_errors"), ("multi_turn", "output_tokens")],
)
def test_a_count_is_a_whole_number_of_at_least_1(agent: str, name: str, value: object) -> None:
    sentence = refusal(agent, {name: value})
    assert sentence == f"{name} must be a whole number of at least 1, and it is {value!r}."


@pytest.mark.parametrize("value", ["many", 0, -1.5, float("nan"), float("inf"), True])
def test_the_cost_of_a_word_is_a_number_above_0(value: object) -> None:
    assert refusal("multi_turn", {"tokens_per_word": value}).startswith("tokens_per_word must be a number above 0")


def test_fixed_length_is_true_or_false() -> None:
    assert refusal("multi_turn", {"fixed_length": "maybe"}).startswith("fixed_length must be true or false")


def test_what_can_be_meant_is_taken() -> None:
    fitting: dict[str, Any] = {"fixed_length": False, "tokens_per_word": 2, "output_tokens": 1}
    assert check_agent(import_agent(AgentSpec(path="multi_turn", kwargs=fitting)))


def refusal(agent: str, kwargs: dict[str, Any]) -> str:
    with pytest.raises(AgentLoadError) as raised:
        check_agent(import_agent(AgentSpec(path=agent, kwargs=kwargs)))
    return str(raised.value)
