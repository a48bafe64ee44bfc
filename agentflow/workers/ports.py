"""Free ports for servers: below the ephemeral range, so that no outgoing connection takes one in between."""

from __future__ import annotations

import random
import socket
from pathlib import Path

from agentflow.errors import WorkerError

RANGE_FILE = Path("/proc/sys/net/ipv4/ip_local_port_range")
EPHEMERAL_LOW = 49152  # IANA's, and macOS's
SPAN = 12000  # how far below we go: well above the ports that services are given
UNPRIVILEGED = 1024


def ephemeral_low(range_file: Path = RANGE_FILE) -> int:
    """The lowest port that the kernel gives to outgoing connections."""
    try:
        return int(range_file.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return EPHEMERAL_LOW


def is_free(host: str, port: int, *, after_a_server: bool = False) -> bool:
    """Whether a server could bind there now.

    Args:
        after_a_server: connections of a server that has ended there just now do not count.
    """
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as s:
        if after_a_server:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            s.bind((host, port))
        except OSError:
            return False
    return True


def free_port(host: str, low: int | None = None) -> int:
    """A port that is free now, at random, so that servers which start beside each other seldom meet. Another process
    may still take it first: whoever starts a server tries again with another.

    Args:
        low: the lowest ephemeral port; None: ask the kernel.

    Raises:
        WorkerError: none is free, or the host is not an address of this machine.
    """
    end = ephemeral_low() if low is None else low
    candidates = list(range(max(UNPRIVILEGED, end - SPAN), end)) or list(range(UNPRIVILEGED, 65536))
    random.shuffle(candidates)
    for port in candidates:
        if is_free(host, port):
            return port
    raise WorkerError(
        f"No port between {min(candidates)} and {max(candidates)} of {host} can be bound on "
        f"{socket.gethostname()}: is {host} an address of it?"
    )
