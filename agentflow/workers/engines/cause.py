"""Why an engine died, in its own words: the line of its log that names the first error.

vLLM and SGLang end with a traceback of the process that noticed; the one that says why it happened stands far above it,
out of reach of a log's last lines.
"""

from __future__ import annotations

import re

LONGEST = 400  # characters; some errors print a whole configuration

_NAMED = re.compile(r"(?:^|[\s\]])((?:\w+\.)*\w*(?:Error|Exception|Interrupt): \S.*)$")  # ValueError: no memory
_USAGE = re.compile(r"^[\w.\- ]+: (error: \S.*)$")  # argparse's
_BENIGN = re.compile(r"\b(WARNING|INFO|DEBUG)\b|[Ww]arning:")


def cause(log: str) -> str | None:
    """The first error that the log names; None when it names none."""
    for line in log.splitlines():
        found = _NAMED.search(line.rstrip()) or _USAGE.match(line.rstrip())
        if found and not _BENIGN.search(line):
            text = found.group(1)
            return text if len(text) <= LONGEST else text[:LONGEST] + "..."
    return None
