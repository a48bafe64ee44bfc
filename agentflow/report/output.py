"""Where things are printed."""

from __future__ import annotations

import os
import sys

from rich.console import Console


class Output(Console):
    """Standard output. When its reader has gone (``| head``) it falls silent, and what is being done goes on.

    rich's own answer is to raise SystemExit, wherever in the program something is printed.
    """

    def on_broken_pipe(self) -> None:
        """Print nowhere from now on, also what is still buffered."""
        self.quiet = True
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
