"""Readings: their checks, memory by job, and the measured use of an attempt on a device."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping

from msgspec import Struct, field

from radrm.core.records import (
    Beside,
    DeviceProcess,
    Reading,
    Usage,
)
from radrm.core.units import show_mib
from radrm.core.words import Collocation
from radrm.structs import replace


def merged(usage: Iterable[Usage], newer: Iterable[Usage]) -> tuple[Usage, ...]:
    """Return one entry per device. A newer entry replaces the older: it contains its figures."""
    return tuple({u.device: u for u in (*usage, *newer)}.values())


MOST_BESIDE = 16
"""Parts into which the shared time of an attempt on a device is divided. Further time counts
with the part that is most similar."""
_STEP = 0.05
"""Neighbours' SM activity is rounded to this, so that the parts are few."""
_UNKNOWN = 0.5
"""Stands for an unknown SM activity where similar parts are looked for."""

CONTEXT_MIB = 2048
"""A process takes up to so much before its first tensor: CUDA's context and libraries (1.7 GiB were
measured on an A100)."""

Others = tuple[float | None, ...]


class _Part(Struct):
    seconds: float = 0.0
    sum: float = 0.0
    count: int = 0
    kept: Beside | None = None
    """The last record of it."""

    def record(self, others: Others) -> Beside:
        kept = self.kept
        if kept is None or kept.seconds != self.seconds or kept.count != self.count:
            mean = self.sum / self.count if self.count else None
            kept = self.kept = Beside(others, self.seconds, mean, self.count)
        return kept


class OccupantUse(Struct):
    """The measured use of one live attempt on one device."""

    job_id: int
    serial: int
    uid: int
    collocation: Collocation
    since_s: float
    observed_mib: int | None = None
    peak_mib: int | None = None
    grew_s: float = 0.0
    """Boot time when its memory last grew noticeably."""
    settled: bool = False
    """Its memory has stopped growing."""
    smact_sum: float = 0.0
    smact_count: int = 0
    alone_sum: float = 0.0
    """The sum of the readings of SM activity at which it was alone here and had started up."""
    alone_count: int = 0
    predicted_smact: float | None = None
    """The SM activity that was predicted of its job; None if none was."""
    beside: dict[Others, _Part] = field(default_factory=dict)
    """The shared time, by the SM activity of the others."""
    energy_j: float | None = None
    activity: float | None = None
    """The SM activity of its own processes at the last reading, 0..1; None: unknown."""
    shared: bool = False
    """Another attempt was on the device at some time."""
    noted_s: float = 0.0
    """Boot time when its usage was last written to the attempt's record."""
    floor_mib: int = 0
    """The least MiB reserved for it: the need that the job's out-of-memory deaths have proven."""
    recovering: bool = False
    """An earlier attempt of the job died of GPU out-of-memory."""
    wide: bool = False
    """The attempt has several devices."""
    unknown: bool = False
    """Its need was not known when it came, and it is no session."""
    on_trial: bool = False
    """Its need is not known, and it has not settled yet (`CoreSettings.trial_floor_mib`)."""
    began_s: float | None = None
    """Boot time of the first reading that shows more than a context of it; None: none does."""
    stepped_s: float | None = None
    """Boot time of its last report of enough steps (`CoreSettings.settle_steps`)."""
    steady_s: float | None = None
    """Boot time of the first reading after that; None until it has been taken."""
    promised_mib: int | None = None
    """What was reserved before its growth enlarged that; None: the reservation as it is."""

    def see(self, used_mib: int, boot_s: float, growth_mib: int) -> bool:
        """Take in a memory reading. Returns whether the peak rose by more than `growth_mib`."""
        self.observed_mib = used_mib
        if used_mib > CONTEXT_MIB and self.began_s is None:
            self.began_s = boot_s
        if self.peak_mib is None or used_mib > self.peak_mib:
            rise = used_mib - (self.peak_mib or 0)
            self.peak_mib = used_mib
            if rise > growth_mib:
                self.grew_s = boot_s
                self.settled = False
                return True
        return False

    def step(self, now_s: float) -> None:
        """Note that its job has now done enough steps for its memory to be known."""
        self.stepped_s, self.steady_s = now_s, None

    def is_quiet(self, boot_s: float, settle_s: float, after_steps_s: float) -> bool:
        """Return whether its memory has grown by nothing noticeable for long enough.

        That is `settle_s`, or `after_steps_s` after the first reading since its steps.
        """
        if not self.peak_mib:
            return False  # it is starting up
        loads = self.on_trial and self.began_s is None  # it has a context, and loads its data
        if not loads and boot_s - max(self.grew_s, self.since_s) >= settle_s:
            return True
        if self.stepped_s is not None and self.steady_s is None and boot_s > self.stepped_s:
            self.steady_s = boot_s
        since_s = self.steady_s
        return since_s is not None and self.grew_s <= since_s <= boot_s - after_steps_s

    def grow_again(self, now_s: float) -> None:
        """Note that tasks of the attempt have come here now, whose memory will grow."""
        self.settled, self.grew_s = False, now_s
        self.stepped_s = self.steady_s = None
        if not self.peak_mib:
            self.since_s = now_s  # the device was only reserved until now

    def recall(self, usage: Usage, now_s: float) -> None:
        """Continue the figures that an earlier daemon recorded.

        The record does not say when the memory last grew, so it counts as growing now.
        """
        self.peak_mib = usage.peak_mib
        self.energy_j = usage.energy_j
        self.shared = usage.shared
        self.grew_s = now_s
        self.began_s = now_s if (usage.peak_mib or 0) > CONTEXT_MIB else None
        if usage.smact_mean is not None:
            self.smact_count = max(1, usage.smact_count)
            self.smact_sum = usage.smact_mean * self.smact_count
        if usage.alone_smact is not None:
            self.alone_count = max(1, usage.alone_count)
            self.alone_sum = usage.alone_smact * self.alone_count
        for part in usage.beside[:MOST_BESIDE]:
            total = (part.smact or 0.0) * part.count
            self.beside[part.others] = _Part(part.seconds, total, part.count)

    def part_beside(self, others: Iterable[OccupantUse]) -> _Part:
        """Return the part of its shared time beside these others, a new one if there is room."""
        known = [other.own_smact for other in others]
        steps = sorted(round(each / _STEP) * _STEP for each in known if each is not None)
        key = (*(round(each, 2) for each in steps), *[None] * known.count(None))
        if key not in self.beside and len(self.beside) >= MOST_BESIDE:
            key = min(self.beside, key=lambda other: abs(_load(other) - _load(key)))
        part = self.beside.get(key)
        if part is None:
            part = self.beside[key] = _Part()
        return part

    def see_smact(self, smact: float, alone: bool) -> None:
        """Take in a reading of SM activity. `alone`: it shows this attempt only."""
        self.smact_sum += smact
        self.smact_count += 1
        if alone:
            self.alone_sum += smact
            self.alone_count += 1

    @property
    def alone_smact(self) -> float | None:
        """The mean SM activity while it was alone here, 0..1; None without such a reading."""
        return self.alone_sum / self.alone_count if self.alone_count else None

    @property
    def own_smact(self) -> float | None:
        """The SM activity that it shows alone, 0..1: as measured, else as predicted."""
        found = self.predicted_smact if self.alone_smact is None else self.alone_smact
        return None if found is None else min(1.0, max(0.0, found))

    def usage(self, device: str) -> Usage:
        """Return the figures as a record."""
        mean = self.smact_sum / self.smact_count if self.smact_count else None
        return Usage(
            device=device,
            peak_mib=self.peak_mib,
            smact_mean=mean,
            energy_j=self.energy_j,
            shared=self.shared,
            smact_count=self.smact_count,
            alone_smact=self.alone_smact,
            alone_count=self.alone_count,
            beside=tuple(part.record(others) for others, part in self.beside.items()),
        )


