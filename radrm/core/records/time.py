"""Moments on both clocks."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Instant:
    """One moment on both clocks.

    `boot_s` (seconds since boot, suspend included) measures durations and
    deadlines: nobody can set it. `wall_s` (seconds since the epoch) is what
    people read and what means something after a reboot.

    `boot` names what `boot_s` counts from (a boot, a scaled clock); None where there is
    one only, and in records of releases that did not note it.
    """

    boot_s: float
    wall_s: float
    boot: str | None = None

    def since(self, earlier: Instant) -> float | None:
        """Seconds from `earlier` until this, by time since boot; None where a reboot lies
        between or, where a name is missing, may lie there: then the two clocks disagree."""
        passed_s = self.boot_s - earlier.boot_s
        if self.boot is None or earlier.boot is None:
            off_s = abs(passed_s - (self.wall_s - earlier.wall_s))
            return passed_s if off_s <= 1.0 + 0.001 * abs(passed_s) else None
        return passed_s if self.boot == earlier.boot else None
