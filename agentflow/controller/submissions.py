"""What ``submit`` handed in and ``wait`` has not yet given back.

Pure bookkeeping. ``wait(count)`` counts submits, not episodes: it gives back the first ``count`` submits that are over,
whichever they are, in the order in which they were submitted.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from agentflow.episode import EpisodeResult, Outcome


@dataclass(frozen=True)
class Submitted:
    """The results of one ``submit``.

    Args:
        id: the item's id.
        index: how many-th submit it was, counted from 0.
        episodes: one result a sample, by sample index.
    """

    id: str
    index: int
    episodes: tuple[EpisodeResult, ...]

    @property
    def rewards(self) -> list[float | None]:
        """Reward of each sample; None where it is not ``scored``."""
        return [e.reward if e.outcome is Outcome.SCORED else None for e in self.episodes]


@dataclass
class _Open:
    id: str
    size: int
    episodes: list[EpisodeResult] = field(default_factory=list)


class Submissions:
    """Submits by number, open and over."""

    def __init__(self) -> None:
        self._open: dict[int, _Open] = {}
        self._over: dict[int, Submitted] = {}
        self._next = 0
        self._ids: set[str] = set()
        self._copies: dict[str, int] = {}

    def open(self, item_id: str, size: int) -> tuple[int, str]:
        """A new submit of ``size`` episodes; returns its number, and its id made unique (``id``, ``id#2``, ...)."""
        unique = item_id
        while unique in self._ids:
            self._copies[item_id] = self._copies.get(item_id, 1) + 1
            unique = f"{item_id}#{self._copies[item_id]}"
        self._ids.add(unique)
        number = self._next
        self._next += 1
        self._open[number] = _Open(unique, size)
        return number, unique

    def ended(self, number: int, result: EpisodeResult) -> None:
        """An episode of this submit is over."""
        submit = self._open[number]
        submit.episodes.append(result)
        if len(submit.episodes) == submit.size:
            del self._open[number]
            episodes = tuple(sorted(submit.episodes, key=lambda e: e.sample_index))
            self._over[number] = Submitted(submit.id, number, episodes)

    @property
    def outstanding(self) -> int:
        """Submits that ``wait`` has not given back, over or not."""
        return len(self._open) + len(self._over)

    @property
    def over(self) -> int:
        """Submits that are over and not given back."""
        return len(self._over)

    def take(self, count: int) -> list[Submitted] | None:
        """Give back ``count`` submits that are over, in submission order; None, and nothing taken, while fewer are."""
        if len(self._over) < count:
            return None
        return [self._over.pop(number) for number in sorted(list(self._over)[:count])]
