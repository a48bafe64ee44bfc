"""A Responses request as a chat completions request."""

from __future__ import annotations

from typing import Any

from agentflow.runner.translate import TranslationError
from agentflow.runner.translate.conversation import Conversation
from agentflow.runner.translate.fields import expect, given, need, objects
from agentflow.runner.translate.responses.input import add_input

# Fields that speak to the service, not to the model: this door keeps the responses itself, echoes the rest in the
# reply, and returns reasoning in the clear. `max_tool_calls` counts hosted tools, of which there are none.
_OWN = frozenset({"store", "metadata", "truncation", "include", "previous_response_id", "max_tool_calls", "background"})

_TRANSLATED = frozenset(
    {
        "input",
        "instructions",
        "max_output_tokens",
        "parallel_tool_calls",
        "reasoning",
        "stream_options",
        "text",
        "tool_choice",
        "tools",
        "top_logprobs",
    }
)

_REFUSED = {
    "background": "responses in the background",
    "conversation": "conversations kept by the server",
    "prompt": "prompt templates kept by the server",
    "context_management": "compaction by the server",
}


def to_chat(body: dict[str, Any]) -> dict[str, Any]:
    """Say a Responses request as a chat completions request.

    ``previous_response_id`` is expanded already: ``input`` holds the whole conversation. Reasoning items go on as
    ``reasoning_content`` of their assistant message; what is only there encrypted cannot be read and stays behind.
    ``truncation: "auto"`` is not obeyed, and the reply says ``"disabled"``.

    Raises:
        TranslationError: for what a chat endpoint cannot do (hosted tools, item references, files, ...), and for a
            body that breaks the dialect.
    """
    body = given(body)
    for field, what in _REFUSED.items():
        if body.get(field):
            raise TranslationError(f"This worker speaks chat completions only, which lack {what}: leave {field!r} out.")
    if body.get("n", 1) != 1:
        raise TranslationError("A response is one answer: leave 'n' out.")
    chat = {key: value for key, value in body.items() if key not in _OWN | _TRANSLATED}
    chat["messages"] = _messages(body)
    if "max_output_tokens" in body:
        chat["max_tokens"] = body["max_output_tokens"]
    chat.update(_tools(body))
    chat.update(_text(given(expect(body.get("text", {}), dict, "text"))))
    chat.update(_logprobs(body))
    if effort := expect(body.get("reasoning", {}), dict, "reasoning").get("effort"):
        chat["reasoning_effort"] = effort
    if body.get("stream"):
        options = expect(body.get("stream_options", {}), dict, "stream_options")
        chat["stream_options"] = {**options, "include_usage": True}
    return chat


def _messages(body: dict[str, Any]) -> list[dict[str, Any]]:
    conversation = Conversation()
    if "instructions" in body:
        conversation.system(expect(body["instructions"], str, "instructions"))
    source = body.get("input")
    if source is None:
        raise TranslationError("The request has no 'input': give it a string or a list of items.")
    if isinstance(source, str):
        conversation.user(source)
    else:
        add_input(conversation, objects(source, "input"))
    return conversation.messages()


def _tools(body: dict[str, Any]) -> dict[str, Any]:
    """``tools``, ``tool_choice`` and ``parallel_tool_calls``; without tools the other two only upset engines."""
    tools = [_tool(tool, where) for where, tool in objects(body.get("tools", []), "tools")]
    choice = body.get("tool_choice")
    if not tools:
        return {} if choice in (None, "auto", "none") else {"tool_choice": _tool_choice(choice)}
    chat: dict[str, Any] = {"tools": tools}
    if choice is not None:
        chat["tool_choice"] = _tool_choice(choice)
    if "parallel_tool_calls" in body:
        chat["parallel_tool_calls"] = body["parallel_tool_calls"]
    return chat


def _tool(tool: dict[str, Any], where: str) -> dict[str, Any]:
    kind = need(tool, "type", str, where)
    if kind != "function":
        raise TranslationError(
            f"{where}: a tool of type {kind!r} needs OpenAI's own servers, and this worker speaks chat completions "
            f"only: give the agent a function tool instead."
        )
    need(tool, "name", str, where)
    return {"type": "function", "function": {key: value for key, value in tool.items() if key != "type"}}


def _tool_choice(choice: object) -> object:
    if isinstance(choice, str):
        return choice
    choice = expect(choice, dict, "tool_choice")
    if choice.get("type") != "function":
        raise TranslationError(
            f"A tool_choice of type {choice.get('type')!r} cannot be said in chat completions: "
            f"use 'auto', 'none', 'required' or one function."
        )
    return {"type": "function", "function": {"name": need(choice, "name", str, "tool_choice")}}


def _text(text: dict[str, Any]) -> dict[str, Any]:
    chat: dict[str, Any] = {}
    if "verbosity" in text:
        chat["verbosity"] = text["verbosity"]
    layout = given(expect(text.get("format", {"type": "text"}), dict, "text.format"))
    kind = need(layout, "type", str, "text.format")
    if kind == "json_schema":
        schema = {key: value for key, value in layout.items() if key != "type"}
        chat["response_format"] = {"type": "json_schema", "json_schema": schema}
    elif kind == "json_object":
        chat["response_format"] = {"type": "json_object"}
    elif kind != "text":
        raise TranslationError(f"A text.format of type {kind!r} cannot be said in chat completions: use 'json_schema'.")
    return chat


def _logprobs(body: dict[str, Any]) -> dict[str, Any]:
    asked = "message.output_text.logprobs" in expect(body.get("include", []), list, "include")
    if not asked and not body.get("top_logprobs"):
        return {}
    return {"logprobs": True, "top_logprobs": body.get("top_logprobs", 0)}
