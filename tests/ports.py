"""Free TCP ports for programs that take a port number as an option."""

from __future__ import annotations

import random
import socket
from contextlib import ExitStack, suppress
from pathlib import Path

_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")


def free_ports(number: int) -> list[int]:
    """Return distinct free ports below the kernel's ephemeral range, so that no outgoing connection
    takes one before the program listens."""
    first = int(_RANGE.read_text().split()[0])
    found: list[int] = []
    with ExitStack() as stack:
        for port in random.sample(range(5000, max(first, 6000)), 1000):
            listener = stack.enter_context(socket.socket())
            with suppress(OSError):
                listener.bind(("127.0.0.1", port))
                found.append(port)
            if len(found) == number:
                return found
    raise AssertionError("no port is free")
