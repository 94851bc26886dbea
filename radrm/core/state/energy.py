"""The energy of a device, divided among the attempts that are there.

Theory of operation
-------------------
The meter is the device's energy counter where a reading has it, else power times time. Energy is
booked at each reading, and whenever an attempt comes or goes, so the attempts are the same over
each booked interval. At a change the counter has not been read: the last power is booked *ahead*
of the meter, and subtracted from what the next reading shows. So all parts add up to the meter.

What an attempt gets of an interval:
- The idle draw equally. Idle power is the least power read while no process was there, else
  `ASSUMED_IDLE_W`.
- All above it by SM activity of its own processes; equally if that of one of them is unknown, or
  none shows any.

Energy while no attempt is there is booked for none (None), with what unmanaged processes use there.

Unknown is not zero: energy before the first reading, and over failed readings, is booked for
none and not metered, unless the counter shows it and the attempts stayed the same. `seconds`
counts the metered time.

A restart knows the idle power (`DeviceStatus`), and reads everything else again.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from radrm.core.records import DeviceEnergy, EnergyPart, Reading
from radrm.core.state.readings import OccupantUse

ASSUMED_IDLE_W = 50.0
"""Idle power of a device that has not been read while idle. An A100 draws 50 to 60 W."""
LEAST_IDLE_W = 1.0
"""Less power than this is an error of the sensor."""
_NEWS = 0.02
"""Part of the idle power by which it must fall to be stored again."""
_MOST_W = 100_000.0


class _Part(Struct):
    joules: float = 0.0
    equally_j: float = 0.0


class EnergyMeter:
    """Books the energy of one device. `occupants`: the attempts there now, by job."""

    __slots__ = (
        *("_ahead_j", "_counter_j", "_occupants", "_noted_w", "_over_j", "_parts", "_power_w"),
        *("_read_s", "_seconds", "_unread", "_until_s", "idle_w"),
    )

    def __init__(self, occupants: Mapping[int, OccupantUse]) -> None:
        self._occupants = occupants
        self.idle_w: float | None = None
        """The least power read while no process was there; None before that."""
        self._noted_w: float | None = None
        self._read_s: float | None = None
        """Boot time of the last good reading; None while the energy since then is lost."""
        self._until_s = 0.0
        """Boot time up to which energy is booked."""
        self._counter_j: float | None = None
        self._power_w: float | None = None
        self._ahead_j = 0.0
        """Booked since the last reading."""
        self._over_j = 0.0
        """Booked beyond what the counter has shown; the next energy is less by it."""
        self._unread = False
        """A reading has failed since the last good one."""
        self._parts: dict[int | None, _Part] = {}
        self._seconds = 0.0

    def recall(self, idle_w: float | None) -> None:
        """Continue with the idle power that an earlier daemon has stored."""
        if self.idle_w is None:
            self.idle_w = self._noted_w = idle_w

    def interrupt(self) -> None:
        """A reading failed."""
        self._unread = True

    def take(self, reading: Reading, quiet: bool) -> None:
        """Book the energy until a good reading. `quiet`: no unmanaged process is there."""
        boot_s, since_s = reading.at.boot_s, self._read_s
        if since_s is not None and boot_s < since_s:
            return  # older than the last one
        self._see_activity(reading)
        if since_s is not None:
            self._book_until(reading, since_s)
        if quiet and not self._occupants and since_s == self._until_s:
            self._see_idle(reading.power_w)
        self._until_s = boot_s if since_s is None else max(boot_s, self._until_s)
        self._read_s, self._ahead_j = boot_s, 0.0
        self._power_w, self._counter_j = reading.power_w, reading.energy_j
        self._unread = False

    def count(self, until_s: float) -> None:
        """Book the energy until an attempt comes or goes, for those before."""
        if self._read_s is None or until_s <= self._until_s:
            return
        seconds, self._until_s = until_s - self._until_s, until_s
        if self._unread:
            self._read_s = None  # nobody will know whose energy it was
        elif self._power_w is None:
            self._counter_j = None  # the same
        else:
            joules = self._power_w * seconds
            self._ahead_j += joules if self._counter_j is not None else 0.0
            self._book(joules, seconds)
            self._seconds += seconds

    def drain(self, reading: Reading) -> DeviceEnergy | None:
        """Return what was booked since the last call; None if nothing was metered."""
        if not self._seconds and not self._parts:
            return None
        parts = tuple(
            EnergyPart(job_id, each.joules, each.equally_j) for job_id, each in self._parts.items()
        )
        found = DeviceEnergy(reading.device, reading.at, self._seconds, parts)
        self._parts, self._seconds = {}, 0.0
        return found

    def news(self) -> float | None:
        """Return the idle power if it must be stored again; else None."""
        idle_w, noted_w = self.idle_w, self._noted_w
        if idle_w is None or (noted_w is not None and idle_w > (1 - _NEWS) * noted_w):
            return None
        self._noted_w = idle_w
        return idle_w

    def _book_until(self, reading: Reading, since_s: float) -> None:
        boot_s = reading.at.boot_s
        seconds = max(0.0, boot_s - self._until_s)
        joules = self._metered_j(reading, boot_s - since_s)
        if joules is not None:
            joules -= self._ahead_j
        elif reading.power_w is not None and not self._unread:
            joules = reading.power_w * seconds
        else:
            return
        joules -= self._over_j
        self._over_j = max(0.0, -joules)
        if joules > 0:
            self._book(joules, seconds)
        self._seconds += seconds

    def _metered_j(self, reading: Reading, seconds: float) -> float | None:
        """Return what the counter shows since the last reading; None without one."""
        if reading.energy_j is None or self._counter_j is None:
            return None
        joules = reading.energy_j - self._counter_j
        return joules if 0 <= joules <= _MOST_W * max(1.0, seconds) else None

    def _book(self, joules: float, seconds: float) -> None:
        here = self._occupants
        if not here:
            self._add(None, joules)
            return
        idle_w = ASSUMED_IDLE_W if self.idle_w is None else self.idle_w
        idle_j = min(joules, idle_w * seconds)
        above_j = joules - idle_j
        shown = [each.activity for each in here.values()]
        unknown = None in shown
        total = 0.0 if unknown else sum(each or 0.0 for each in shown)
        for job_id, occupant in here.items():
            weight = (occupant.activity or 0.0) / total if total > 0 else 1 / len(here)
            part_j = idle_j / len(here) + above_j * weight
            occupant.energy_j = (occupant.energy_j or 0.0) + part_j
            self._add(job_id, part_j, above_j * weight if unknown and len(here) > 1 else 0.0)

    def _add(self, job_id: int | None, joules: float, equally_j: float = 0.0) -> None:
        part = self._parts.setdefault(job_id, _Part())
        part.joules += joules
        part.equally_j += equally_j

    def _see_activity(self, reading: Reading) -> None:
        """Note the activity of each job. One without a process there shows none."""
        shown = {m.job_id: m.smact for m in reading.attempts or ()}
        known = any(smact is not None for smact in shown.values())
        for job_id, occupant in self._occupants.items():
            occupant.activity = shown.get(job_id, 0.0) if known else None

    def _see_idle(self, power_w: float | None) -> None:
        if power_w is not None and power_w >= LEAST_IDLE_W:
            self.idle_w = power_w if self.idle_w is None else min(power_w, self.idle_w)
