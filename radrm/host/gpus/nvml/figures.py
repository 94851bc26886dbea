"""Bytes and numbers that can be believed: what cannot be true is not known."""

from __future__ import annotations

import math

MIB = 1024 * 1024


def mib(count: int | None, total: int) -> int | None:
    """Bytes as MiB, rounded up; None for what cannot be on a device of this size."""
    if count is None or not 0 <= count <= total:
        return None
    return -(-count // MIB)


def within(value: float | None, limit: float) -> float | None:
    """The value if it is a number of 0..limit."""
    if value is None or not math.isfinite(value) or not 0 <= value <= limit:
        return None
    return value
