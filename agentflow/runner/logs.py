"""Keep episode keys out of logs: HTTP clients log the whole URL of every request at level INFO."""

from __future__ import annotations

import logging

from agentflow.runner.keys import hide

CLIENT_LOGGERS = ("httpx2", "httpx")


class _HideKeys(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        if isinstance(record.args, tuple):
            record.args = tuple(arg if isinstance(arg, int | float) else hide(str(arg)) for arg in record.args)
        return True


_hide_keys = _HideKeys()


def hide_keys_in_logs() -> None:
    """From now on, in this process. Costs nothing where nobody listens at that level; may be called again."""
    for name in CLIENT_LOGGERS:
        logging.getLogger(name).addFilter(_hide_keys)
