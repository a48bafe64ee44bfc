"""One call: from an agent's request to the last byte of its answer, over as many workers as it takes.

Runs in the task of whoever asks (the agent's own, or the gateway's handler): cancelling that task cancels the request
at the worker. :meth:`Exchange.worker_gone` and :meth:`Exchange.episode_over` reach in from any thread.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import aiohttp
import msgspec

from agentflow.channel.messages import Backpressure, WorkerSuspect
from agentflow.episode import Call, Kind, Outcome
from agentflow.runner.ask import Ask, AskError, Wire, reply_headers
from agentflow.runner.dialect import Dialect, error_body, error_message
from agentflow.runner.numbers import Numbers, numbers, read_reply
from agentflow.runner.policy import Failure, GiveUp, PassOn, Retry, failure_of, hint_of, parse_retry_after
from agentflow.runner.relay import Relay, ThinnedRelay, TranslatedRelay
from agentflow.runner.reply import CLOSED, EPISODE_OVER, NO_RETRY, Reply, error_reply
from agentflow.runner.stream import ReplyStream
from agentflow.runner.translate import TranslationError

if TYPE_CHECKING:
    from agentflow.runner.core import Core
    from agentflow.runner.door import EpisodeDoor
    from agentflow.runner.table import Endpoint

_EVENTS = b"text/event-stream"
_JSON = (b"content-type", b"application/json")


class Failed(msgspec.Struct, frozen=True):
    """One try that a worker did not answer well."""

    failure: Failure
    error: str
    status: int = 0
    body: bytes = b""
    headers: list[tuple[bytes, bytes]] = []
    retry_after_s: float | None = None


class EpisodeOverError(Exception):
    """The episode ended while this call was on its way."""


class NoWorkerError(Exception):
    """The waiting for a worker has used up its budget; says for what was waited."""


class Exchange:
    """See the module. ``run`` is called once."""

    def __init__(self, core: Core, door: EpisodeDoor, ask: Ask) -> None:
        self._core = core
        self._door = door
        self._ask = ask
        self._loop = asyncio.get_running_loop()
        self._place = door.recorder.begin()
        self._started_at = time.time()
        self._started = time.perf_counter()
        self._tries = 0
        self._endpoint: Endpoint | None = None
        self._inside = False  # holds a place in the endpoint's lane
        self._wire: Wire | None = None
        self._clock: asyncio.Timeout | None = None
        self.worker_left = False  # set from outside: its worker is gone
        self.is_over = False  # set from outside: its episode is over
        self._stream: ReplyStream | None = None
        self._ttft_s: float | None = None
        self._over = False

    # --- the way of a call ----------------------------------------------------------------------------------------

    async def run(self) -> Reply:
        """The reply. Every way out of here has recorded the call, or handed that duty to the reply's stream."""
        self._door.in_flight.add(self)
        try:
            return await self._until_answered()
        except EpisodeOverError:
            return error_reply(self._ask.route.dialect, EPISODE_OVER, CLOSED, NO_RETRY)
        finally:
            if self._stream is None:
                self.end(0, error="the agent went away")  # has no effect where the call was recorded already

    async def _until_answered(self) -> Reply:
        retry = Retry(self._core.budget)
        failed: Failed | None = None
        while True:
            try:
                endpoint = await self._worker(retry)
            except NoWorkerError as e:
                return self._lost(f"{e}; {failed.error}" if failed else str(e))
            outcome = await self._try(endpoint)
            if outcome is None:  # the worker left, or shed a field: no try was spent
                continue
            if isinstance(outcome, Reply):
                return outcome
            failed = outcome
            name = endpoint.info.name
            if failed.failure is Failure.LIMITED:
                self._core.notify(Backpressure(name, failed.retry_after_s))
            decision = retry.after(failed.failure, name, failed.retry_after_s)
            if isinstance(decision, PassOn):
                return self._pass_on(failed.status, failed.headers, failed.body)
            if isinstance(decision, GiveUp):
                return self._lost(f"{failed.error}; {decision.reason}")
            await self._pause(decision.wait_s)

    async def _worker(self, retry: Retry) -> Endpoint:
        """A healthy worker with a free place for this call."""
        role = self._ask.role
        table = self._core.table
        while True:
            snapshot = table.snapshot
            endpoint = snapshot.choose(role, self._door.stays.get(role, ""), retry.avoid, self._door.episode.id)
            if endpoint is not None:
                if endpoint.lane.try_enter() or await self._wait_in(endpoint):
                    return endpoint
                continue
            left, since = retry.outage_left_s, self._loop.time()
            try:
                async with self._timeout(left):
                    await table.changed(snapshot)
            except TimeoutError:
                self._raise_if_over()
                raise NoWorkerError(f"no worker of role {role!r} was healthy within {left:.0f} s of waiting") from None
            finally:
                self._clock = None
            retry.waited(self._loop.time() - since)

    async def _wait_in(self, endpoint: Endpoint) -> bool:
        limit = self._core.settings.request_timeout_s
        try:
            async with self._timeout(limit):
                return await endpoint.lane.enter()
        except TimeoutError:
            self._raise_if_over()
            name = endpoint.info.name
            raise NoWorkerError(f"{name} had no free place for {limit:.0f} s (rollout.worker_calls)") from None
        finally:
            self._clock = None

    async def _pause(self, seconds: float) -> None:
        try:
            async with self._timeout(None):
                await asyncio.sleep(seconds)
        except TimeoutError:
            self._raise_if_over()
        finally:
            self._clock = None

    async def _try(self, endpoint: Endpoint) -> Reply | Failed | None:
        """One request to one worker, whose lane is entered already."""
        self._endpoint = endpoint
        self._inside = True
        self.worker_left = False
        endpoint.in_flight.add(self)
        response: aiohttp.ClientResponse | None = None
        try:
            ask = self._ask
            try:
                wire = self._wire = ask.wire(self._core, endpoint)
            except AskError as e:
                return self._refused(e.status, str(e))
            self._tries += 1
            headers = ask.headers + endpoint.credentials(ask.route.dialect)
            async with self._timeout(self._core.settings.request_timeout_s):
                response = await self._core.connections.here().workers.request(
                    ask.method,
                    endpoint.url(wire.path, ask.route.query),
                    data=wire.body or None,
                    headers=headers,
                    allow_redirects=False,
                )
                if response.status == 200 and _is_events(response):
                    # Nothing is handed over before the first byte: until then another worker can still take the call.
                    return self._streamed(endpoint, response, await response.content.readany())
                body = await response.read()
            return self._answered(endpoint, response, body)
        except aiohttp.ClientError as e:
            return self._broken(endpoint, e)
        except TimeoutError:
            return self._timed_out(endpoint)
        except OSError as e:
            return self._broken(endpoint, e)
        finally:
            self._clock = None
            if self._stream is None:
                if response is not None:
                    response.close()  # keeps the connection where the answer was read to its end
                self.leave_worker()

    # --- what came of a try ---------------------------------------------------------------------------------------

    def _answered(self, endpoint: Endpoint, response: aiohttp.ClientResponse, body: bytes) -> Reply | Failed | None:
        status = response.status
        headers = reply_headers(response.raw_headers)
        failure = failure_of(status)
        if failure is not None:
            retry_after = parse_retry_after(response.headers.get("Retry-After"), time.time())
            error = f"{endpoint.info.name} answered {status}: {error_message(body)}"
            return Failed(failure, error, status, body, headers, retry_after)
        if status >= 400:
            if self._refuses_seed(endpoint, status, body):
                endpoint.refuses_seed = True
                return None
            return self._pass_on(status, headers, body)
        assert self._wire is not None
        if self._wire.translator is not None:
            try:
                chat = read_reply(Dialect.CHAT, body) or {}
                body = msgspec.json.encode(self._wire.translator.from_chat(self._ask.decoded(), chat))
            except TranslationError as e:
                return Failed(Failure.INTERNAL, str(e), 502, error_body(self._ask.route.dialect, 502, str(e)), [_JSON])
        self._settle(endpoint)
        self._ttft_s = time.perf_counter() - self._started
        self.end(status, read_reply(self._ask.route.dialect, body), body)
        return Reply(status, headers, body)

    def _streamed(self, endpoint: Endpoint, response: aiohttp.ClientResponse, first: bytes) -> Reply:
        assert self._wire is not None
        if not first:
            raise aiohttp.ClientPayloadError("the stream ended before its first byte")
        dialect = self._ask.route.dialect
        relay: Relay
        if self._wire.translator is not None:
            relay = TranslatedRelay(dialect, self._wire.translator.Stream(self._ask.decoded()))
        else:
            relay = ThinnedRelay(dialect) if self._wire.thin else Relay(dialect)
        self._settle(endpoint)
        self._ttft_s = time.perf_counter() - self._started
        deadline = self._clock.when() if self._clock else None
        self._stream = ReplyStream(self, response, relay, first, deadline)
        return Reply(response.status, reply_headers(response.raw_headers), stream=self._stream)

    def _pass_on(self, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> Reply:
        """A worker's error goes to the agent untouched, or in the agent's dialect where that was translated."""
        message = error_message(body)
        if self._wire is not None and self._wire.translator is not None:
            body = error_body(self._ask.route.dialect, status, message)
        self.end(status, None, body, error=message, hint=hint_of(status, body))
        return Reply(status, headers, body)

    def _refused(self, status: int, message: str) -> Reply:
        reply = error_reply(self._ask.route.dialect, status, message)
        self.end(status, None, reply.body, error=message)
        return reply

    def _broken(self, endpoint: Endpoint, e: Exception) -> Failed:
        error = f"{endpoint.info.name} could not be reached: {type(e).__name__}: {e}"
        self._core.notify(WorkerSuspect(endpoint.info.name, endpoint.info.generation, error))
        return Failed(Failure.TRANSPORT, error)

    def _timed_out(self, endpoint: Endpoint) -> Reply | Failed:
        self._raise_if_over()
        name = endpoint.info.name
        if self.worker_left or not endpoint.info.healthy:
            return Failed(Failure.TRANSPORT, f"{name} went away during the call")
        message = self.timeout_message()
        self.end(504, error=message, hint=Kind.CALL_TIMEOUT)
        return error_reply(self._ask.route.dialect, 504, message, NO_RETRY)

    def _lost(self, reason: str) -> Reply:
        message = f"No worker answered this call, so the episode is lost: {reason}."
        self._door.decide(Outcome.LOST, Kind.UNREACHABLE, message)
        self.end(503, error=message)
        return error_reply(self._ask.route.dialect, 503, message, NO_RETRY)

    def timeout_message(self) -> str:
        """For a live worker that did not answer in time."""
        name = self._endpoint.info.name if self._endpoint else "the worker"
        limit = self._core.settings.request_timeout_s
        return f"{name} lives but did not finish this call within {limit:g} s (rollout.request_timeout)"

    def stream_broke(self, reason: str) -> str:
        """A stream ended after its first byte and before its end: the episode is lost. Returns the sentence."""
        assert self._endpoint is not None
        info = self._endpoint.info
        message = f"{info.name} broke off a stream in the middle ({reason}), so the episode is lost."
        self._door.decide(Outcome.LOST, Kind.STREAM_BROKEN, message)
        self._core.notify(WorkerSuspect(info.name, info.generation, message))
        return message

    def _settle(self, endpoint: Endpoint) -> None:
        self._door.stays[self._ask.role] = endpoint.info.name

    def _refuses_seed(self, endpoint: Endpoint, status: int, body: bytes) -> bool:
        """Some hosted endpoints refuse a seed as an unknown field; the agent did not ask for one."""
        filled = self._wire is not None and "seed" in self._wire.filled
        return filled and status in (400, 422) and b"seed" in body and not endpoint.refuses_seed

    # --- the end of a call ----------------------------------------------------------------------------------------

    def end(
        self,
        status: int,
        reply: dict[str, Any] | None = None,
        body: bytes | None = None,
        *,
        error: str = "",
        hint: Kind | None = None,
    ) -> None:
        """Record the call once; later calls have no effect. From any thread."""
        if self._over:
            return
        self._over = True
        door, ask = self._door, self._ask
        found = numbers(ask.route.dialect, reply) if reply is not None else Numbers()
        call = Call(
            id=found.id or f"call-{self._place}",
            api=ask.route.path,
            started_at=self._started_at,
            latency_s=time.perf_counter() - self._started,
            status=status,
            role=ask.role,
            worker=self._endpoint.info.name if self._endpoint else "",
            ttft_s=self._ttft_s,
            prompt_tokens=found.prompt_tokens,
            completion_tokens=found.completion_tokens,
            cached_tokens=found.cached_tokens,
            tool_calls=found.tool_calls,
            truncated=found.truncated,
            tries=max(1, self._tries),
            error=door.redact(error),
        )
        fields = ask.fields
        if fields is not None and self._wire is not None:
            fields = {**fields, **self._wire.filled}
        response = body if body is not None else reply
        if door.recorder.end(self._place, call, ask.body if fields is None else fields, ask.conversation, response):
            door.ended(ask, hint, body, reply)
            if ask.conversation.tools and ask.fields is not None:
                self._core.tell_schema(ask.conversation.tools, bytes(ask.fields["tools"]))
        door.in_flight.discard(self)

    def leave_worker(self) -> None:
        """Give the place at the worker back."""
        if self._inside and self._endpoint is not None:
            self._inside = False
            self._endpoint.in_flight.discard(self)
            self._endpoint.lane.leave()

    # --- reached into from outside --------------------------------------------------------------------------------

    def worker_gone(self, endpoint: Endpoint) -> None:
        """This worker is gone: try elsewhere now, not when the timeout has passed. From any thread."""
        self._from_outside(lambda: self._worker_left(endpoint))

    def episode_over(self) -> None:
        """Its episode is over: record what there is, then cancel the request at the worker. From any thread."""
        self.end(0, self._stream.reply() if self._stream else None, error="the episode was over")
        self._from_outside(self._be_over)

    def _from_outside(self, do: Callable[[], None]) -> None:
        with suppress(RuntimeError):  # its loop is closed, and the call with it
            self._loop.call_soon_threadsafe(do)

    def _worker_left(self, endpoint: Endpoint) -> None:
        if self._inside and self._endpoint is endpoint:
            self.worker_left = True
            self._wake()

    def _be_over(self) -> None:
        self.is_over = True
        if not self._wake() and self._stream is not None:
            self._stream.abandon()

    def _wake(self) -> bool:
        if self._clock is None or self._clock.expired():
            return False
        self._clock.reschedule(self._loop.time())
        return True

    def _raise_if_over(self) -> None:
        if self.is_over:
            raise EpisodeOverError

    def _timeout(self, seconds: float | None) -> asyncio.Timeout:
        """A timeout that :meth:`_wake` can make fire early; clear ``_clock`` afterwards."""
        self._raise_if_over()
        self._clock = asyncio.timeout(seconds)
        return self._clock

    def timeout_at(self, when: float | None) -> asyncio.Timeout:
        """The same for the reply's stream."""
        self._clock = asyncio.timeout_at(when)
        return self._clock

    def clear_timeout(self) -> None:
        """The wait of :meth:`timeout_at` is over."""
        self._clock = None


def _is_events(response: aiohttp.ClientResponse) -> bool:
    return any(value.startswith(_EVENTS) for name, value in response.raw_headers if name.lower() == b"content-type")
