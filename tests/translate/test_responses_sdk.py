"""The openai SDK and openai-agents, over real sockets, on an endpoint that speaks chat completions only."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import openai
import pytest
import pytest_asyncio
from agents import (
    Agent,
    ModelBehaviorError,
    ModelSettings,
    OpenAIProvider,
    RunConfig,
    Runner,
    SQLiteSession,
    function_tool,
)
from openai import AsyncOpenAI
from pydantic import BaseModel
from translate_door import Door, call, chat

CALLED: list[tuple[str, int, int]] = []
ADD_TOOL: Any = {
    "type": "function",
    "name": "add",
    "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
    "strict": True,
}


class Answer(BaseModel):
    value: int


@function_tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    CALLED.append(("add", a, b))
    return a + b


@function_tool
def multiply(a: int, b: int) -> int:
    """Multiply two numbers."""
    CALLED.append(("multiply", a, b))
    return a * b


@pytest.fixture(autouse=True)
def _nothing_called() -> None:
    CALLED.clear()


@pytest_asyncio.fixture
async def client(door: Door) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(base_url=f"{door.url}/v1", api_key="k", max_retries=0) as client:
        yield client


@pytest.fixture
def config(client: AsyncOpenAI) -> RunConfig:
    provider = OpenAIProvider(openai_client=client)
    return RunConfig(model_provider=provider, model="default", tracing_disabled=True)


def math_agent(**settings: Any) -> Agent[Any]:
    return Agent("math", instructions="Be brief.", tools=[add, multiply], **settings)


@pytest.mark.asyncio
async def test_the_sdk_reads_a_reply(door: Door, client: AsyncOpenAI) -> None:
    door.script = [chat("42", thought="hm")]
    response = await client.responses.create(model="default", input="6*7?", extra_body={"top_k": 3})
    assert response.output_text == "42"
    assert response.usage is not None
    assert response.usage.input_tokens_details.cached_tokens == 32
    assert door.asked == [{"model": "default", "messages": [{"role": "user", "content": "6*7?"}], "top_k": 3}]


@pytest.mark.asyncio
async def test_the_sdk_reads_a_stream(door: Door, client: AsyncOpenAI) -> None:
    door.script = [chat("forty-two", thought="let me see")]
    stream = await client.responses.create(model="default", input="6*7?", stream=True)
    found = [event async for event in stream]
    assert "".join(e.delta for e in found if e.type == "response.output_text.delta") == "forty-two"
    assert "".join(e.delta for e in found if e.type == "response.reasoning_text.delta") == "let me see"
    assert found[-1].type == "response.completed"
    assert found[-1].response.output_text == "forty-two"


@pytest.mark.asyncio
async def test_the_sdks_own_stream_helper_agrees_with_every_event(door: Door, client: AsyncOpenAI) -> None:
    door.script = [chat("calling", call("a", "add", '{"a": 1}'), call("b", "add", '{"a": 2}'), thought="hm")]
    async with client.responses.stream(model="default", input="go", tools=[ADD_TOOL]) as stream:
        found = [event async for event in stream]
        final = await stream.get_final_response()
    assert [item.type for item in final.output] == ["reasoning", "message", "function_call", "function_call"]
    assert [item.parsed_arguments for item in final.output if item.type == "function_call"] == [{"a": 1}, {"a": 2}]
    snapshots = [e.snapshot for e in found if e.type == "response.function_call_arguments.delta"]
    assert snapshots[-1] == '{"a": 2}'


@pytest.mark.asyncio
async def test_the_sdk_parses_a_structured_answer(door: Door, client: AsyncOpenAI) -> None:
    door.script = [chat('{"value": 42}')] * 2
    parsed = await client.responses.parse(model="default", input="6*7?", text_format=Answer)
    assert parsed.output_parsed == Answer(value=42)
    async with client.responses.stream(model="default", input="6*7?", text_format=Answer) as stream:
        assert (await stream.get_final_response()).output_parsed == Answer(value=42)
    schema = door.asked[0]["response_format"]["json_schema"]
    assert schema["name"] == "Answer"
    assert schema["schema"]["properties"] == {"value": {"title": "Value", "type": "integer"}}


@pytest.mark.asyncio
async def test_the_sdk_sees_a_refused_request_as_a_bad_request(door: Door, client: AsyncOpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match="needs OpenAI's own servers") as refused:
        await client.responses.create(model="default", input="x", tools=[{"type": "web_search"}])
    assert refused.value.type == "invalid_request_error"


@pytest.mark.asyncio
async def test_an_output_sent_back_as_it_came_is_the_same_conversation(door: Door, client: AsyncOpenAI) -> None:
    door.script = [chat("calling", call("a", "add", '{"a": 1}'), call("b", "add", '{"a": 2}'), thought="hm"), chat("3")]
    first = await client.responses.create(model="default", input="go", tools=[ADD_TOOL])
    history: list[Any] = [{"role": "user", "content": "go"}, *first.output]
    for item in first.output:
        if item.type == "function_call":
            history.append({"type": "function_call_output", "call_id": item.call_id, "output": "ok"})
    await client.responses.create(model="default", input=history, tools=[ADD_TOOL])
    assert door.asked[1]["messages"] == [
        {"role": "user", "content": "go"},
        {
            "role": "assistant",
            "content": "calling",
            "reasoning_content": "hm",
            "tool_calls": [call("a", "add", '{"a": 1}'), call("b", "add", '{"a": 2}')],
        },
        {"role": "tool", "tool_call_id": "a", "content": "ok"},
        {"role": "tool", "tool_call_id": "b", "content": "ok"},
    ]


@pytest.mark.asyncio
@pytest.mark.parametrize("streamed", [False, True])
async def test_an_agent_plays_two_tools_one_after_the_other(door: Door, config: RunConfig, streamed: bool) -> None:
    door.script = [
        chat("", call("c1", "add", '{"a": 2, "b": 3}'), thought="first the sum"),
        chat("", call("c2", "multiply", '{"a": 5, "b": 4}')),
        chat("The answer is 20."),
    ]
    if streamed:
        result: Any = Runner.run_streamed(math_agent(), "(2+3)*4?", run_config=config)
        deltas = [e.data.delta async for e in result.stream_events() if e.type == "raw_response_event" and _text(e)]
        assert "".join(deltas) == "The answer is 20."
    else:
        result = await Runner.run(math_agent(), "(2+3)*4?", run_config=config)
    assert result.final_output == "The answer is 20."
    assert CALLED == [("add", 2, 3), ("multiply", 5, 4)]
    assert [m["role"] for m in door.asked[2]["messages"]] == [
        "system",
        "user",
        "assistant",
        "tool",
        "assistant",
        "tool",
    ]
    assert door.asked[2]["messages"][3] == {"role": "tool", "tool_call_id": "c1", "content": "5"}
    assert result.context_wrapper.usage.total_tokens == 3 * 57


@pytest.mark.asyncio
@pytest.mark.parametrize("streamed", [False, True])
async def test_an_agent_plays_parallel_calls(door: Door, config: RunConfig, streamed: bool) -> None:
    calls = [call("c1", "add", '{"a": 2, "b": 3}'), call("c2", "multiply", '{"a": 2, "b": 3}')]
    door.script = [chat("both", *calls), chat("5 and 6")]
    session = SQLiteSession("math")
    if streamed:
        result: Any = Runner.run_streamed(math_agent(), "both?", run_config=config, session=session)
        async for _ in result.stream_events():
            pass
    else:
        result = await Runner.run(math_agent(), "both?", run_config=config, session=session)
    assert result.final_output == "5 and 6"
    assert door.asked[1]["messages"][2:] == [
        {"role": "assistant", "content": "both", "tool_calls": calls},
        {"role": "tool", "tool_call_id": "c1", "content": "5"},
        {"role": "tool", "tool_call_id": "c2", "content": "6"},
    ]
    session.close()


@pytest.mark.asyncio
async def test_a_session_carries_the_conversation_into_the_next_run(door: Door, config: RunConfig) -> None:
    door.script = [chat("Hello Ada."), chat("Ada.")]
    session = SQLiteSession("chat")
    await Runner.run(math_agent(), "I am Ada.", run_config=config, session=session)
    await Runner.run(math_agent(), "Who am I?", run_config=config, session=session)
    assert [m["content"] for m in door.asked[1]["messages"]] == ["Be brief.", "I am Ada.", "Hello Ada.", "Who am I?"]
    session.close()


@pytest.mark.asyncio
async def test_an_agent_hands_off_to_another(door: Door, config: RunConfig) -> None:
    triage = Agent[Any]("triage", instructions="Hand maths off.", handoffs=[math_agent(handoff_description="maths")])
    door.script = [
        chat("", call("h1", "transfer_to_math", "{}")),
        chat("", call("c1", "add", '{"a": 1, "b": 1}')),
        chat("2"),
    ]
    result = await Runner.run(triage, "1+1?", run_config=config)
    assert result.final_output == "2"
    assert result.last_agent.name == "math"
    assert door.asked[0]["tools"][0]["function"]["name"] == "transfer_to_math"
    last = door.asked[2]["messages"]
    assert last[0] == {"role": "system", "content": "Be brief."}
    assert [one["id"] for m in last for one in m.get("tool_calls", [])] == ["h1", "c1"]


@pytest.mark.asyncio
async def test_an_agent_gets_a_typed_answer(door: Door, config: RunConfig) -> None:
    door.script = [chat('{"value": 7}')]
    result = await Runner.run(math_agent(output_type=Answer), "3+4?", run_config=config)
    assert result.final_output == Answer(value=7)
    assert door.asked[0]["response_format"]["json_schema"]["strict"] is True


@pytest.mark.asyncio
async def test_an_agents_settings_reach_the_endpoint(door: Door, config: RunConfig) -> None:
    door.script = [chat("x")]
    settings = ModelSettings(
        temperature=0.1,
        max_tokens=33,
        tool_choice="add",
        parallel_tool_calls=False,
        truncation="auto",
        store=False,
        metadata={"a": "b"},
        extra_body={"top_k": 9},
        top_logprobs=2,
    )
    agent = math_agent(model_settings=settings, tool_use_behavior="stop_on_first_tool")
    await Runner.run(agent, "x", run_config=config)
    asked = door.asked[0]
    assert asked["tool_choice"] == {"type": "function", "function": {"name": "add"}}
    wanted = {"temperature": 0.1, "max_tokens": 33, "parallel_tool_calls": False, "top_k": 9, "top_logprobs": 2}
    assert {key: asked[key] for key in wanted} == wanted
    assert not {"store", "metadata", "truncation", "include"} & set(asked)


@pytest.mark.asyncio
@pytest.mark.parametrize("streamed", [False, True])
async def test_a_call_that_the_limit_cut_off_is_not_run(door: Door, config: RunConfig, streamed: bool) -> None:
    door.script = [chat("", call("c1", "add", '{"a": 2'), finish="length")]

    async def play() -> None:
        if streamed:
            async for _ in Runner.run_streamed(math_agent(), "2+3?", run_config=config).stream_events():
                pass
        else:
            await Runner.run(math_agent(), "2+3?", run_config=config)

    with pytest.raises(ModelBehaviorError, match="max_output_tokens"):
        await play()
    assert CALLED == []
    assert len(door.asked) == 1


@pytest.mark.asyncio
async def test_a_call_that_was_cut_off_and_is_sent_back_nevertheless_is_refused(
    door: Door, client: AsyncOpenAI
) -> None:
    door.script = [chat("", call("c1", "add", '{"a": 2'), finish="length")]
    first = await client.responses.create(model="default", input="go", tools=[ADD_TOOL])
    output: Any = {"type": "function_call_output", "call_id": "c1", "output": "broken"}
    with pytest.raises(openai.BadRequestError, match="the token limit cut off"):
        await client.responses.create(model="default", input=[*first.output, output], tools=[ADD_TOOL])  # type: ignore[list-item]
    assert len(door.asked) == 1


def _text(event: Any) -> bool:
    return bool(event.data.type == "response.output_text.delta")