def _load(others: Others) -> float:
    return sum(_UNKNOWN if each is None else each for each in others)


class SharedTime:
    """Counts the time that attempts share a device: until each reading, and before each change.

    So the attempts on the device are the same over each interval, and so is what each of them
    shows alone: nobody is alone meanwhile. The time while no daemon runs is not counted.
    """

    __slots__ = ("_occupants", "_parts", "_until_s")

    def __init__(self, occupants: Mapping[int, OccupantUse]) -> None:
        self._occupants = occupants
        self._until_s: float | None = None
        self._parts: list[_Part] | None = None
        """The part of each attempt that counts now; None: not known yet."""

    def after_change(self) -> None:
        """Note that an attempt has started or ended."""
        self._parts = None

    def count(self, until_s: float) -> None:
        """Count the time since the last call."""
        since_s, self._until_s = self._until_s, until_s
        if since_s is None:
            return
        if since_s > until_s:
            self._until_s = since_s  # a reading from before a change
            return
        if until_s > since_s:
            for part in self._now():
                part.seconds += until_s - since_s

    def see(self, smact: float) -> None:
        """Take in a reading of SM activity that shows the attempts that are here now."""
        for part in self._now():
            part.sum += smact
            part.count += 1

    def _now(self) -> list[_Part]:
        """Return the parts that count now; none while an attempt is alone."""
        parts = self._parts
        if parts is None:
            here = list(self._occupants.values()) if len(self._occupants) > 1 else []
            parts = self._parts = [
                occupant.part_beside([other for other in here if other is not occupant])
                for occupant in here
            ]
        return parts


def why_unreadable(
    reading: Reading | None, fresh_from_s: float, stale_after_s: float, now_s: float
) -> str | None:
    """Return why the last reading does not show what is on the device now; None if it does.

    A reading from before `fresh_from_s` may still count the memory of a job that has left.
    """
    if reading is None:
        return "it has not been read yet"
    if reading.error:
        return reading.error
    if reading.fault:
        return reading.fault
    if reading.used_mib is None:
        return "its memory in use cannot be read"
    age_s = now_s - reading.at.boot_s
    if age_s > stale_after_s:
        return f"its last reading is {age_s:.0f} s old"
    if reading.at.boot_s < fresh_from_s:
        return "a job has just left it; it has not been read since"
    return None


