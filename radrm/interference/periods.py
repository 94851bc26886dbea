"""Runs that shared devices, cut into periods in which the same runs were at work.

Theory of operation
-------------------
A run loads its devices from `computes_s` until `end_s`. The speed of a run on several devices
depends on its neighbours on all of them. So a period covers a *component*: devices that such
runs connect. Each change on a device ends the period of its component, and begins new ones.

The times of all runs are on one clock, in seconds. Nothing here depends on demands, so periods
are made once, and speeds are computed for many assumed demands.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from radrm.interference.model import Demand, Load, activity, mixed_speeds, running_speeds

_BEGINS, _COMPUTES, _ENDS = range(3)


@dataclass(frozen=True, slots=True)
class Run:
    """A run on one or more devices. It puts no load on them before `computes_s`."""

    devices: tuple[str, ...]
    mps: bool
    begin_s: float
    computes_s: float
    end_s: float


@dataclass(frozen=True, slots=True)
class Part:
    """One device in a period: the positions of the runs at work on it; `mps`: all are clients.
    `joint`: runs on several devices have neighbours in the period."""

    seconds: float
    runs: tuple[int, ...]
    mps: bool
    joint: bool


@dataclass(frozen=True, slots=True)
class Period:
    """`parts` are positions in `Periods.parts`, one for each device, and `runs` those at work."""

    seconds: float
    runs: tuple[int, ...]
    parts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Periods:
    """All periods of a history.

    `within` has, for each run and device, the positions in `parts` between the run's begin and
    end there.
    """

    runs: tuple[Run, ...]
    periods: tuple[Period, ...]
    parts: tuple[Part, ...]
    within: dict[tuple[int, str], tuple[int, ...]]


class _Cutter:
    """Goes through all changes in the order of time."""

    def __init__(self, runs: Sequence[Run]) -> None:
        self.runs = runs
        self.here: dict[str, dict[int, None]] = {d: {} for run in runs for d in run.devices}
        self.since: dict[str, float] = dict.fromkeys(self.here, 0.0)
        self.of_device: dict[str, list[int]] = {d: [] for d in self.here}
        self.parts: list[Part] = []
        self.periods: list[Period] = []

    def component(self, devices: Iterable[str]) -> list[str]:
        """Return the devices that runs at work connect with these, these included."""
        found = dict.fromkeys(devices)
        left = list(found)
        while left:
            for at in self.here[left.pop()]:
                more = [d for d in self.runs[at].devices if d not in found]
                found.update(dict.fromkeys(more))
                left += more
        return list(found)

    def close(self, devices: Iterable[str], now_s: float) -> None:
        """End the periods of the components of these devices."""
        left = dict.fromkeys(devices)
        while left:
            component = self.component([next(iter(left))])
            busy = [d for d in component if self.here[d]]
            seconds = now_s - self.since[component[0]]
            if busy and seconds > 0:
                self._add(busy, seconds)
            for device in component:
                self.since[device] = now_s
                left.pop(device, None)

    def _add(self, devices: Sequence[str], seconds: float) -> None:
        first = len(self.parts)
        runs = tuple(dict.fromkeys(at for d in devices for at in self.here[d]))
        joint = len(runs) > 1 and any(len(self.runs[at].devices) > 1 for at in runs)
        for device in devices:
            here = tuple(self.here[device])
            self.of_device[device].append(len(self.parts))
            mps = all(self.runs[at].mps for at in here)
            self.parts.append(Part(seconds, here, mps, joint))
        self.periods.append(Period(seconds, runs, tuple(range(first, len(self.parts)))))


def cut(runs: Sequence[Run]) -> Periods:
    """Return the periods of these runs. Each has `begin_s <= computes_s <= end_s`, and devices
    that differ."""
    changes = sorted(
        change
        for at, run in enumerate(runs)
        for change in (
            (run.begin_s, _BEGINS, at),
            (run.computes_s, _COMPUTES, at),
            (run.end_s, _ENDS, at),
        )
    )
    cutter = _Cutter(runs)
    first: dict[tuple[int, str], int] = {}
    within: dict[tuple[int, str], tuple[int, ...]] = {}
    for now_s, change, at in changes:
        devices = runs[at].devices
        if change == _COMPUTES:
            # The run will connect its devices, so their components change together.
            cutter.close(cutter.component(devices), now_s)
            for device in devices:
                cutter.here[device][at] = None
            continue
        cutter.close(devices, now_s)
        for device in devices:
            if change == _BEGINS:
                first[at, device] = len(cutter.of_device[device])
            else:
                within[at, device] = tuple(cutter.of_device[device][first[at, device] :])
                cutter.here[device].pop(at, None)
    return Periods(tuple(runs), tuple(cutter.periods), tuple(cutter.parts), within)


def period_speeds(periods: Periods, period: Period, demands: Sequence[Demand]) -> list[float]:
    """Return the speed (0..1] of each of the period's runs; `demands` has one for every run."""
    first = periods.parts[period.parts[0]]
    if not first.joint:
        clients = [periods.runs[at].mps for at in period.runs]
        return list(mixed_speeds([demands[at] for at in period.runs], clients))
    loads = {
        at: Load(demands[at], periods.runs[at].devices, periods.runs[at].mps) for at in period.runs
    }
    found = running_speeds(loads)
    return [found[at] for at in period.runs]


def part_activities(periods: Periods, period: Period, demands: Sequence[Demand]) -> list[float]:
    """Return the SM activity of the device of each of the period's parts."""
    speed = dict(zip(period.runs, period_speeds(periods, period, demands), strict=True))
    found = []
    for place in period.parts:
        runs = periods.parts[place].runs
        found.append(activity([demands[at] for at in runs], [speed[at] for at in runs]))
    return found


def solo_seconds(periods: Periods, demands: Sequence[Demand], least_speed: float) -> list[float]:
    """Return for each run the seconds that its work would take alone, its start-up included.

    No speed counts as less than `least_speed`, so that no time becomes zero.
    """
    found = [run.computes_s - run.begin_s for run in periods.runs]
    for period in periods.periods:
        at_speeds = period_speeds(periods, period, demands)
        for at, speed in zip(period.runs, at_speeds, strict=True):
            found[at] += period.seconds * max(least_speed, speed)
    return found
