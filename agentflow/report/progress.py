"""How a run is doing while it runs: a live display on a terminal, a plain line every few seconds elsewhere."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from agentflow.episode import EpisodeResult, Outcome
from agentflow.report.output import Output
from agentflow.report.terminal import STYLES
from agentflow.report.text import clock, count, number, plain

LINE_EVERY_S = 5.0  # elsewhere than on a terminal, while something changes
SILENCE_S = 60.0  # and while nothing does: a log that stands still looks like a hang
REFRESH_PER_S = 4.0


@dataclass
class Tally:
    """Running sums over the results so far; adding one costs the same however many there are.

    Args:
        total: episodes of the run.
        failed_reward: what a failed episode counts in the mean.
    """

    total: int
    failed_reward: float = 0.0
    outcomes: dict[Outcome, int] = field(default_factory=lambda: dict.fromkeys(Outcome, 0))
    done: int = 0
    played: int = 0  # of them, in this process: what rates are made of
    retried: int = 0
    reward_sum: float = 0.0
    tokens: int = 0

    def add(self, result: EpisodeResult, *, earlier: bool = False) -> None:
        """Count a result. ``earlier``: it is from before a resume, and says nothing about speed."""
        if not result.final:
            self.retried += 1
            return
        self.done += 1
        self.outcomes[result.outcome] += 1
        if result.outcome is Outcome.SCORED:
            self.reward_sum += result.reward or 0.0
        elif result.outcome is Outcome.FAILED:
            self.reward_sum += self.failed_reward
        if not earlier:
            self.played += 1
            self.tokens += sum(usage.completion_tokens for usage in result.usage.values())

    @property
    def counted(self) -> int:
        """Episodes in the mean."""
        return self.outcomes[Outcome.SCORED] + self.outcomes[Outcome.FAILED]

    @property
    def mean(self) -> float | None:
        """Mean reward over episodes so far; the headline at the end is over items."""
        return self.reward_sum / self.counted if self.counted else None

    def left_s(self, elapsed_s: float) -> float | None:
        """Seconds to the end at the speed so far; None before the first result."""
        return elapsed_s / self.played * (self.total - self.done) if self.played else None

    def tokens_per_s(self, elapsed_s: float) -> float | None:
        """Completion tokens a second, of episodes that are over."""
        return self.tokens / elapsed_s if self.played and elapsed_s > 0 else None


def line(tally: Tally, elapsed_s: float) -> str:
    """One line for a log."""
    noun = "episode" if tally.total == 1 else "episodes"
    parts = [f"[{clock(elapsed_s)}] {count(tally.done)}/{count(tally.total)} {noun}"]
    parts += [f"{count(n)} {outcome}" for outcome, n in tally.outcomes.items() if n]
    if tally.retried:
        parts.append(f"{count(tally.retried)} retried")
    if tally.mean is not None:
        parts.append(f"reward {number(tally.mean)} (n={count(tally.counted)})")
    if (speed := tally.tokens_per_s(elapsed_s)) is not None:
        parts.append(f"{speed:,.0f} tok/s")
    if (left := tally.left_s(elapsed_s)) is not None and tally.done < tally.total:
        parts.append(f"{clock(left)} left")
    return ", ".join(parts)


def display(tally: Tally, elapsed_s: float) -> RenderableType:
    """Two lines for a terminal: how far, and how good."""
    left = tally.left_s(elapsed_s)
    first = Table.grid(padding=(0, 2, 0, 0))
    first.add_row(
        ProgressBar(total=max(tally.total, 1), completed=tally.done, width=32),
        Text(f"{count(tally.done)}/{count(tally.total)}"),
        Text(clock(elapsed_s), "dim"),
        Text(f"{clock(left)} left" if left is not None and tally.done < tally.total else "", "dim"),
    )
    parts = [Text("reward ", "dim").append(number(tally.mean), "bold").append(f" n={count(tally.counted)}", "dim")]
    parts += [Text(f"{count(n)} {outcome}", STYLES[outcome]) for outcome, n in tally.outcomes.items() if n]
    if tally.retried:
        parts.append(Text(f"{count(tally.retried)} retried", "dim"))
    if (speed := tally.tokens_per_s(elapsed_s)) is not None:
        parts.append(Text(f"{speed:,.0f} tok/s", "dim"))
    return Padding(Group(first, Text("   ").join(parts)), (0, 0, 0, 2))


class Progress:
    """Shows a run's progress from entering to leaving. Results may come from any one thread, a thousand a second.

    Args:
        total: episodes of the run, with those that were played before a resume.
        console: where to; standard output by default.
        failed_reward: what a failed episode counts in the mean.
        earlier: results from before a resume that stay.
        now: a monotonic clock in seconds.
    """

    def __init__(
        self,
        total: int,
        console: Console | None = None,
        *,
        failed_reward: float = 0.0,
        earlier: Iterable[EpisodeResult] = (),
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._tally = Tally(total, failed_reward)
        for result in earlier:
            self._tally.add(result, earlier=True)
        self._console = console or Output()
        self._now = now
        self._started = now()
        self._live: Live | None = None
        self._lines: _Lines | None = None

    def __enter__(self) -> Self:
        self._started = self._now()
        if self._console.is_terminal:
            self._live = Live(
                get_renderable=lambda: display(self._tally, self._elapsed()),
                console=self._console,
                refresh_per_second=REFRESH_PER_S,
                transient=True,
            )
            self._live.start()
        else:
            self._lines = _Lines(self._print_line, lambda: self._tally.done + self._tally.retried)
            self._lines.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()
        if self._lines is not None:
            self._lines.stop()

    def update(self, result: EpisodeResult) -> None:
        """Count a result that just came in."""
        self._tally.add(result)

    def message(self, text: str) -> None:
        """Say something to the user without disturbing the display."""
        self._console.print(plain(text), soft_wrap=True)

    def _elapsed(self) -> float:
        return self._now() - self._started

    def _print_line(self) -> None:
        self._console.print(Text(line(self._tally, self._elapsed())), soft_wrap=True)


class _Lines:
    """A thread that prints from time to time: an event loop that is busy must not silence the log."""

    def __init__(self, print_line: Callable[[], None], changes: Callable[[], int]) -> None:
        self._print = print_line
        self._changes = changes
        self._printed: int | None = None  # how many changes the last line told
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="progress", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Print the last line, where it has not been printed."""
        self._ended.set()
        self._thread.join()
        if self._changes() != self._printed:
            self._print()

    def _run(self) -> None:
        seen, silent = self._changes(), 0.0
        while not self._ended.wait(LINE_EVERY_S):
            silent += LINE_EVERY_S
            if self._changes() != seen or silent >= SILENCE_S:
                seen = self._printed = self._changes()
                silent = 0.0
                self._print()
