"""A streamed reply on its way from a worker to the agent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import aiohttp

from agentflow.episode import Kind
from agentflow.runner.policy import hint_of
from agentflow.runner.relay import Relay
from agentflow.runner.reply import CLOSED, StreamBrokenError

if TYPE_CHECKING:
    from agentflow.runner.exchange import Exchange


class ReplyStream:
    """Hands over bytes as they come; records the call at its end, whichever end that is."""

    def __init__(
        self, exchange: Exchange, response: aiohttp.ClientResponse, relay: Relay, first: bytes, deadline: float | None
    ) -> None:
        self._exchange = exchange
        self._response = response
        self._relay = relay
        self._next: bytes | None = first
        self._deadline = deadline
        self._open = True

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        while self._open:
            chunk, self._next = self._next, None
            if chunk is None:
                chunk = await self._read()
            out = self._relay.feed(chunk) if chunk else self._finish()
            if out:
                return out
        raise StopAsyncIteration

    async def _read(self) -> bytes:
        exchange = self._exchange
        finished = False
        try:
            async with exchange.timeout_at(self._deadline):
                chunk = await self._response.content.readany()
            finished = True
            return chunk
        except TimeoutError:
            finished = True
            if exchange.is_over:
                self.abandon()
                raise StreamBrokenError(CLOSED) from None
            if exchange.worker_left:
                raise self._broken("the worker is gone or was restarted") from None
            message = exchange.timeout_message()
            self._close(200, message, Kind.CALL_TIMEOUT)
            raise StreamBrokenError(message) from None
        except (aiohttp.ClientError, OSError) as e:
            finished = True
            raise self._broken(f"{type(e).__name__}: {e}") from e
        finally:
            exchange.clear_timeout()
            if not finished:  # cancelled: the agent went away in the middle
                self.abandon()

    def _finish(self) -> bytes:
        out = self._relay.finish()
        if self._relay.whole or self._relay.error:
            self._end()
            return out
        raise self._broken("it closed the stream before its end")

    def _broken(self, reason: str) -> StreamBrokenError:
        message = self._exchange.stream_broke(reason)
        self._close(200, message, None)
        return StreamBrokenError(message)

    def _end(self) -> None:
        error = self._relay.error
        self._close(200, error, hint_of(500, error.encode()) if error else None)

    def _close(self, status: int, error: str, hint: Kind | None) -> None:
        if not self._open:
            return
        self._open = False
        self._response.close()  # keeps the connection where the worker's stream was read to its end
        self._exchange.leave_worker()
        self._exchange.end(status, self._relay.reply(), error=error, hint=hint)

    def abandon(self) -> None:
        """The agent reads no further. Whole already: it had all it wanted."""
        if self._relay.whole:
            self._end()
        else:
            self._close(0, "the agent went away", None)

    def reply(self) -> dict[str, Any] | None:
        """The reply as far as it came."""
        return self._relay.reply()

    async def aclose(self) -> None:
        """Done with it; has no effect after the end."""
        self.abandon()
