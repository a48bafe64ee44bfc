"""Which way an endpoint is reached."""

from __future__ import annotations

import pytest

from agentflow.proxy import proxy_to


@pytest.fixture(autouse=True)
def _proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "HTTPS_PROXY", "no_proxy", "NO_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("https_proxy", "http://proxy:3128")
    monkeypatch.setenv("no_proxy", "internal.example")


def test_the_proxy_of_the_scheme_is_taken_unless_the_host_is_spared() -> None:
    assert proxy_to("https://api.example/v1") == "http://proxy:3128"
    assert proxy_to("http://api.example/v1") is None
    assert proxy_to("https://gpu1.internal.example:8000") is None


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]"])
def test_this_machine_is_never_reached_through_one(host: str) -> None:
    assert proxy_to(f"https://{host}:8000") is None
