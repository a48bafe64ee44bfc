"""What is known of an endpoint of others while a run goes on.

Nobody vouches for it, as a supervisor does for an engine of ours. So a call that failed at it is the sign to ask
it ourselves; and where it does not answer, to ask again until it does. While all is well it is asked nothing.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass

import anyio

from agentflow.channel.messages import WorkerInfo

AWAY = (502, 503, 504)  # a gateway without a server behind it, or a server that loads its model
ASK_AGAIN_S = 2.0  # calls wait meanwhile, and one request costs nothing


@dataclass(frozen=True)
class Outage:
    """An endpoint cannot be reached.

    Args:
        began: seconds of a monotonic clock.
        at: local time, for a reader.
        reason: a clause.
    """

    began: float
    at: str
    reason: str

    @classmethod
    def now(cls, reason: str) -> Outage:
        """One that begins now."""
        return cls(time.monotonic(), time.strftime("%H:%M:%S"), reason)


class Watch:
    """Looks after one endpoint.

    Args:
        ask: why the endpoint cannot be reached; None where it answers.
        on_change: called with an outage as it begins, with None as it ends.
        on_away: called each time that the endpoint was asked again in vain; what it raises ends the watch.
    """

    def __init__(
        self,
        ask: Callable[[], Awaitable[str | None]],
        on_change: Callable[[Outage | None], None],
        on_away: Callable[[], None],
    ) -> None:
        self._ask = ask
        self._on_change = on_change
        self._on_away = on_away
        self._suspected = anyio.Event()

    def suspect(self) -> None:
        """A call could not reach the endpoint."""
        self._suspected.set()

    async def run(self) -> None:
        """Ask where there is cause to, until cancelled."""
        while True:
            await self._suspected.wait()
            self._suspected = anyio.Event()
            if (reason := await self._ask()) is None:
                continue
            self._on_change(Outage.now(reason))
            while await self._ask() is not None:
                self._on_away()
                await anyio.sleep(ASK_AGAIN_S)
            self._on_change(None)


def why_away(answer: int | str, usual: int | str) -> str | None:
    """Whether an endpoint's answer (a status, or why there is none) says that it is away: a clause, or None. Pure.

    Args:
        usual: its answer while all was well; a gateway may say 503 to whatever it does not understand.
    """
    if isinstance(answer, str):
        return answer
    return f"it answers {answer}" if answer in AWAY and answer != usual else None


def hopeless(outages: Iterable[Outage | None], now: float, patience_s: float) -> bool:
    """Whether every worker of a role (None: it is no endpoint, or can be reached) has been away for so long. Pure."""
    return all(outage is not None and now - outage.began >= patience_s for outage in outages)


def outage_text(endpoint: WorkerInfo, outage: Outage, *, elsewhere: bool) -> str:
    """What the user hears as an outage begins; ``elsewhere``: another endpoint of the role can be reached."""
    meanwhile = "calls go elsewhere until it is back" if elsewhere else "nothing new starts until it is back"
    return f"{endpoint.name} at {endpoint.url} cannot be reached since {outage.at} ({outage.reason}): {meanwhile}."
