"""Options that several commands share, for commands that always use typer."""

from __future__ import annotations

import math
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Annotated

import typer

from radrm.cli.parameters import DEVICES, JSON
from radrm.errors import UsageError


def finite(value: float | None) -> float | None:
    """The callback of every option that takes a number with a point: `nan` passes all limits."""
    if value is not None and not math.isfinite(value):
        raise typer.BadParameter(f"{value} is not a finite number.")
    return value


def address(text: str, port: int) -> tuple[IPv4Address | IPv6Address, int]:
    """Return address and port of a `--listen`: `9750`, `127.0.0.1:9750` or `[::1]:9750`.

    Only addresses and `localhost`, because a name could lead anywhere. `port` is an example for
    the message. Raises `UsageError`.
    """
    host, _, number = text.rpartition(":")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host or "127.0.0.1"
    try:
        if not (number.isascii() and number.isdecimal() and int(number) < 1 << 16):
            raise ValueError
        return ip_address("127.0.0.1" if bare == "localhost" else bare), int(number)
    except ValueError:
        raise UsageError(
            f"--listen={text} is not an address and a port, as in 127.0.0.1:{port}"
        ) from None


Json = Annotated[bool, typer.Option(*JSON.flags, help=JSON.help)]
Devices = Annotated[list[str] | None, typer.Argument(metavar=DEVICES.metavar, help=DEVICES.help)]
