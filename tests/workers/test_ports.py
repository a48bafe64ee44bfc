"""Ports for servers are free and out of the way of outgoing connections."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from agentflow.errors import WorkerError
from agentflow.workers import ports
from agentflow.workers.ports import EPHEMERAL_LOW, SPAN, ephemeral_low, free_port, is_free


def test_the_ephemeral_range_is_the_kernels(tmp_path: Path) -> None:
    (tmp_path / "range").write_text("32768\t60999\n")
    assert ephemeral_low(tmp_path / "range") == 32768
    assert ephemeral_low(tmp_path / "none") == EPHEMERAL_LOW


def test_a_free_port_lies_below_it_and_can_be_bound() -> None:
    low = ephemeral_low()
    port = free_port("127.0.0.1")
    assert low - SPAN <= port < low
    with socket.socket() as s:
        s.bind(("127.0.0.1", port))
        assert not is_free("127.0.0.1", port)


def test_a_port_is_not_lost_to_connections_of_the_server_that_was_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as client:
            accepted, _ = server.accept()
            assert not is_free("127.0.0.1", port, after_a_server=True)
            accepted.close()  # the server closes first, so its end lingers
            assert client.recv(1) == b""
    assert not is_free("127.0.0.1", port)
    assert is_free("127.0.0.1", port, after_a_server=True)


def test_taken_ports_are_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    taken, free = two_free_ports()
    monkeypatch.setattr(ports, "SPAN", 2)
    with socket.socket() as s:
        s.bind(("127.0.0.1", taken))
        assert {free_port("127.0.0.1", low=free + 1) for _ in range(10)} == {free}


def two_free_ports() -> tuple[int, int]:
    """One beside the other, whatever else runs on this machine."""
    while not is_free("127.0.0.1", (port := free_port("127.0.0.1")) + 1):
        pass
    return port, port + 1


def test_a_kernel_that_gives_out_every_port_leaves_us_some_port() -> None:
    assert free_port("127.0.0.1", low=1024) >= 1024


def test_an_address_of_another_machine_is_refused() -> None:
    with pytest.raises(WorkerError, match=r"is 192\.0\.2\.1 an address of it"):
        free_port("192.0.2.1", low=1034)
