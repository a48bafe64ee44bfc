"""Endpoints that exist already, with real servers."""

import pytest

from agentflow import load_config
from agentflow.controller.workers import existing_endpoints
from agentflow.errors import UsageError
from tests.scripted import Answer, Ask, Handler, scripted


def serving(model: str) -> Handler:
    def answer(ask: Ask) -> Answer:
        return {"object": "list", "data": [{"id": model}]} if ask.path.endswith("/models") else {}

    return answer


@pytest.mark.asyncio
async def test_endpoints_of_two_models_are_not_mixed_in_one_run() -> None:
    async with scripted(serving("qwen-8b")) as one, scripted(serving("qwen-32b")) as other:
        config, _ = load_config(None, [f"base_url=[{one.url},{other.url}]"])
        with pytest.raises(UsageError, match="one run is of one model"):
            await existing_endpoints(config)


@pytest.mark.asyncio
async def test_roles_may_have_models_of_their_own() -> None:
    async with scripted(serving("qwen-8b")) as one, scripted(serving("judge")) as other:
        config, _ = load_config(
            None, [f"base_url={one.url}", f"roles.judge.base_url={other.url}", "roles.judge.model=judge"]
        )
        assert [w.model for w in await existing_endpoints(config)] == ["qwen-8b", "judge"]


@pytest.mark.asyncio
async def test_a_key_that_was_named_and_is_not_there_is_not_left_out_without_a_word(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("MY_KEY", raising=False)
    async with scripted(serving("m")) as server:
        config, _ = load_config(None, [f"base_url={server.url}", "api_key_env=MY_KEY"])
        with pytest.raises(UsageError, match="MY_KEY, which is not set"):
            await existing_endpoints(config)
        monkeypatch.setenv("MY_KEY", "secret")
        assert (await existing_endpoints(config))[0].api_key == "secret"
