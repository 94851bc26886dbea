"""One row of the benchmark table, and the numbers that go into it."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """One measurement: its name, its value and its limit."""

    what: str
    measured: float
    limit: float
    unit: str
    detail: str = ""

    @property
    def fine(self) -> bool:
        return self.measured <= self.limit


def shown(rows: Sequence[Row]) -> int:
    """Print rows; return the exit code: 1 if one is over its limit."""
    for row in rows:
        print(f"{row.what:<50}{row.measured:8.2f} {row.unit:<8}(limit {row.limit:g}) {row.detail}")
    return 0 if all(row.fine for row in rows) else 1


def median_ms(seconds: Sequence[float]) -> float:
    return statistics.median(seconds) * 1e3


def p95_ms(seconds: Sequence[float]) -> float:
    """The 95th percentile in milliseconds; of few values, the largest."""
    ordered = sorted(seconds)
    return ordered[min(len(ordered) - 1, len(ordered) * 95 // 100)] * 1e3
