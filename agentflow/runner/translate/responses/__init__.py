"""The Responses API (openai-agents' default) on a chat completions endpoint."""

from agentflow.runner.translate.responses.reply import error, from_chat
from agentflow.runner.translate.responses.request import to_chat
from agentflow.runner.translate.responses.stream import Stream

__all__ = ["Stream", "error", "from_chat", "to_chat"]
