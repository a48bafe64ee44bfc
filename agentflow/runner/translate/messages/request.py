"""A Messages request as a chat completions request."""

from __future__ import annotations

from typing import Any

from agentflow.runner.translate import TranslationError
from agentflow.runner.translate.conversation import Conversation
from agentflow.runner.translate.fields import expect, given, need, objects
from agentflow.runner.translate.messages.blocks import add_turns, text_of

# Fields that speak to the service, not to the model (`service_tier` means something else in chat completions).
_OWN = frozenset(
    {
        "cache_control",
        "diagnostics",
        "fallbacks",
        "inference_geo",
        "service_tier",
        "speed",
        "user_profile_id",
        "workspace_id",
    }
)

_TRANSLATED = frozenset(
    {
        "messages",
        "metadata",
        "output_config",
        "output_format",
        "stop_sequences",
        "system",
        "tool_choice",
        "tools",
    }
)

_REFUSED = {
    "compaction": "compaction by the server",
    "container": "code execution containers",
    "context_management": "editing of the context by the server",
    "mcp_servers": "MCP servers that the server calls",
}

_CHOICES = {"auto": "auto", "any": "required", "none": "none"}


def to_chat(body: dict[str, Any]) -> dict[str, Any]:
    """Say a Messages request as a chat completions request.

    Thinking blocks go on as ``reasoning_content`` of their assistant message; redacted ones cannot be read and stay
    behind. A ``tool_result`` with ``is_error`` says so in its text, because a chat message has no such mark. Other
    fields (``thinking`` too, which some chat endpoints know) go on untouched.

    Raises:
        TranslationError: for what a chat endpoint cannot do (server tools, files, a prefilled answer, ...), and for a
            body that breaks the dialect.
    """
    body = given(body)
    for field, what in _REFUSED.items():
        if body.get(field):
            raise TranslationError(f"This worker speaks chat completions only, which lack {what}: leave {field!r} out.")
    if "thread" in body:
        # A continued thread holds only what is new. The SDK's tool runner asks for one first and, told this, sends
        # the whole conversation by itself.
        raise TranslationError(
            "This worker keeps no threads: send the whole conversation without 'thread'.",
            {"error_code": "thread_unsupported_request"},
        )
    if body.get("n", 1) != 1:
        raise TranslationError("A reply is one message: leave 'n' out.")
    chat = {key: value for key, value in body.items() if key not in _OWN | _TRANSLATED}
    chat["messages"] = _messages(body)
    if "stop_sequences" in body:
        chat["stop"] = body["stop_sequences"]
    if user := expect(body.get("metadata", {}), dict, "metadata").get("user_id"):
        chat["user"] = user
    chat.update(_tools(body))
    config = given(expect(body.get("output_config", {}), dict, "output_config"))
    chat.update(_output({"format": body.get("output_format", {}), **config}))  # output_format is the older name
    if body.get("stream"):
        options = expect(body.get("stream_options", {}), dict, "stream_options")
        chat["stream_options"] = {**options, "include_usage": True}
    return chat


def _messages(body: dict[str, Any]) -> list[dict[str, Any]]:
    conversation = Conversation()
    if "system" in body:
        conversation.system(text_of(body["system"], "system"))
    turns = objects(need(body, "messages", list, "The request"), "messages")
    if not turns:
        raise TranslationError("messages is empty: say at least one thing.")
    if turns[-1][1].get("role") == "assistant":
        raise TranslationError(
            "messages ends with an assistant turn, and chat endpoints differ in how they go on from one: "
            "end with a user turn instead of a prefilled answer."
        )
    add_turns(conversation, turns)
    return conversation.messages()


def _tools(body: dict[str, Any]) -> dict[str, Any]:
    """``tools``, ``tool_choice`` and ``parallel_tool_calls``; without tools the other two only upset engines."""
    tools = [_tool(tool, where) for where, tool in objects(body.get("tools", []), "tools")]
    choice = expect(body.get("tool_choice", {}), dict, "tool_choice")
    chat: dict[str, Any] = {"tools": tools} if tools else {}
    if choice and (tools or choice.get("type") in ("any", "tool")):
        chat["tool_choice"] = _tool_choice(choice)
    if tools and "disable_parallel_tool_use" in choice:
        chat["parallel_tool_calls"] = not choice["disable_parallel_tool_use"]
    return chat


def _tool(tool: dict[str, Any], where: str) -> dict[str, Any]:
    kind = tool.get("type", "custom")
    if kind != "custom":
        raise TranslationError(
            f"{where}: a tool of type {kind!r} is known to Anthropic's own models and servers only, and this worker "
            f"speaks chat completions: give the agent a tool with a name and an input_schema instead."
        )
    own = ("type", "cache_control", "eager_input_streaming", "input_schema")
    function = {key: value for key, value in tool.items() if key not in own}
    need(tool, "name", str, where)
    function["parameters"] = need(tool, "input_schema", dict, where)
    return {"type": "function", "function": function}


def _tool_choice(choice: dict[str, Any]) -> object:
    kind = need(choice, "type", str, "tool_choice")
    if kind == "tool":
        return {"type": "function", "function": {"name": need(choice, "name", str, "tool_choice")}}
    if kind not in _CHOICES:
        raise TranslationError(f"A tool_choice of type {kind!r} is unknown: use auto, any, tool or none.")
    return _CHOICES[kind]


def _output(config: dict[str, Any]) -> dict[str, Any]:
    chat: dict[str, Any] = {}
    if "effort" in config:
        chat["reasoning_effort"] = config["effort"]
    layout = expect(config.get("format", {}), dict, "output_config.format")
    if layout:
        if layout.get("type") != "json_schema":
            raise TranslationError(f"An output format of type {layout.get('type')!r} is unknown: use 'json_schema'.")
        schema = need(layout, "schema", dict, "output_config.format")
        chat["response_format"] = {"type": "json_schema", "json_schema": {"name": "reply", "schema": schema}}
    return chat
