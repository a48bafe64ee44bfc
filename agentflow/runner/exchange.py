"""One call: from an agent's request to its answer, over as many workers as it takes.

Runs in the task of whoever asks (the agent's own, or the gateway's handler): cancelling that task cancels the request
at the worker. :meth:`Exchange.worker_gone` and :meth:`Exchange.episode_over` reach in from any thread.
"""

from __future__ import annotations

import asyncio
import io
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import aiohttp
import msgspec

from agentflow.channel.messages import Backpressure, WorkerSuspect
from agentflow.episode import Kind, Outcome
from agentflow.errors import system_reason
from agentflow.runner.ask import Ask, AskError, Wire, reply_headers
from agentflow.runner.clock import Clock, EpisodeOverError, WorkerLeftError
from agentflow.runner.dialect import Dialect, error_body, error_message
from agentflow.runner.entry import Entry
from agentflow.runner.numbers import read_reply
from agentflow.runner.policy import Failure, GiveUp, PassOn, Retry, failure_of, hint_of, is_ours, parse_retry_after
from agentflow.runner.relay import relay_for
from agentflow.runner.reply import CLOSED, EPISODE_OVER, JSON, NO_RETRY, Reply, error_reply, json_reply
from agentflow.runner.stream import ReplyStream
from agentflow.runner.translate import TranslationError

if TYPE_CHECKING:
    from agentflow.runner.core import Core
    from agentflow.runner.door import EpisodeDoor
    from agentflow.runner.table import Endpoint

MAX_WRITE_BYTES = 1 << 20


class Failed(msgspec.Struct, frozen=True):
    """One try that a worker did not answer well; ``error`` is for a reader, the rest its answer if there was one."""

    failure: Failure
    error: str
    status: int = 0
    body: bytes = b""
    headers: list[tuple[bytes, bytes]] = []
    retry_after_s: float | None = None


class NoWorkerError(Exception):
    """Waiting for a worker has used up its budget; says for what was waited."""