def believable(reading: Reading) -> tuple[Reading, str | None]:
    """Return the reading without impossible figures, and why its SM activity is unusable.

    NaN compares as False with every threshold, so a broken monitor would make a full device
    look free. So impossible figures become unknown (None) here, once.
    """
    cause = reading.smact_error
    figures = [reading.used_mib, *[memory.used_mib for memory in reading.attempts or ()]]
    for mib in figures:  # each reading comes here: a loop costs less than a generator
        if mib is not None and not 0 <= mib < math.inf:
            return replace(reading, used_mib=None, attempts=()), cause
    if reading.power_w is not None and not 0 <= reading.power_w < math.inf:
        reading = replace(reading, power_w=None)
    if cause is not None:
        return replace(reading, smact=None), cause
    if reading.smact is not None and not 0 <= reading.smact < math.inf:
        return replace(reading, smact=None), f"its SM activity reads {reading.smact}"
    return reading, None


_NAMED = 3
"""Unmanaged processes that a reason names."""


def who_uses(
    reading: Reading | None, occupants: Mapping[int, OccupantUse], mib: int, past: bool = False
) -> str:
    """Return who has memory that no job holds here: `unmanaged processes use 642M of it (Xorg of
    ada 500M)`. `mib`: all of it. `past`: who had it."""
    found: list[str] = []
    for each in (reading.attempts if reading is not None else None) or ():
        held = occupants.get(each.job_id)
        if each.used_mib and (held is None or held.serial != each.serial):
            job, much = each.job_id, show_mib(each.used_mib)
            uses = f"job {job} uses {much} of it, and does not hold it"
            found.append(f"job {job} used {much}, and did not hold it" if past else uses)
            mib -= each.used_mib
    if mib > 0 or not found:
        much, names = show_mib(max(0, mib)), _named(reading)
        use = f"unmanaged processes use {much} of it{names}"
        found.append(f"unmanaged processes used {much}{names}" if past else use)
    return "; ".join(found)


def _named(reading: Reading | None) -> str:
    """As ` (Xorg of ada 500M)`; "" if no process is known."""
    known = reading.unmanaged[:_NAMED] if reading is not None else ()
    named = ", ".join(_program(each) for each in known if each.command is not None)
    return f" ({named})" if named else ""


def _program(process: DeviceProcess) -> str:
    """As `Xorg of ada 500M`."""
    words = (process.command or "").split()
    name = words[0].rsplit("/", 1)[-1] if words else "?"
    whose = f" of {process.user}" if process.user is not None else ""
    much = f" {show_mib(process.used_mib)}" if process.used_mib is not None else ""
    return f"{name}{whose}{much}"


class Track(Struct):
    """An attempt on devices that it was not given (`lifecycle/misplaced.py`).

    Boot times of its first and last reading there, and of the last one with more than a context.
    `told`: the devices that its user was told of. `most`: the most MiB on each; None: unknown.
    """

    serial: int
    since_s: float
    last_s: float
    large_s: float = -math.inf
    told: frozenset[str] = frozenset()
    most: dict[str, int | None] = field(default_factory=dict)


def attribute(
    reading: Reading,
    occupants: Mapping[int, OccupantUse],
    reserved_for: Callable[[int], int],
) -> tuple[int | None, dict[int, int | None]]:
    """Return the memory of unmanaged processes, and of each job on the device, in MiB.

    Unmanaged memory is the memory in use minus that of the jobs; None if the first is unknown.
    That of an attempt which does not hold the device counts as unmanaged: its processes have
    outlived it (`lifecycle/ending.py`).
    A job whose memory the driver does not report has None. A job that is not in the reading
    uses none, unless the reading attributes nothing: then no job's memory is reported.
    `reserved_for` returns what is reserved for a job.
    """
    if reading.used_mib is None:
        return None, {}
    seen: dict[int, int | None] = {} if reading.attempts is not None else dict.fromkeys(occupants)
    left_mib = 0
    for memory in reading.attempts or ():
        occupant = occupants.get(memory.job_id)
        if occupant is not None and occupant.serial == memory.serial:
            seen[memory.job_id] = memory.used_mib
        else:
            left_mib += memory.used_mib or 0
    unknown, rest = [], reading.used_mib
    for job_id, mib in seen.items():
        if mib is None:
            unknown.append(job_id)
        else:
            rest -= mib
    if len(unknown) == 1:
        # The driver does not report one job: all the rest counts as this job's.
        seen[unknown[0]] = max(0, rest - left_mib)
        rest = min(rest, left_mib)
    elif unknown:
        # Several such jobs: each counts as using its reservation.
        rest -= sum(reserved_for(job_id) for job_id in unknown)
    return max(0, rest), {job_id: seen.get(job_id, 0) for job_id in occupants}
