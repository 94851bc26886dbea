"""Moments on both clocks."""

from __future__ import annotations

from radrm.structs import Stored

CLOCK_SET_S = 1.0
"""If the two clocks differ by so much more than before, the date has been set, or has run away."""


class Instant(Stored, array_like=True):
    """One moment on both clocks.

    `boot_s` (seconds since boot, with suspend) measures durations and deadlines: setting the
    clock does not change it. `wall_s` (seconds since the epoch) is for users, and stays valid
    after a reboot. `boot` identifies the boot, or the scaled clock, that `boot_s` counts from.
    It is None if there is only one.
    """

    boot_s: float
    wall_s: float
    boot: str | None = None

    def at(self, boot_s: float) -> Instant:
        """Return the moment at this time of the same boot."""
        return Instant(boot_s, self.wall_s + (boot_s - self.boot_s), self.boot)

    def is_after(self, other: Instant) -> bool:
        """Return whether this is the later moment: across a reboot by the date."""
        after_s = self.since(other)
        return (self.wall_s - other.wall_s if after_s is None else after_s) > 0

    def since(self, earlier: Instant) -> float | None:
        """Return the seconds from `earlier` until this moment; None if a reboot lies between.

        Without `boot`, a reboot is assumed if the two clocks disagree about the duration.
        """
        passed_s = self.boot_s - earlier.boot_s
        if self.boot is None or earlier.boot is None:
            off_s = abs(passed_s - (self.wall_s - earlier.wall_s))
            return passed_s if off_s <= CLOCK_SET_S + 0.001 * abs(passed_s) else None
        return passed_s if self.boot == earlier.boot else None


def plain_moment(at: Instant) -> list[float | str | None]:
    """Return a moment as a planner's state can hold it."""
    return [at.boot_s, at.wall_s, at.boot]


def moment(kept: list[float | str | None]) -> Instant:
    """Return a moment that `plain_moment` made."""
    boot_s, wall_s, boot = kept
    assert isinstance(boot_s, (int, float)) and isinstance(wall_s, (int, float))
    return Instant(boot_s, wall_s, None if boot is None else str(boot))