class Exchange:
    """See the module. ``run`` is called once."""

    def __init__(self, core: Core, door: EpisodeDoor, ask: Ask) -> None:
        self._core = core
        self._door = door
        self._ask = ask
        self._endpoint: Endpoint | None = None  # whose lane this call is in
        self._stream: ReplyStream | None = None
        self.trouble = ""  # why this call has not been answered yet, where that is not the model's affair
        self.clock = Clock()
        self.entry = Entry(core, door, ask)

    async def run(self) -> Reply:
        """The reply. Every way out of here has recorded the call, or left that to the reply's stream."""
        self._door.in_flight.add(self)
        if self._door.closed:  # by another thread, since the door was asked
            self.clock.end_episode()
        try:
            return await self._until_answered()
        except EpisodeOverError:
            return error_reply(self._ask.route.dialect, EPISODE_OVER, CLOSED, NO_RETRY)
        finally:
            if self._stream is None:
                self.entry.close(0, error="the agent went away")
                self._door.in_flight.discard(self)

    # --- the way to an answer -------------------------------------------------------------------------------------

    async def _until_answered(self) -> Reply:
        retry = Retry(self._core.budget)
        failed: Failed | None = None
        while True:
            try:
                endpoint = await self._worker(retry)
            except NoWorkerError as e:
                return self._lost(f"{e}; {failed.error}" if failed else str(e))
            outcome = await self._try(endpoint)
            if isinstance(outcome, Reply):
                return outcome
            if outcome is None:  # it will be asked again without the seed that it refused
                continue
            failed = outcome
            self.trouble = failed.error
            if failed.failure is Failure.LIMITED:
                self._core.notify(Backpressure(endpoint.info.name, failed.retry_after_s))
            decision = retry.after(failed.failure, endpoint.info.name, failed.retry_after_s)
            if isinstance(decision, PassOn):
                return self._pass_on(failed.status, failed.headers, failed.body)
            if isinstance(decision, GiveUp):
                return self._lost(f"{failed.error}; {decision.reason}")
            async with self.clock.limit(None):
                await asyncio.sleep(decision.wait_s)

    async def _worker(self, retry: Retry) -> Endpoint:
        """A healthy worker, in whose lane this call now has a place."""
        role, table = self._ask.workers, self._core.table
        while True:
            snapshot = table.snapshot
            endpoint = snapshot.choose(role, self._door.stays.get(role, ""), retry.avoid, self._door.episode.id)
            if endpoint is not None:
                if endpoint.lane.try_enter() or await self._enter(endpoint):
                    return endpoint
                continue  # it left the table meanwhile
            left_s, since = retry.outage_left_s, self.clock.now()
            self.trouble = self.trouble or f"no worker of role {role!r} is healthy"
            try:
                async with self.clock.limit(left_s):
                    await table.changed(snapshot)
            except TimeoutError:
                raise NoWorkerError(f"no worker of role {role!r} was healthy within {left_s:.0f} s") from None
            retry.waited(self.clock.now() - since)

    async def _enter(self, endpoint: Endpoint) -> bool:
        limit_s = self._core.settings.request_timeout_s
        try:
            async with self.clock.limit(limit_s):
                return await endpoint.lane.enter()
        except TimeoutError:
            name = endpoint.info.name
            raise NoWorkerError(f"{name} had no free place for {limit_s:.0f} s (rollout.worker_calls)") from None

    async def _try(self, endpoint: Endpoint) -> Reply | Failed | None:
        """One request to one worker. None: ask the same again."""
        self._endpoint = endpoint
        endpoint.in_flight.add(self)
        ask, entry, info = self._ask, self.entry, endpoint.info
        entry.worker = info.name
        response: aiohttp.ClientResponse | None = None
        try:
            wire = ask.wire(self._core, endpoint)
            entry.filled = wire.filled
            entry.sent()
            async with self.clock.limit(self._core.settings.request_timeout_s):
                response = await self._core.connections.here().workers.request(
                    ask.method,
                    endpoint.url(wire.path, ask.route.query),
                    data=_payload(wire.body),
                    headers=ask.headers + endpoint.credentials(ask.route.dialect),
                    allow_redirects=False,
                    proxy=endpoint.proxy,
                )
                if response.status == 200 and _is_events(response):
                    # Nothing is handed over before the first byte: until then another worker can still take the call.
                    return self._streamed(wire, response, await response.content.readany())
                body = await response.read()
            return self._answered(endpoint, wire, response, body)
        except AskError as e:
            return self._refused(e.status, str(e), e.details)
        except WorkerLeftError:
            return Failed(Failure.TRANSPORT, f"{info.name} went away during the call")
        except aiohttp.ClientError as e:  # before TimeoutError: a connect that timed out is both
            return self._unreachable(endpoint, e)
        except TimeoutError:
            return self._timed_out(endpoint)
        except OSError as e:
            return self._unreachable(endpoint, e)
        finally:
            if self._stream is None:
                if response is not None:
                    response.close()  # keeps the connection where the answer was read to its end
                self._leave()

    # --- what came of a try ---------------------------------------------------------------------------------------

    def _answered(
        self, endpoint: Endpoint, wire: Wire, response: aiohttp.ClientResponse, body: bytes
    ) -> Reply | Failed | None:
        status, name, dialect = response.status, endpoint.info.name, self._ask.route.dialect
        headers = reply_headers(response.raw_headers)
        failure = failure_of(status, body)
        if failure is not None:
            error = f"{name} answered {status}: {error_message(body)}"
            if failure is Failure.TRANSPORT:
                self._core.notify(WorkerSuspect(name, endpoint.info.generation, error))
            body = body if wire.translator is None else error_body(dialect, status, error_message(body))
            retry_after_s = parse_retry_after(response.headers.get("Retry-After"), time.time())
            return Failed(failure, error, status, body, headers, retry_after_s)
        if status >= 300:
            if _refuses_seed(endpoint, wire, status, body):
                endpoint.refuses_seed = True
                return None
            if is_ours(status):
                message = (
                    f"{name} answered {status}, which is about its URL or key: {error_message(body) or 'no reason'}"
                )
                self._door.decide(Outcome.LOST, Kind.UNREACHABLE, f"{message}.")
            body = body if wire.translator is None else error_body(dialect, status, error_message(body))
            return self._pass_on(status, headers, body)
        if wire.translator is not None:
            try:
                chat = read_reply(Dialect.CHAT, body) or {}
                body = msgspec.json.encode(wire.translator.from_chat(self._ask.decoded(), chat))
            except TranslationError as e:
                error = f"{name} answered what cannot be translated: {e}"
                return Failed(Failure.INTERNAL, error, 502, error_body(dialect, 502, error), [JSON])
        reply = read_reply(dialect, body)
        if reply is None and dialect is not Dialect.OTHER:
            message = f"{name} answered what is no reply of a model, but {_shown(body)}"
            self._door.decide(Outcome.LOST, Kind.UNREACHABLE, f"{message}: is its URL right?")
        self._door.stays[self._ask.workers] = name
        self.entry.first_byte()
        self.entry.close(status, reply, body)
        return Reply(status, headers, body)

    def _streamed(self, wire: Wire, response: aiohttp.ClientResponse, first: bytes) -> Reply:
        if not first:
            raise aiohttp.ClientPayloadError("the stream ended before its first byte")
        self._door.stays[self._ask.workers] = self.entry.worker
        self.entry.first_byte()
        self._stream = ReplyStream(self, response, relay_for(self._ask, wire), first)
        return Reply(response.status, reply_headers(response.raw_headers), stream=self._stream)

    def _pass_on(self, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> Reply:
        """A worker's error goes to the agent as it is."""
        self.entry.close(status, None, body, error=error_message(body), hint=hint_of(status, body))
        return Reply(status, headers, body)

    def _refused(self, status: int, message: str, details: Mapping[str, Any] | None = None) -> Reply:
        reply = json_reply(status, error_body(self._ask.route.dialect, status, message, details))
        self.entry.close(status, None, reply.body, error=message)
        return reply

    def _unreachable(self, endpoint: Endpoint, e: Exception) -> Failed:
        info = endpoint.info
        error = f"{info.name} could not be reached: {_reason(e)}"
        self._core.notify(WorkerSuspect(info.name, info.generation, error))
        return Failed(Failure.TRANSPORT, error)

    def _timed_out(self, endpoint: Endpoint) -> Reply | Failed:
        if not endpoint.info.healthy:
            return Failed(Failure.TRANSPORT, f"{endpoint.info.name} did not answer and is not healthy")
        message = self.too_slow()
        self.entry.close(504, error=message, hint=Kind.CALL_TIMEOUT)
        return error_reply(self._ask.route.dialect, 504, message, NO_RETRY)

    def _lost(self, reason: str) -> Reply:
        message = f"No worker answered this call, so the episode is lost: {reason}."
        self._door.decide(Outcome.LOST, Kind.UNREACHABLE, message)
        self.entry.close(503, error=message)
        return error_reply(self._ask.route.dialect, 503, message, NO_RETRY)

    # --- for the reply's stream -----------------------------------------------------------------------------------

    def too_slow(self) -> str:
        """The sentence for a live worker that did not answer in time."""
        limit_s = self._core.settings.request_timeout_s
        return f"{self.entry.worker} lives but did not finish this call within {limit_s:g} s (rollout.request_timeout)."

    def broke_off(self, reason: str) -> str:
        """A stream ended after its first byte and before its end: the episode is lost. Returns the sentence."""
        assert self._endpoint is not None
        info = self._endpoint.info
        message = f"{info.name} broke off a stream in the middle ({reason}), so the episode is lost."
        self._door.decide(Outcome.LOST, Kind.STREAM_BROKEN, message)
        self._core.notify(WorkerSuspect(info.name, info.generation, message))
        return message

    def stream_over(self) -> None:
        """The stream has recorded the call and let go of the response."""
        self._leave()
        self._door.in_flight.discard(self)

    def _leave(self) -> None:
        endpoint, self._endpoint = self._endpoint, None
        if endpoint is not None:
            endpoint.in_flight.discard(self)
            endpoint.lane.leave()

    # --- reached into from outside --------------------------------------------------------------------------------

    def worker_gone(self, endpoint: Endpoint) -> None:
        """This worker is gone: try elsewhere now, not when the timeout has passed. From any thread."""
        self.clock.tell(lambda: self.clock.leave() if self._endpoint is endpoint else None)

    def episode_over(self) -> None:
        """Record what there is, then cancel the request at the worker. From any thread."""
        self.entry.close(0, self._stream.reply() if self._stream else None, error="the episode was over")
        self.clock.tell(self._end)

    def _end(self) -> None:
        if not self.clock.end_episode() and self._stream is not None:
            self._stream.abandon()


def _reason(e: Exception) -> str:
    # aiohttp's own sentence for a failed connect says "ssl:default" also where no TLS was asked for.
    if isinstance(e, aiohttp.ClientConnectorError) and not isinstance(e, aiohttp.ClientSSLError):
        said = system_reason(e.os_error)
        return f"{said[:1].lower()}{said[1:]} at {e.host}:{e.port}"
    return f"{type(e).__name__}: {e}"


def _shown(body: bytes, limit: int = 60) -> str:
    text = body[: 4 * limit].decode("utf-8", "replace").strip()
    return repr(text if len(text) <= limit else f"{text[:limit]}...") if text else "nothing"


def _payload(body: bytes) -> bytes | io.BytesIO | None:
    """aiohttp writes large bytes in one go, which holds the loop up, and a BytesIO in pieces."""
    return (body if len(body) <= MAX_WRITE_BYTES else io.BytesIO(body)) or None


def _is_events(response: aiohttp.ClientResponse) -> bool:
    for name, value in response.raw_headers:
        if name.lower() == b"content-type":
            return value.startswith(b"text/event-stream")
    return False


def _refuses_seed(endpoint: Endpoint, wire: Wire, status: int, body: bytes) -> bool:
    """Some hosted endpoints refuse a seed as an unknown field; the agent did not ask for one."""
    return status in (400, 422) and "seed" in wire.filled and b"seed" in body and not endpoint.refuses_seed
