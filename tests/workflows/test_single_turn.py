"""RLVRWorkflow: one call, its reward."""

from __future__ import annotations

import dataclasses
from typing import Any

import cloudpickle
import httpx2
import pytest

from agentflow.config import load_config
from agentflow.errors import UsageError
from agentflow.rewards import exact_match
from agentflow.workflows import RLVRWorkflow
from agentflow.workflows.chat import ChatError
from tests.scripted import Handler, chat, error, scripted

ROW = {
    "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "What is 2 + 2?"}],
    "answer": "4",
}


async def play(workflow: Any, handler: Handler, row: dict[str, Any] = ROW) -> tuple[Any, list[dict[str, Any]]]:
    """What ``run()`` returns, and the bodies that it sent."""
    async with scripted(handler) as server, httpx2.AsyncClient() as client:
        value = await workflow.run(row, base_url=f"{server.url}/v1", api_key="k", http_client=client)
        assert all(ask.headers["authorization"] == "Bearer k" for ask in server.asks)
        return value, [ask.body for ask in server.asks]


@pytest.mark.asyncio
async def test_the_rows_messages_are_sent_once_and_the_answer_is_graded_by_the_reward_named() -> None:
    reward, bodies = await play(RLVRWorkflow("exact_match"), lambda ask: chat("4"))
    assert reward == 1.0
    assert bodies == [{"model": "default", "messages": ROW["messages"]}]


@pytest.mark.asyncio
async def test_what_areals_scripts_give_becomes_fields_of_the_request() -> None:
    @dataclasses.dataclass
    class GenerationHyperparameters:
        n_samples: int = 4
        max_new_tokens: int = 512
        max_tokens: int = 2048
        greedy: bool = True
        temperature: float = 1.0
        stop_token_ids: list[int] = dataclasses.field(default_factory=list)

    given = {"gconfig": GenerationHyperparameters(), "tokenizer": object(), "enable_thinking": False}
    _, (body,) = await play(RLVRWorkflow(exact_match, **given), lambda ask: chat("4"))
    assert body.pop("messages")
    assert body == {
        "model": "default",
        "max_tokens": 512,
        "temperature": 0.0,
        "chat_template_kwargs": {"enable_thinking": False},
    }


@pytest.mark.asyncio
async def test_of_agentflows_own_gconfig_only_what_the_user_set_is_sent() -> None:
    config, _ = load_config(None, ["gconfig.top_k=5", "gconfig.n_samples=8"])
    _, (body,) = await play(RLVRWorkflow(exact_match, gconfig=config.gconfig), lambda ask: chat("4"))
    assert body.keys() - {"model", "messages"} == {"top_k"}


@pytest.mark.asyncio
async def test_a_reward_with_areals_protocol_gets_prompt_completion_no_ids_and_the_row() -> None:
    async def reward(prompt: str, completions: str, prompt_ids: Any, completion_ids: Any, **row: Any) -> float:
        seen.append((prompt, completions, prompt_ids, completion_ids, row["answer"]))
        return 0.25

    seen: list[Any] = []
    value, _ = await play(RLVRWorkflow(reward), lambda ask: chat("four"))
    assert value == 0.25
    assert seen == [("Be brief.\nWhat is 2 + 2?", "four", None, None, "4")]


@pytest.mark.asyncio
async def test_a_reply_without_text_is_graded_as_an_empty_one() -> None:
    reward, _ = await play(RLVRWorkflow(exact_match), lambda ask: chat(None))
    assert reward == 0.0


@pytest.mark.asyncio
async def test_an_error_of_the_endpoint_is_raised_with_its_own_sentence() -> None:
    with pytest.raises(ChatError, match=r"400.*context is 512 tokens"):
        await play(RLVRWorkflow(exact_match), lambda ask: error(400, "the context is 512 tokens"))


@pytest.mark.asyncio
async def test_something_that_is_no_chat_completion_is_an_error() -> None:
    with pytest.raises(ChatError, match="no chat completion"):
        await play(RLVRWorkflow(exact_match), lambda ask: {"status": "ok"})


def test_without_a_reward_it_cannot_be_made() -> None:
    with pytest.raises(UsageError, match="--reward"):
        RLVRWorkflow()


def test_a_gconfig_of_another_kind_is_refused() -> None:
    with pytest.raises(TypeError, match="gconfig is a list"):
        RLVRWorkflow(exact_match, gconfig=[1])


@pytest.mark.asyncio
async def test_an_instance_can_be_sent_to_a_runner() -> None:
    def reward(completion: str, answer: str) -> float:
        return float(completion == answer)

    workflow = cloudpickle.loads(cloudpickle.dumps(RLVRWorkflow(reward, tokenizer=open)))
    assert (await play(workflow, lambda ask: chat("4")))[0] == 1.0
