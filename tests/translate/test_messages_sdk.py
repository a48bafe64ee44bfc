"""The anthropic SDK, over real sockets, on an endpoint that speaks chat completions only."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import anthropic
import pytest
import pytest_asyncio
from anthropic import AsyncAnthropic, beta_async_tool
from pydantic import BaseModel
from translate_door import Door, call, chat

ADD_TOOL: Any = {"name": "add", "input_schema": {"type": "object", "properties": {"a": {"type": "integer"}}}}
GO: Any = {"role": "user", "content": "go"}


class Answer(BaseModel):
    value: int


@beta_async_tool
async def add(a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)


@pytest_asyncio.fixture
async def client(door: Door) -> AsyncIterator[AsyncAnthropic]:
    async with AsyncAnthropic(base_url=door.url, api_key="k", max_retries=0) as client:
        yield client


@pytest.mark.asyncio
async def test_the_sdk_reads_a_reply(door: Door, client: AsyncAnthropic) -> None:
    door.script = [chat("42", thought="hm")]
    message = await client.messages.create(
        model="default", max_tokens=9, messages=[{"role": "user", "content": "6*7?"}], extra_body={"top_k": 3}
    )
    assert [block.type for block in message.content] == ["thinking", "text"]
    assert message.usage.cache_read_input_tokens == 32
    assert door.asked == [
        {"model": "default", "max_tokens": 9, "messages": [{"role": "user", "content": "6*7?"}], "top_k": 3}
    ]


@pytest.mark.asyncio
async def test_the_sdks_stream_helper_puts_the_message_together(door: Door, client: AsyncAnthropic) -> None:
    calls = [call("a", "add", '{"a": 1}'), call("b", "add", '{"a": 2}'), call("c", "add", "{}")]
    door.script = [chat("calling", *calls, thought="let me see")]
    async with client.messages.stream(model="default", max_tokens=9, messages=[GO], tools=[ADD_TOOL]) as stream:
        text = "".join([piece async for piece in stream.text_stream])
        final = await stream.get_final_message()
    assert text == "calling"
    assert [block.type for block in final.content] == ["thinking", "text", "tool_use", "tool_use", "tool_use"]
    assert [block.input for block in final.content if block.type == "tool_use"] == [{"a": 1}, {"a": 2}, {}]
    assert final.stop_reason == "tool_use"
    assert (final.usage.input_tokens, final.usage.cache_read_input_tokens, final.usage.output_tokens) == (18, 32, 7)


@pytest.mark.asyncio
async def test_the_sdk_reads_a_raw_stream(door: Door, client: AsyncAnthropic) -> None:
    door.script = [chat("forty-two", finish="length")]
    stream = await client.messages.create(model="default", max_tokens=9, messages=[GO], stream=True)
    found = [event async for event in stream]
    assert found[-1].type == "message_stop"
    assert found[-2].type == "message_delta"
    assert found[-2].delta.stop_reason == "max_tokens"


@pytest.mark.asyncio
async def test_the_sdk_parses_a_structured_answer(door: Door, client: AsyncAnthropic) -> None:
    door.script = [chat('{"value": 42}')]
    message = await client.messages.parse(model="default", max_tokens=9, messages=[GO], output_format=Answer)
    assert message.parsed_output == Answer(value=42)
    assert door.asked[0]["response_format"]["json_schema"]["schema"]["required"] == ["value"]


@pytest.mark.asyncio
@pytest.mark.parametrize("streamed", [False, True])
async def test_the_sdks_tool_runner_plays_parallel_calls_to_the_end(
    door: Door, client: AsyncAnthropic, streamed: bool
) -> None:
    calls = [call("c1", "add", '{"a":2,"b":3}'), call("c2", "add", '{"a":1,"b":1}')]
    door.script = [chat("both", *calls, thought="hm"), chat("5 and 2")]
    runner: Any = client.beta.messages.tool_runner(
        model="default", max_tokens=9, messages=[GO], tools=[add], stream=streamed, system="Be brief."
    )
    final = await runner.until_done()
    assert final.content[0].text == "5 and 2"
    assert "thread" not in door.asked[0]  # the runner asks for a thread first and does without one when told so
    assert door.asked[1]["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": "both", "reasoning_content": "hm", "tool_calls": calls},
        {"role": "tool", "tool_call_id": "c1", "content": "5"},
        {"role": "tool", "tool_call_id": "c2", "content": "2"},
    ]


@pytest.mark.asyncio
async def test_a_failing_tool_tells_the_model_so(door: Door, client: AsyncAnthropic) -> None:
    door.script = [chat("", call("c1", "add", '{"a": 2}')), chat("sorry")]
    runner = client.beta.messages.tool_runner(model="default", max_tokens=9, messages=[GO], tools=[add])
    await runner.until_done()
    assert door.asked[1]["messages"][-1]["content"].startswith("Error")


@pytest.mark.asyncio
async def test_the_sdk_sees_a_refused_request_as_a_bad_request(door: Door, client: AsyncAnthropic) -> None:
    tool: Any = {"type": "web_search_20250305", "name": "web_search"}
    with pytest.raises(anthropic.BadRequestError, match="web_search_20250305"):
        await client.messages.create(model="default", max_tokens=9, messages=[GO], tools=[tool])


@pytest.mark.asyncio
async def test_the_sdk_sees_a_worker_that_gave_up_as_an_error(door: Door, client: AsyncAnthropic) -> None:
    door.script = [chat("forty", finish="abort")]
    with pytest.raises(anthropic.APIStatusError, match="gave this reply up itself"):
        async with client.messages.stream(model="default", max_tokens=9, messages=[GO]) as stream:
            await stream.get_final_message()
