"""A time in parts: hours, or local days, or several of these; and how many were there meanwhile."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from math import ceil

from radrm.deadlines.costs import Zone

HOUR_S, DAY_S = 3600.0, 86_400.0
MOST = 400
_HOURLY_S = 8 * DAY_S


@dataclass(frozen=True, slots=True)
class Bins:
    """`edges`: epoch seconds, ascending; a bin is from one to the next. At most `MOST` bins."""

    edges: tuple[float, ...]

    @classmethod
    def of(cls, zone: Zone, begin_s: float, end_s: float) -> Bins:
        """Hours for up to eight days, else local days, from the beginning of the first one."""
        lasting_s = end_s - begin_s
        if lasting_s <= _HOURLY_S:
            hours = (begin_s + place * HOUR_S for place in range(1, MOST))
            edges = [begin_s, *(edge_s for edge_s in hours if edge_s < end_s)]
            return cls((*edges, max(end_s, edges[-1])))
        step_s = DAY_S * ceil(lasting_s / DAY_S / (MOST - 1))
        local_s = zone.local_s(begin_s)
        midnight_s = local_s - local_s % DAY_S
        edges = [begin_s]
        for place in range(1, MOST):
            edge_s = _wall_s(zone, midnight_s + place * step_s)
            if edge_s >= end_s:
                break
            if edge_s > edges[-1]:
                edges.append(edge_s)
        return cls((*edges, max(end_s, edges[-1])))

    @property
    def count(self) -> int:
        return len(self.edges) - 1

    def place(self, wall_s: float) -> int | None:
        """Return the number of the bin of a time; None outside of all."""
        if not self.edges[0] <= wall_s < self.edges[-1]:
            return None
        return bisect_right(self.edges, wall_s) - 1

    def next_s(self, wall_s: float) -> float:
        """Return when the next bin begins; infinity after the last."""
        at = bisect_right(self.edges, wall_s)
        return self.edges[at] if at < len(self.edges) else float("inf")

    def lasting_s(self, place: int) -> float:
        return self.edges[place + 1] - self.edges[place]


def _wall_s(zone: Zone, local_s: float) -> float:
    """Return an epoch second at which the local clock shows this time."""
    guess_s = local_s - (zone.local_s(local_s) - local_s)
    return local_s - (zone.local_s(guess_s) - guess_s)


@dataclass(slots=True)
class Level:
    """How many things were there, on the mean of each bin.

    A stay costs the same however many bins it covers: the area of what begins at t is the rest of
    t's bin, and all of the later ones.
    """

    bins: Bins
    _areas: list[float] = field(init=False)
    _later: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self._areas = [0.0] * (self.bins.count + 1)
        self._later = [0] * (self.bins.count + 1)

    def stay(self, begin_s: float, end_s: float) -> None:
        """Add one thing that was there between two times (epoch seconds)."""
        first_s, last_s = self.bins.edges[0], self.bins.edges[-1]
        if begin_s >= end_s or end_s <= first_s or begin_s >= last_s:
            return
        self._change(max(begin_s, first_s), 1)
        if end_s < last_s:
            self._change(end_s, -1)

    def _change(self, at_s: float, by: int) -> None:
        place = bisect_right(self.bins.edges, at_s) - 1
        self._areas[place] += by * (self.bins.edges[place + 1] - at_s)
        self._later[place + 1] += by

    def means(self) -> list[float]:
        """Return the mean of each bin."""
        there, found = 0, []
        for place in range(self.bins.count):
            there += self._later[place]
            lasting_s = self.bins.lasting_s(place)
            area = self._areas[place] + there * lasting_s
            found.append(max(0.0, area / lasting_s) if lasting_s else 0.0)
        return found
