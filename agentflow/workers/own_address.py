"""The address of this machine at which others reach an engine of ours."""

from __future__ import annotations

import socket
import struct
from urllib.parse import urlsplit

from agentflow.errors import WorkerError

SIOCGIFADDR = 0x8915  # Linux: the IPv4 address of an interface


def own_address(controller_url: str, interface: str = "") -> str:
    """The address of that interface; where none is named, the one from which this machine reaches the controller.

    So an engine is on loopback exactly when its controller is.

    Raises:
        WorkerError: there is no such interface or no way to the controller.
    """
    try:
        return _of_interface(interface) if interface else _towards(controller_url)
    except OSError as e:
        here = socket.gethostname()
        complaint = f"{here} knows no way to the controller at {controller_url}"
        if interface:
            known = ", ".join(name for _, name in socket.if_nameindex())
            complaint = f"cluster.interface={interface} has no IPv4 address on {here}, which has {known}"
        raise WorkerError(f"{complaint}: {e.strerror or e}.") from e


def _of_interface(name: str) -> str:
    import fcntl

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        reply = fcntl.ioctl(s.fileno(), SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
    return socket.inet_ntoa(reply[20:24])


def _towards(url: str) -> str:
    parts = urlsplit(url)
    family, kind, protocol, _, address = socket.getaddrinfo(parts.hostname, parts.port, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind, protocol) as s:
        s.connect(address)  # sends nothing; it chooses the route
        return str(s.getsockname()[0])
