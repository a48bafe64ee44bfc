"""The server of golden moves, over HTTP: words, calls, and a conversation that it does not know."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer

from benchmarks.scripted_server import Messages, Move, golden_application


@dataclass(frozen=True)
class Calling:
    name: str
    arguments: dict[str, Any] = field(default_factory=dict)


def move(messages: Messages) -> Move:
    moves: dict[str, Move] = {"words": "Done.", "calls": [Calling("look"), Calling("add", {"a": 1})]}
    return moves[messages[-1]["content"]]


async def answer(said: str) -> tuple[int, dict[str, Any]]:
    async with TestClient(TestServer(golden_application(move))) as client:
        body = {"messages": [{"role": "user", "content": said}]}
        async with client.post("/v1/chat/completions", json=body) as reply:
            return reply.status, await reply.json()


@pytest.mark.asyncio
async def test_words_end_a_turn_and_calls_ask_for_their_results() -> None:
    _, words = await answer("words")
    (choice,) = words["choices"]
    assert (choice["finish_reason"], choice["message"]["content"]) == ("stop", "Done.")
    assert "tool_calls" not in choice["message"]

    _, calls = await answer("calls")
    (choice,) = calls["choices"]
    assert (choice["finish_reason"], choice["message"]["content"]) == ("tool_calls", None)
    asked = [(call["function"]["name"], json.loads(call["function"]["arguments"])) for call in _calls(choice)]
    assert asked == [("look", {}), ("add", {"a": 1})]
    assert len({call["id"] for call in _calls(choice)}) == 2


@pytest.mark.asyncio
async def test_a_conversation_that_is_not_in_the_data_is_refused() -> None:
    status, body = await answer("something else")
    assert status == 400
    assert "not in the data" in body["error"]["message"]


@pytest.mark.asyncio
async def test_it_lists_one_model() -> None:
    async with TestClient(TestServer(golden_application(move))) as client, client.get("/v1/models") as reply:
        assert [model["id"] for model in (await reply.json())["data"]] == ["golden"]


def _calls(choice: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = choice["message"]["tool_calls"]
    return found
