"""Who held which GPU for how long: n attempts on a device get 1/n of its time each.

So all parts add up to the time for which some attempt held the device, as with recent GPU time
(`core/state/users.py`) and with energy. A MIG instance counts as a device.

Theory of operation. The stays are walked through in the order of time. Each device has a sum V of
dt/n; what an attempt gets is V at its end less V at its beginning. So a change costs the same
however many attempts are there. The time of a device in a day is that for which n > 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Protocol

from radrm.daemon.serving.turns import Pace, Work


class Sum(Protocol):
    """Something that adds up seconds of GPUs."""

    gpu_s: float


@dataclass(slots=True)
class _Device:
    count: int = 0
    at_s: float = 0.0
    parts_s: float = 0.0
    """The sum of dt/n."""


class Held:
    """The stays of attempts between two times (epoch seconds)."""

    def __init__(self, begin_s: float, end_s: float) -> None:
        self._begin_s, self._end_s = begin_s, end_s
        self._changes: list[tuple[float, int, bool, str, float, int]] = []
        """A heap: time, a number, whether a stay begins or ends, its device, for what begins its
        end, for what ends V at its beginning, and the place of its sum. Only plain values: the
        garbage collector does not look at such tuples again and again."""
        self._sums: list[Sum | None] = [None]
        self._number = 0
        self._devices: dict[str, _Device] = {}

    def add(self, devices: Sequence[str], begin_s: float, end_s: float, to: Sum | None) -> bool:
        """Note that an attempt held these devices; its part will be added to `to`. False if
        that is at another time."""
        begin_s, end_s = max(begin_s, self._begin_s), min(end_s, self._end_s)
        if begin_s >= end_s:
            return False
        if devices and self._sums[-1] is not to:
            self._sums.append(to)
        for device in devices:
            self._number += 1
            change = begin_s, self._number, True, device, end_s, len(self._sums) - 1
            heappush(self._changes, change)
        return True

    def divide(
        self,
        next_cut: Callable[[float], float],
        of_device: Callable[[str, float, float], None],
    ) -> Work[None]:
        """Add to each sum its part, once.

        `of_device` hears for each device when an interval began in which it was held, and its
        seconds. No interval goes beyond what `next_cut` returns for its beginning.
        """
        pace = Pace()
        while self._changes:
            at_s, number, begins, name, value, place = heappop(self._changes)
            device = self._devices.setdefault(name, _Device())
            if device.count:
                device.parts_s += (at_s - device.at_s) / device.count
                from_s = device.at_s
                while from_s < at_s:
                    until_s = min(at_s, next_cut(from_s))
                    if until_s <= from_s:  # so far from now that a float does not tell
                        until_s = at_s
                    of_device(name, from_s, until_s - from_s)
                    from_s = until_s
            device.at_s = at_s
            if begins:
                device.count += 1
                heappush(self._changes, (value, number, False, name, device.parts_s, place))
            else:
                device.count -= 1
                to = self._sums[place]
                if to is not None:
                    to.gpu_s += device.parts_s - value
            if pace.spent:
                yield from pace.rest()
