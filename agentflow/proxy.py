"""The way to endpoints of others where the environment names a proxy. Our own addresses never go through one."""

from __future__ import annotations

from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

LOOPBACK = ("127.0.0.1", "localhost", "::1")


def proxy_to(url: str) -> str | None:
    """The proxy that ``HTTPS_PROXY`` and its kind name for a URL; None where ``NO_PROXY`` spares it, or it is here."""
    parsed = urlsplit(url)
    host = parsed.hostname or ""
    if host in LOOPBACK or proxy_bypass(host):
        return None
    return getproxies().get(parsed.scheme)
