"""Ports for programs that are told theirs before they listen."""

from __future__ import annotations

import random
import socket
from contextlib import ExitStack, suppress
from pathlib import Path

_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")


def free_ports(number: int) -> list[int]:
    """Ports that nobody uses now, all different. The kernel gives them to no connection meanwhile,
    as it would those that it picks itself."""
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
