"""Which worker an episode is placed on.

Pure. The episodes of a group share their prompt, so they go to one worker and find it in its prefix cache, until that
worker is ahead of the emptiest by more than a bounded imbalance: then the group spreads to one more worker. So few
items with many samples still use every worker.
"""

from __future__ import annotations

from collections.abc import Iterable

SLACK_EPISODES = 8  # an engine decodes so many more sequences nearly as fast; a cold prefix costs more
SLACK_SHARE = 0.25  # of the mean load: at 64 episodes a worker, 16 more on one is still level enough


class Placement:
    """Counts the episodes of each worker and chooses for the next one."""

    def __init__(self) -> None:
        self._load: dict[str, int] = {}
        self._healthy: tuple[str, ...] = ()
        self._homes: dict[str, list[str]] = {}

    def set_workers(self, healthy: Iterable[str]) -> None:
        """The workers that may be given episodes now, in a stable order."""
        self._healthy = tuple(healthy)
        for name in self._healthy:
            self._load.setdefault(name, 0)

    def place(self, item_id: str) -> str | None:
        """Choose a worker and count the episode there; None while no worker is healthy."""
        if not self._healthy:
            return None
        emptiest = min(self._healthy, key=self._load.__getitem__)
        mean = sum(self._load[w] for w in self._healthy) / len(self._healthy)
        limit = self._load[emptiest] + max(SLACK_EPISODES, SLACK_SHARE * mean)
        homes = self._homes.setdefault(item_id, [])
        warm = [w for w in homes if w in self._healthy]
        chosen = min(warm, key=self._load.__getitem__, default=None)
        if chosen is None or self._load[chosen] >= limit:
            chosen = emptiest
            if chosen not in homes:
                homes.append(chosen)
        self._load[chosen] += 1
        return chosen

    def release(self, worker: str) -> None:
        """An episode placed on this worker has ended."""
        self._load[worker] -= 1

    def forget(self, item_id: str) -> None:
        """The group is done; its homes need not be remembered."""
        self._homes.pop(item_id, None)

    def load(self, worker: str) -> int:
        """Episodes placed on this worker now."""
        return self._load.get(worker, 0)
