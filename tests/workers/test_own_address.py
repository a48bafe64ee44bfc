"""Where an engine listens on its node."""

from __future__ import annotations

import socket
import sys

import psutil
import pytest

from agentflow.errors import WorkerError
from agentflow.workers.own_address import own_address


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_an_engine_whose_controller_is_on_loopback_is_on_loopback(host: str) -> None:
    assert own_address(f"ws://{host}:1234/control") == "127.0.0.1"


def test_an_engine_listens_where_its_node_reaches_the_controller() -> None:
    found = [a.address for of in psutil.net_if_addrs().values() for a in of if a.family is socket.AF_INET]
    for address in (a for a in found if not a.startswith("127.")):
        assert own_address(f"ws://{address}:1234/control") == address


@pytest.mark.skipif(sys.platform != "linux", reason="macOS finds the addresses of interfaces in another way")
def test_a_named_interface_decides() -> None:
    assert own_address("ws://192.0.2.1:1234/control", "lo") == "127.0.0.1"
    with pytest.raises(WorkerError, match=r"cluster.interface=ib7 has no IPv4 address on .*, which has .*lo"):
        own_address("ws://127.0.0.1:1234/control", "ib7")


def test_a_controller_whose_name_is_not_known_is_named() -> None:
    with pytest.raises(WorkerError, match="knows no way to the controller at ws://no-such-host"):
        own_address("ws://no-such-host.invalid:1/control")
