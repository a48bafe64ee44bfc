"""One request of an episode, streamed through the ``http_client`` that it was given: no SDK, and no clock.

When each piece came is measured by agentflow where it is read from the worker, and lies in the run directory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from agentflow.workflows.chat import ChatError, Message

DONE = "[DONE]"
LENGTH_FIELDS = (b"ignore_eos", b"min_tokens")
encode = msgspec.json.encode


class _Delta(msgspec.Struct):
    content: str | None = None


class _Choice(msgspec.Struct):
    delta: _Delta = msgspec.field(default_factory=_Delta)


class _Usage(msgspec.Struct):
    prompt_tokens: int = 0
    completion_tokens: int = 0


class _Chunk(msgspec.Struct):
    choices: list[_Choice] = []
    usage: _Usage | None = None
    error: Any = None


@dataclass(frozen=True)
class Reply:
    """``text`` without tool calls; the tokens are the endpoint's own count, None where it gave none."""

    text: str
    prompt_tokens: int | None
    completion_tokens: int | None


@dataclass(frozen=True)
class Endpoint:
    """The chat endpoint of one episode.

    Args:
        fixed_length: have the engine go on past its end token, so that replies are of the length asked for. Needs an
            engine that knows ``ignore_eos`` and ``min_tokens``.
    """

    base_url: str
    api_key: str
    http_client: Any
    fixed_length: bool = True

    async def stream(self, messages: Sequence[Message], tools: Sequence[Message], tokens: int) -> Reply:
        """Ask for a reply of this many tokens and read it to its end.

        Raises:
            ChatError: the endpoint answered with an error.
        """
        body = self._body(messages, tokens) | {"stream": True, "stream_options": {"include_usage": True}}
        if tools:
            body["tools"] = tools
        if self.fixed_length:
            body |= {"min_tokens": tokens, "ignore_eos": True}
        async with self.http_client.stream("POST", self._url, content=encode(body), headers=self._headers) as answer:
            if answer.status_code != 200:
                raise _error(answer.status_code, await answer.aread(), self.fixed_length)
            said, usage = [], _Usage()
            async for line in answer.aiter_lines():
                name, _, data = line.partition(":")
                data = data.strip()
                if name != "data" or data == DONE:
                    continue
                chunk = msgspec.json.decode(data, type=_Chunk)
                if chunk.error is not None:
                    raise ChatError(f"The model's endpoint broke off its reply: {str(chunk.error)[:300]}")
                said += [choice.delta.content or "" for choice in chunk.choices]
                usage = chunk.usage or usage
        return Reply("".join(said), usage.prompt_tokens or None, usage.completion_tokens or None)

    async def prompt_tokens(self, text: str) -> int:
        """What the endpoint counts for a conversation of this one message; not streamed, one token is generated.

        Raises:
            ChatError: the endpoint answered with an error, or without usage.
        """
        body = self._body([{"role": "user", "content": text}], 1)
        answer = await self.http_client.post(self._url, content=encode(body), headers=self._headers)
        if answer.status_code != 200:
            raise _error(answer.status_code, answer.content)
        usage = msgspec.json.decode(answer.content, type=_Chunk).usage
        if usage is None or not usage.prompt_tokens:
            raise ChatError(
                "The model's endpoint counts no prompt tokens (usage.prompt_tokens), so messages of a length cannot be "
                "made: say what a word costs, --agent-arg tokens_per_word=1.3."
            )
        return usage.prompt_tokens

    @property
    def _url(self) -> str:
        return f"{self.base_url}/chat/completions"

    @property
    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.api_key}", "Content-Type": "application/json"}

    def _body(self, messages: Sequence[Message], tokens: int) -> dict[str, Any]:
        return {"model": "default", "messages": messages, "max_tokens": tokens}


def _error(status: int, body: bytes, fixed_length: bool = False) -> ChatError:
    refused = fixed_length and 400 <= status < 500 and any(name in body for name in LENGTH_FIELDS)
    way_out = "It may not know the fields that fix a length: --agent-arg fixed_length=false. " if refused else ""
    return ChatError(f"{way_out}The model's endpoint answered {status}: {body[:300].decode('utf-8', 'replace')}")
