"""The runner's I/O thread: control channel and gateway, on a loop of their own.

User code that blocks the main thread then stops neither the channel (a blocked runner does not look dead) nor the
calls that other processes and a plain ``def run`` make through the gateway.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterable
from concurrent.futures import Future
from contextlib import AsyncExitStack
from dataclasses import dataclass

import anyio
import anyio.abc

from agentflow.channel.client import Address, Channel, ChannelClosedError, connect
from agentflow.channel.messages import (
    EpisodeEnded,
    Message,
    RunnerSettings,
    SetUpRunner,
    ToProcess,
    TraceChunk,
    Workers,
)
from agentflow.errors import RunnerError
from agentflow.runner.forward import Forwarder
from agentflow.runner.gateway import Gateway
from agentflow.runner.probe import Probe

SETUP_TIMEOUT_S = 60.0  # from the connection to the controller's first message


@dataclass(frozen=True)
class Ended:
    """An attempt's end as it leaves the runner. The trace is serialised by the I/O thread and sent first."""

    message: EpisodeEnded
    trace: Iterable[bytes] = ()


@dataclass(frozen=True)
class Started:
    """What there is once the controller has set the runner up."""

    settings: RunnerSettings
    forwarder: Forwarder
    gateway: Gateway


@dataclass(frozen=True)
class _Receipt:
    message: Message
    sent: Future[None]


class Link:
    """The grip on the I/O thread. All methods may be called from any thread.

    Args:
        receive: called in the I/O thread with every message, except the first and ``Workers``, which end there.
        closed: called in the I/O thread when the controller closes the channel or is gone.
    """

    def __init__(self, address: Address, receive: Callable[[ToProcess], None], closed: Callable[[], None]) -> None:
        self.started: Future[Started] = Future()
        self.finished: Future[None] = Future()  # everything sent, channel closed on both ends, gateway down
        self._address = address
        self._receive = receive
        self._closed = closed
        self._loop = asyncio.new_event_loop()
        self._outbox: asyncio.Queue[Message | Ended | _Receipt | None] = asyncio.Queue()
        self._after_channel: Callable[[], None] | None = None
        self._thread = threading.Thread(target=self._run, name="agentflow-io", daemon=True)

    def start(self) -> None:
        """Connect; ``started`` tells what came of it."""
        self._thread.start()

    def post(self, item: Message | Ended) -> None:
        """Send, in the order of the calls, and return at once. Without a channel the item is dropped."""
        self._call(lambda: self._outbox.put_nowait(item))

    async def send(self, message: Message) -> None:
        """Send in the same order, and return when it has left: a large set of rows does not pile up in memory."""
        receipt = _Receipt(message, Future())
        self._call(lambda: self._outbox.put_nowait(receipt))
        await asyncio.wrap_future(receipt.sent)

    def every(self, seconds: float, callback: Callable[[], None]) -> None:
        """Call back in the I/O thread, for as long as it runs."""

        def again() -> None:
            self._loop.call_later(seconds, again)
            callback()

        self._call(again)

    def close(self, after_channel: Callable[[], None] | None = None) -> None:
        """Send what was posted, close the channel (the controller has read everything then), then the gateway.

        Args:
            after_channel: called in the I/O thread between these two.
        """
        self._after_channel = after_channel
        self._call(lambda: self._outbox.put_nowait(None))

    def _call(self, callback: Callable[[], None]) -> None:
        try:
            self._loop.call_soon_threadsafe(callback)
        except RuntimeError:  # the loop is closed: the thread has ended, and the channel with it
            return

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
                runner.run(self._serve())
        except BaseException as e:  # noqa: BLE001 - handed to whoever waits; a thread has nobody above it
            if self.started.done():
                self._closed()
            else:
                self.started.set_exception(e)
            self.finished.set_exception(e)
        else:
            self.finished.set_result(None)

    async def _serve(self) -> None:
        async with AsyncExitStack() as outlives_channel:
            async with connect(self._address, "runner") as channel:
                incoming = aiter(channel)
                set_up = await self._first(incoming)
                forwarder = Forwarder(set_up.settings, self.post)
                forwarder.set_workers(set_up.workers)
                gateway = await outlives_channel.enter_async_context(Gateway.serve(forwarder))
                self.started.set_result(Started(set_up.settings, forwarder, gateway))
                async with anyio.create_task_group() as tasks:
                    probe = Probe(self.post)
                    probe.look(set_up.workers, tasks)
                    tasks.start_soon(self._receive_all, incoming, forwarder, probe, tasks)
                    await self._send_all(channel)
                    tasks.cancel_scope.cancel()
            if self._after_channel is not None:
                self._after_channel()

    async def _first(self, incoming: AsyncIterator[ToProcess]) -> SetUpRunner:
        try:
            async with asyncio.timeout(SETUP_TIMEOUT_S):
                message = await anext(incoming)
        except StopAsyncIteration:
            raise ChannelClosedError(f"The controller closed the channel of {self._address.name} at once.") from None
        except TimeoutError:
            raise RunnerError(
                f"The controller at {self._address.url} did not set up {self._address.name} in {SETUP_TIMEOUT_S:g} s."
            ) from None
        if not isinstance(message, SetUpRunner):
            raise RunnerError(f"{self._address.name} expected SetUpRunner first and got {type(message).__name__}.")
        return message

    async def _receive_all(
        self,
        incoming: AsyncIterator[ToProcess],
        forwarder: Forwarder,
        probe: Probe,
        tasks: anyio.abc.TaskGroup,
    ) -> None:
        async for message in incoming:
            if isinstance(message, Workers):
                forwarder.set_workers(message.workers)
                probe.look(message.workers, tasks)
            else:
                self._receive(message)
        self._closed()

    async def _send_all(self, channel: Channel) -> None:
        open_channel = True
        while (item := await self._outbox.get()) is not None:
            try:
                if open_channel:
                    await _send(channel, item)
            except ChannelClosedError:  # the receiving side sees it too and says so; from here on nobody listens
                open_channel = False
            if isinstance(item, _Receipt):
                item.sent.set_result(None)


async def _send(channel: Channel, item: Message | Ended | _Receipt) -> None:
    if isinstance(item, Ended):
        for chunk in item.trace:
            await channel.send(TraceChunk(item.message.episode, chunk))
        await channel.send(item.message)
    else:
        await channel.send(item.message if isinstance(item, _Receipt) else item)
