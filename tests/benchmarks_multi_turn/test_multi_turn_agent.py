"""The agent by itself, against a scripted endpoint; and what a measured run is told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest

from agentflow.workflows.chat import ChatError
from benchmarks.multi_turn.agent import MultiTurn
from benchmarks.multi_turn.conversations import rounds
from benchmarks.multi_turn.running import arguments_of
from tests.scripted import Answer, Ask, Handler, Server, chat, chat_chunks, error, scripted, usage

ROWS = rounds(3, 0, 2, 30, 8, 0, seed=1)


def words_of(ask: Ask) -> int:
    return sum(len(message["content"].split()) for message in ask.body["messages"])


def two_tokens_a_word(ask: Ask) -> Answer:
    """Replies of 8 tokens to the first message, of 5 to later ones."""
    prompt = 2 * words_of(ask) + 7
    if not ask.stream:
        return chat("x", usage=usage(prompt, 1))
    *chunks, last = chat_chunks("a b c d", include_usage=True)
    return [*chunks, {**last, "usage": usage(prompt, 8 if len(ask.body["messages"]) == 1 else 5)}]


@asynccontextmanager
async def served(handler: Handler) -> AsyncIterator[tuple[Server, httpx2.AsyncClient]]:
    """A scripted endpoint, and a client as an agent has it."""
    async with scripted(handler) as server, httpx2.AsyncClient(trust_env=False, timeout=30) as client:
        yield server, client


async def play(agent: MultiTurn, row: dict[str, Any], server: Server, client: httpx2.AsyncClient) -> dict[str, float]:
    return await agent.run(row, f"{server.url}/v1", "key", client)


@pytest.mark.asyncio
async def test_the_reward_is_the_share_of_replies_that_had_their_length() -> None:
    async with served(two_tokens_a_word) as (server, client):
        result = await play(MultiTurn(), ROWS[0], server, client)
    assert result["reward"] == 0.5
    assert (result["tools_s"], result["input_tokens_asked"], result["shared_tokens_asked"]) == (0.0, 60.0, 0.0)


@pytest.mark.asyncio
async def test_messages_have_the_words_that_come_to_the_tokens_asked_for() -> None:
    async with served(two_tokens_a_word) as (server, client):
        await play(MultiTurn(), ROWS[0], server, client)
        await play(MultiTurn(tokens_per_word=3.0), ROWS[0], server, client)
        spoken = [ask.body["messages"][-1]["content"].split() for ask in server.asks if ask.stream]
        probes = [ask for ask in server.asks if not ask.stream]
    assert [len(words) for words in spoken] == [15, 15, 10, 10]
    assert len(probes) == 2, "where the cost of a word is given nobody is asked"


@pytest.mark.asyncio
async def test_of_conversations_that_begin_together_one_asks_what_a_word_costs() -> None:
    async with served(two_tokens_a_word) as (server, client):
        await asyncio.gather(*(play(MultiTurn(), row, server, client) for row in ROWS))
        assert sum(not ask.stream for ask in server.asks) == 2


@pytest.mark.asyncio
async def test_where_the_one_that_asks_fails_another_asks() -> None:
    refused: list[Ask] = []

    def once(ask: Ask) -> Answer:
        if not refused:
            refused.append(ask)
            return {"id": "x", "choices": []}
        return two_tokens_a_word(ask)

    async with served(once) as (server, client):
        ended = await asyncio.gather(*(play(MultiTurn(), row, server, client) for row in ROWS), return_exceptions=True)
    failed = [end for end in ended if isinstance(end, BaseException)]
    assert [type(end) for end in failed] == [ChatError]
    assert "counts no prompt tokens" in str(failed[0])
    assert "tokens_per_word" in str(failed[0])


@pytest.mark.asyncio
@pytest.mark.parametrize("fixed", [True, False])
async def test_the_length_is_asked_for_in_the_engines_fields_unless_that_is_turned_off(fixed: bool) -> None:
    async with served(two_tokens_a_word) as (server, client):
        await play(MultiTurn(fixed_length=fixed, tokens_per_word=1.0), ROWS[0], server, client)
        body = server.asks[0].body
    assert (body["max_tokens"], body["stream"], body["stream_options"]) == (8, True, {"include_usage": True})
    assert (body.get("min_tokens"), body.get("ignore_eos")) == ((8, True) if fixed else (None, None))


@pytest.mark.asyncio
async def test_an_endpoint_that_refuses_those_fields_is_named_with_the_way_out() -> None:
    def refuses(ask: Ask) -> Answer:
        return error(400, "Unrecognized request argument supplied: ignore_eos")

    async with served(refuses) as (server, client):
        with pytest.raises(ChatError, match=r"--agent-arg fixed_length=false.*answered 400"):
            await play(MultiTurn(tokens_per_word=1.0), ROWS[0], server, client)


@pytest.mark.asyncio
async def test_an_error_in_the_middle_of_a_stream_is_the_endpoints() -> None:
    def breaks(ask: Ask) -> Answer:
        return [*chat_chunks("a b"), {"error": {"message": "out of memory"}}]

    async with served(breaks) as (server, client):
        with pytest.raises(ChatError, match="out of memory"):
            await play(MultiTurn(tokens_per_word=1.0), ROWS[0], server, client)


def test_no_limit_of_agentflow_is_below_the_number_of_clients_and_what_the_user_gave_stays() -> None:
    told = arguments_of(256, 7, ["--base-url", "http://127.0.0.1:1"], "trial")
    assert told[:3] == ["multi_turn", "--max-concurrent", "256"]
    assert {"rollout.worker_calls=512", "seed=7", "trial_name=trial"} <= set(told)
    given = arguments_of(256, 7, ["rollout.worker_calls=8", "trial_name=mine"], "trial")
    assert "rollout.worker_calls=512" not in given
    assert "trial_name=trial" not in given
