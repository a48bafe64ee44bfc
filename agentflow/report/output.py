"""Where things are printed."""

from __future__ import annotations

import os
import sys

from rich.console import Console, ConsoleOptions, ConsoleRenderable, RenderableType, RenderHook, RenderResult
from rich.segment import Segment


class Output(Console):
    """Standard output. When its reader has gone (``| head``) it falls silent, and what is being done goes on.

    rich's own answer is to raise SystemExit, wherever in the program something is printed. In a pipe or a file no line
    ends in spaces: rich fills lines to the full width.
    """

    def __init__(self) -> None:
        super().__init__()
        if not self.is_terminal:
            self.push_render_hook(_Trimming())

    def on_broken_pipe(self) -> None:
        """Print nowhere from now on, also what is still buffered."""
        self.quiet = True
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class _Trimming(RenderHook):
    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        return [_Trimmed(renderable) for renderable in renderables]


class _Trimmed:
    """A renderable without the spaces at the ends of its lines."""

    def __init__(self, inner: RenderableType) -> None:
        self._inner = inner

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        segments = [s for s in Segment.filter_control(console.render(self._inner, options)) if s.text]
        lines = list(Segment.split_lines(segments))
        goes_on = bool(lines) and not segments[-1].text.endswith("\n")
        unfinished = lines.pop() if goes_on else []
        for line in lines:
            yield from _trimmed(line)
            yield Segment.line()
        yield from unfinished


def _trimmed(line: list[Segment]) -> list[Segment]:
    while line and not line[-1].text.rstrip(" "):
        line.pop()
    return [*line[:-1], Segment(line[-1].text.rstrip(" "), line[-1].style)] if line else line
