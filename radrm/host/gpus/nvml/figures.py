"""Check the numbers of the driver: an impossible number becomes None (unknown)."""

from __future__ import annotations

import math

MIB = 1024 * 1024


def mib(count: int | None, total: int) -> int | None:
    """Return bytes as MiB, rounded up; None if they exceed the `total` bytes of the device."""
    if count is None or not 0 <= count <= total:
        return None
    return -(-count // MIB)


def within(value: float | None, limit: float) -> float | None:
    """Return the value if it is in 0..limit, else None."""
    if value is None or not math.isfinite(value) or not 0 <= value <= limit:
        return None
    return value
