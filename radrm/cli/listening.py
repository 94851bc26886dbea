"""Where a server of radrm listens: the `--listen` of the page and of the metrics."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address

from radrm.errors import UsageError


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
