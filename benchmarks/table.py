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


def percentile(values: Sequence[float], part: float) -> float:
    """The value that this part (0..1) does not exceed; of few values, the largest."""
    return sorted(values)[min(len(values) - 1, int(len(values) * part))]


def p95_ms(seconds: Sequence[float]) -> float:
    """The 95th percentile in milliseconds."""
    return percentile(seconds, 0.95) * 1e3
