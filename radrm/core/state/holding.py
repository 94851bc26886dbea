"""The measured use of a live attempt on a device, and its part of the device's energy."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from radrm.core.records import Usage
from radrm.core.words import Collocation


def merged(usage: Iterable[Usage], newer: Iterable[Usage]) -> tuple[Usage, ...]:
    """Return one entry per device. A newer entry replaces the older: it contains its figures."""
    return tuple({u.device: u for u in (*usage, *newer)}.values())


@dataclass(slots=True)
class Holding:
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
    energy_j: float | None = None
    shared: bool = False
    """Another attempt was on the device at some time."""
    noted_s: float = 0.0
    """Boot time when its usage was last written to the attempt's record."""
    floor_mib: int = 0
    """The least MiB reserved for it: the need that the job's out-of-memory deaths have proven."""
    recovering: bool = False
    """An earlier attempt of the job died of GPU out-of-memory."""

    def see(self, used_mib: int, boot_s: float, growth_mib: int) -> bool:
        """Take in a memory reading. Returns whether the peak rose by more than `growth_mib`."""
        self.observed_mib = used_mib
        if self.peak_mib is None or used_mib > self.peak_mib:
            rise = used_mib - (self.peak_mib or 0)
            self.peak_mib = used_mib
            if rise > growth_mib:
                self.grew_s = boot_s
                self.settled = False
                return True
        return False

    def recall(self, usage: Usage, now_s: float) -> None:
        """Continue the figures that an earlier daemon recorded.

        The record does not say when the memory last grew, so it counts as growing now.
        """
        self.peak_mib = usage.peak_mib
        self.energy_j = usage.energy_j
        self.shared = usage.shared
        self.grew_s = now_s
        if usage.smact_mean is not None:
            self.smact_count = max(1, usage.smact_count)
            self.smact_sum = usage.smact_mean * self.smact_count
        if usage.alone_smact is not None:
            self.alone_count = max(1, usage.alone_count)
            self.alone_sum = usage.alone_smact * self.alone_count

    def unused_for(self, now_s: float) -> float | None:
        """Return the seconds that it has had the device without using any of its memory.

        None if it has used some, or if its memory could not be read.
        """
        return now_s - self.since_s if self.peak_mib == 0 else None

    @property
    def alone_smact(self) -> float | None:
        """The mean SM activity while it was alone here, 0..1; None without such a reading."""
        return self.alone_sum / self.alone_count if self.alone_count else None

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
        )


class EnergyMeter:
    """Divides a device's energy equally, at each reading and whenever an attempt comes or goes.

    So the attempts on the device are the same over each divided interval. The energy before
    the first reading, or while readings fail, is unknown and counts for no attempt.
    """

    __slots__ = ("_until_s",)

    def __init__(self) -> None:
        self._until_s: float | None = None
        """Boot time up to which the energy is divided; None after a failed reading."""

    def interrupt(self) -> None:
        """A reading failed: the energy until the next one is unknown."""
        self._until_s = None

    def divide(self, holdings: Collection[Holding], until_s: float, power_w: float | None) -> None:
        """Divide the energy since the last call, at this power."""
        since_s, self._until_s = self._until_s, until_s
        if since_s is None:
            return
        if since_s > until_s:
            # This reading is older than a change up to which the energy is divided already.
            self._until_s = since_s
            return
        if power_w is not None:
            for holding in holdings:
                part_j = power_w * (until_s - since_s) / len(holdings)
                holding.energy_j = (holding.energy_j or 0.0) + part_j

    def divide_before_change(
        self, holdings: Collection[Holding], at_s: float, power_w: float | None
    ) -> None:
        """Divide the energy until `at_s`, when an attempt comes or goes, among those before."""
        if self._until_s is not None and at_s > self._until_s:
            self.divide(holdings, at_s, power_w)
