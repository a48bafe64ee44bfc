"""A scripted chat endpoint and a translating door before it, both real servers, and builders of what they say."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import aiohttp
from aiohttp import web
from openai.types.chat.completion_create_params import CompletionCreateParams
from pydantic import TypeAdapter

from agentflow.runner.translate import TranslationError, messages, responses

_CHAT_REQUEST: TypeAdapter[Any] = TypeAdapter(CompletionCreateParams)

Chat = dict[str, Any]


def call(call_id: str, name: str, arguments: str) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def chat(text: str = "", *calls: dict[str, Any], thought: str = "", finish: str = "", **choice: Any) -> Chat:
    """A whole chat reply as an engine writes it."""
    message: dict[str, Any] = {"role": "assistant", "content": text or None}
    if thought:
        message["reasoning_content"] = thought
    if calls:
        message["tool_calls"] = list(calls)
    finish = finish or ("tool_calls" if calls else "stop")
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1700000000,
        "model": "served",
        "choices": [{"index": 0, "message": message, "finish_reason": finish, **choice}],
        "usage": {
            "prompt_tokens": 50,
            "completion_tokens": 7,
            "total_tokens": 57,
            "prompt_tokens_details": {"cached_tokens": 32},
            "completion_tokens_details": {"reasoning_tokens": 3 if thought else 0},
        },
    }


def chunks(whole: Chat, size: int = 3) -> Iterator[Chat]:
    """The same reply as an engine streams it, texts cut into pieces of ``size`` characters."""
    head = {key: whole[key] for key in ("id", "created", "model")} | {"object": "chat.completion.chunk"}
    choice = whole["choices"][0]
    message = choice["message"]

    def chunk(delta: dict[str, Any], **more: Any) -> Chat:
        return {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None, **more}]}

    yield chunk({"role": "assistant", "content": None})
    for name in ("reasoning_content", "content"):
        for piece in _cut(message.get(name) or "", size):
            yield chunk({name: piece})
    for i, one in enumerate(message.get("tool_calls") or []):
        function = {"name": one["function"]["name"], "arguments": ""}
        yield chunk({"tool_calls": [{"index": i, "id": one["id"], "type": "function", "function": function}]})
        for piece in _cut(one["function"]["arguments"], size):
            yield chunk({"tool_calls": [{"index": i, "function": {"arguments": piece}}]})
    yield chunk({}, **{key: value for key, value in choice.items() if key not in ("index", "message")})
    if whole.get("usage"):
        yield {**head, "choices": [], "usage": whole["usage"]}


def _cut(text: str, size: int) -> list[str]:
    return [text[i : i + size] for i in range(0, len(text), size)]


def check_request(body: dict[str, Any]) -> None:
    """The openai SDK's own type of a chat completions request is the judge."""
    _exhaust(_CHAT_REQUEST.validate_python(body))
    check_conversation(body["messages"])


def _exhaust(value: Any) -> None:
    """pydantic judges an iterable only when it is read."""
    if isinstance(value, dict):
        value = value.values()
    if isinstance(value, Iterable) and not isinstance(value, str):
        for item in value:
            _exhaust(item)


def check_conversation(chat_messages: list[dict[str, Any]]) -> None:
    """What every chat endpoint wants: the outputs of all calls of a message come right after it, each once."""
    waiting: set[str] = set()
    for message in chat_messages:
        if message["role"] == "tool":
            assert message["tool_call_id"] in waiting, "an output without its call right before it"
            waiting.remove(message["tool_call_id"])
        else:
            assert not waiting, "a call without its output"
            waiting = {one["id"] for one in message.get("tool_calls", [])}


def events(stream: bytes) -> list[dict[str, Any]]:
    """The data of server-sent events, whose names must be their types."""
    found = []
    for block in stream.decode().split("\n\n"):
        if block:
            name, data = block.split("\n")
            found.append(json.loads(data.removeprefix("data: ")))
            assert name == f"event: {found[-1]['type']}"
    return found


def streamed(dialect: ModuleType, body: dict[str, Any], whole: Chat, size: int = 3) -> list[dict[str, Any]]:
    """All events of a streamed reply."""
    stream = dialect.Stream(body)
    written = b"".join(stream.feed(chunk) for chunk in chunks(whole, size))
    return events(written + stream.finish())


@dataclass
class Door:
    """Where agents connect, what the endpoint behind is to say next, and what it was asked."""

    url: str
    script: list[Chat] = field(default_factory=list)
    asked: list[dict[str, Any]] = field(default_factory=list)


@asynccontextmanager
async def serve() -> AsyncIterator[Door]:
    """A door that translates ``/v1/responses`` and ``/v1/messages`` for a scripted chat endpoint."""
    door = Door("")

    async def completions(request: web.Request) -> web.StreamResponse:
        body = await request.json()
        check_request(body)
        door.asked.append(body)
        whole = door.script.pop(0)
        if not body.get("stream"):
            return web.json_response(whole)
        assert body["stream_options"]["include_usage"] is True
        reply = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await reply.prepare(request)
        for chunk in chunks(whole):
            await reply.write(b"data: " + json.dumps(chunk).encode() + b"\n\n")
        await reply.write(b"data: [DONE]\n\n")
        return reply

    async def translated(request: web.Request) -> web.StreamResponse:
        dialect = responses if request.path.endswith("/responses") else messages
        body = await request.json()
        try:
            asked = dialect.to_chat(body)
        except TranslationError as e:
            return web.json_response(dialect.error(400, str(e), e.details), status=400)
        async with session.post(f"{chat_url}/v1/chat/completions", json=asked) as upstream:
            assert upstream.status == 200, await upstream.text()
            if not body.get("stream"):
                return web.json_response(dialect.from_chat(body, await upstream.json()))
            stream = dialect.Stream(body)
            reply = web.StreamResponse(headers={"content-type": "text/event-stream"})
            await reply.prepare(request)
            async for line in upstream.content:
                data = line.decode().strip().removeprefix("data: ")
                if data and data != "[DONE]":
                    await reply.write(stream.feed(json.loads(data)))
            await reply.write(stream.finish())
            return reply

    chat_app, door_app = web.Application(), web.Application()
    chat_app.router.add_post("/v1/chat/completions", completions)
    door_app.router.add_post("/v1/responses", translated)
    door_app.router.add_post("/v1/messages", translated)
    async with _running(chat_app) as chat_url, _running(door_app) as door.url, aiohttp.ClientSession() as session:
        yield door


@asynccontextmanager
async def _running(app: web.Application) -> AsyncIterator[str]:
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()
