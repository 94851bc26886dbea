"""Ranges of positions, and what is left of a dataset. A range is [first, last). Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

Ranges = list[list[int]]


def merged(ranges: Iterable[Sequence[int]]) -> Ranges:
    """Return the ranges [first, last) sorted; those that touch become one."""
    found: Ranges = []
    for first, last in sorted(map(list, ranges)):
        if found and first <= found[-1][1]:
            found[-1][1] = max(found[-1][1], last)
        elif first < last:
            found.append([first, last])
    return found


def cut(ranges: Ranges, first: int, last: int) -> Ranges:
    """Return the `first`th to before the `last`th position of the ranges."""
    found = []
    for start, end in ranges:
        if max(start, start + first) < min(end, start + last):
            found.append([max(start, start + first), min(end, start + last)])
        first, last = first - (end - start), last - (end - start)
    return found


class Deal:
    """The positions of a dataset that nobody has, handed out in order."""

    def __init__(self, samples: int, epochs: int, consumed: Ranges) -> None:
        self._samples = samples
        self.todo: Ranges = []
        first = 0
        for start, end in [*consumed, [samples * epochs] * 2]:
            start = min(start, samples * epochs)
            self.todo += [[first, start]] if first < start else []
            first = end

    def take(self, most: int, unit: int) -> Ranges:
        """Take up to `most` positions of one unit (`unit` positions of an epoch, or its rest)."""
        found: Ranges = []
        while self.todo and most > 0:
            first, last = self.todo[0]
            epoch, place = divmod(first, self._samples)
            ends = epoch * self._samples + min(self._samples, (place // unit + 1) * unit)
            if found and found[0][0] < first - place % unit:
                break
            found.append([first, min(last, first + most, ends)])
            most -= found[-1][1] - first
            self.todo[0] = [found[-1][1], last]
            if found[-1][1] == last:
                self.todo.pop(0)
        return found

    def give_back(self, ranges: Ranges) -> None:
        """Put back what a worker had taken."""
        self.todo = merged([*self.todo, *ranges])
