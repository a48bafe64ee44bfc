"""A streamed reply on its way from a worker to the agent."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Self

import aiohttp

from agentflow.episode import Kind
from agentflow.runner.clock import EpisodeOverError, WorkerLeftError
from agentflow.runner.policy import hint_of, tells_engine_death
from agentflow.runner.relay import Relay
from agentflow.runner.reply import CLOSED, StreamBrokenError

if TYPE_CHECKING:
    from agentflow.runner.exchange import Exchange


class ReplyStream:
    """Hands over bytes as they come; records the call at its end, whichever end that is."""

    def __init__(self, exchange: Exchange, response: aiohttp.ClientResponse, relay: Relay, first: bytes) -> None:
        self._exchange = exchange
        self._response = response
        self._relay = relay
        self._next: bytes | None = first
        self._deadline = exchange.clock.deadline  # the stream belongs to the try that it answers
        self._open = True
        self._read_at = time.perf_counter()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        while self._open:
            chunk, self._next = self._next, None
            if chunk is None:
                chunk = await self._read()
            out = self._relay.feed(chunk) if chunk else self._finish()
            self._exchange.entry.arrived(self._relay.pieces, self._read_at)
            if out:
                return out
        raise StopAsyncIteration

    async def _read(self) -> bytes:
        left_by_agent = True  # cancelled in the middle, unless one of the ways below is taken
        try:
            async with self._exchange.clock.until(self._deadline):
                chunk = await self._response.content.readany()
                self._read_at = time.perf_counter()
            left_by_agent = False
            return chunk
        except EpisodeOverError:
            raise StreamBrokenError(CLOSED) from None
        except WorkerLeftError:
            left_by_agent = False
            raise self._broken("it is gone or was restarted") from None
        except (aiohttp.ClientError, ConnectionError) as e:
            left_by_agent = False
            if self._relay.ended:
                return b""
            raise self._broken(f"{type(e).__name__}: {e}") from e
        except TimeoutError:
            left_by_agent = False
            message = self._exchange.too_slow()
            self._close(200, message, Kind.CALL_TIMEOUT)
            raise StreamBrokenError(message) from None
        finally:
            if left_by_agent:
                self.abandon()

    def _finish(self) -> bytes:
        """The worker has closed the stream."""
        out = self._relay.finish()
        if not (self._relay.whole or self._relay.error):
            raise self._broken("it closed the stream before its end")
        self._end()
        return out

    def _broken(self, reason: str) -> StreamBrokenError:
        message = self._exchange.broke_off(reason)
        self._close(200, message, None)
        return StreamBrokenError(message)

    def _end(self) -> None:
        error = self._relay.error
        if tells_engine_death(error.encode()):
            self._broken(error)
        self._close(200, error, hint_of(500, error.encode()) if error else None)

    def _close(self, status: int, error: str, hint: Kind | None) -> None:
        if self._open:
            self._open = False
            self._response.close()  # keeps the connection where the worker's stream was read to its end
            self._exchange.entry.close(status, self._relay.reply(), error=error, hint=hint)
            self._exchange.stream_over()

    def abandon(self) -> None:
        """The agent reads no further; where the reply was whole already, it had all it wanted."""
        if self._relay.whole or self._relay.error:
            self._end()
        else:
            self._close(0, "the agent went away", None)

    def reply(self) -> dict[str, Any] | None:
        """The reply as far as it came."""
        return self._relay.reply()

    async def aclose(self) -> None:
        """Done with it; has no effect after the end."""
        self.abandon()
