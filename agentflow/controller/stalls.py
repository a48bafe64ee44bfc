"""What the user hears of runners whose event loop was blocked: each place, and ever more seldom. Pure."""

from __future__ import annotations


class Stalls:
    """Counts by place. A grader that blocks for two seconds does so in every episode, and one line tells as much."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[int, float]] = {}

    def sentence(self, runner: str, seconds: float, where: str) -> str | None:
        """The sentence for the first, second, fourth, eighth ... stall at this place; None for those between."""
        times, total_s = self._seen.get(where, (0, 0.0))
        times, total_s = times + 1, total_s + seconds
        self._seen[where] = times, total_s
        if times & (times - 1):
            return None
        again = f" ({times} times so far, {total_s:.0f} s in all)" if times > 1 else ""
        return f"{runner} was blocked for {seconds:.1f} s by {where}{again}."
