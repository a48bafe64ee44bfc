"""What the user hears of what runners notice: each thing, and not a thousand times. Pure."""

from __future__ import annotations

from agentflow.channel.messages import Stalled, WorkerUnreachable


class Notes:
    """Remembers what was said. Each method gives a sentence, or None where nothing new is to be said."""

    def __init__(self) -> None:
        self._stalls: dict[str, tuple[int, float]] = {}
        self._unreachable: set[tuple[str, str]] = set()  # host of a runner, address of a worker

    def stalled(self, runner: str, message: Stalled) -> str | None:
        """For the first, second, fourth, eighth ... stall at a place: a grader that blocks does so in every episode."""
        times, total_s = self._stalls.get(message.where, (0, 0.0))
        times, total_s = times + 1, total_s + message.seconds
        self._stalls[message.where] = times, total_s
        if times & (times - 1):
            return None
        again = f" ({times} times so far, {total_s:.0f} s in all)" if times > 1 else ""
        return f"{runner} was blocked for {message.seconds:.1f} s by {message.where}{again}."

    def unreachable(self, runner: str, host: str, message: WorkerUnreachable) -> str | None:
        """Once for all runners of a node."""
        if (host, message.address) in self._unreachable:
            return None
        self._unreachable.add((host, message.address))
        return (
            f"{runner} on {host} cannot reach {message.worker} at {message.address} ({message.error}): runners and "
            "workers need a network that they share; see cluster.interface and cluster.controller_host."
        )
