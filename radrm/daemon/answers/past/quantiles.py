"""Quantiles of any number of amounts, in a small space: counts on a logarithmic scale."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import exp, log

_GROWTH = log(1.03)


@dataclass(slots=True)
class Quantiles:
    """Counts of amounts above zero. Amounts below `least` count as zero.

    What it says of them is exact to 1.5 %.
    """

    least: float = 1.0
    count: int = 0
    places: dict[int, int] = field(default_factory=dict)

    def add(self, amount: float) -> None:
        place = -1 if amount < self.least else int(log(amount / self.least) / _GROWTH)
        self.places[place] = self.places.get(place, 0) + 1
        self.count += 1

    def quantile(self, part: float) -> float | None:
        """Return the amount that this part (0..1) of all is not above; None without any."""
        passed, wanted = 0, part * self.count
        for place in sorted(self.places):
            passed += self.places[place]
            if passed >= wanted:
                return 0.0 if place < 0 else self.least * exp(_GROWTH * (place + 0.5))
        return None
