"""Anthropic's Messages API on a chat completions endpoint."""

from agentflow.runner.translate.messages.reply import error, from_chat
from agentflow.runner.translate.messages.request import to_chat
from agentflow.runner.translate.messages.stream import Stream

#: What to answer (404) at ``/v1/messages/count_tokens``: a chat endpoint counts only what it also generates.
NO_COUNT_TOKENS = (
    "This worker speaks chat completions only and cannot count tokens beforehand: leave /v1/messages/count_tokens out "
    "and read the usage of the reply."
)

__all__ = ["NO_COUNT_TOKENS", "Stream", "error", "from_chat", "to_chat"]
