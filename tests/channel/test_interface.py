"""cluster.interface names an interface, or an address."""

from __future__ import annotations

import sys

import psutil
import pytest

from agentflow.channel.interface import address_of


@pytest.mark.skipif(sys.platform != "linux", reason="interfaces are looked up on Linux")
def test_every_interface_of_this_machine_gives_its_address() -> None:
    with_ipv4 = {
        name: [a.address for a in addresses if a.family.name == "AF_INET"]
        for name, addresses in psutil.net_if_addrs().items()
    }
    assert with_ipv4["lo"] == ["127.0.0.1"]
    assert all(address_of(name) in addresses for name, addresses in with_ipv4.items() if addresses)


@pytest.mark.parametrize("host", ["127.0.0.1", "10.1.2.3", "node7", "::1"])
def test_an_address_or_a_name_stays_as_it_is(host: str) -> None:
    assert address_of(host) == host
