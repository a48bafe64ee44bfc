"""The address of a network interface, which each node of a cluster has to look up for itself."""

from __future__ import annotations

import socket
import struct
import sys

from agentflow.errors import ConfigError

SIOCGIFADDR = 0x8915  # Linux: get an interface's IPv4 address
NAME_BYTES = 16  # IFNAMSIZ
ADDRESS = slice(20, 24)  # in struct ifreq: the name, family and port before it


def address_of(host: str) -> str:
    """IPv4 address of this machine's network interface of that name (``eth0``); an address or a name as it is.

    Raises:
        ConfigError: the interface has no IPv4 address.
    """
    if sys.platform != "linux" or host not in {name for _, name in socket.if_nameindex()}:
        return host
    import fcntl

    request = struct.pack(f"{NAME_BYTES}s240x", host.encode())
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        try:
            answer = fcntl.ioctl(any_socket, SIOCGIFADDR, request)
        except OSError as e:
            raise ConfigError(
                f"The network interface {host} of {socket.gethostname()} has no IPv4 address ({e.strerror}): name "
                "another one in cluster.interface."
            ) from e
    return socket.inet_ntoa(answer[ADDRESS])
