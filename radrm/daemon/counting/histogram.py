"""A histogram with fixed bounds: how many values lie within each of them."""

from __future__ import annotations

from bisect import bisect_left
from typing import Any


class Histogram:
    """Counts values by `bounds`, which ascend. A value that equals a bound lies within it."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def add(self, value: float) -> None:
        """Count one value. A negative one, which a clock that was set back gives, counts as 0."""
        value = max(0.0, value)
        self._counts[bisect_left(self.bounds, value)] += 1
        self._sum += value

    def document(self) -> dict[str, Any]:
        """As JSON: `counts` has one number for each bound, without those of lower bounds, and a
        last one for the values above all."""
        return {"bounds": list(self.bounds), "counts": list(self._counts), "sum": self._sum}
