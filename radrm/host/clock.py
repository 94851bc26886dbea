"""The host's two clocks, and the boot that they belong to.

With software GPUs the whole clock may run faster than real time. Where it started to do
so (its anchors) belongs to the modelled driver, so that jobs and daemon agree and a new
daemon goes on where the old one was.
"""

from __future__ import annotations

import time
from pathlib import Path

from radrm.core.records import Instant


class Clock:
    """Tells the time; with `scale` 60 a real second counts as a minute.

    `anchor_boot_s` and `anchor_wall_s` are the real times at which the scaled clocks
    showed real time; left out, they are now.
    """

    def __init__(
        self,
        scale: float = 1.0,
        anchor_boot_s: float | None = None,
        anchor_wall_s: float | None = None,
    ) -> None:
        if not 0 < scale < float("inf"):
            raise ValueError(f"a clock cannot run at {scale} times real time")
        self.scale = scale
        self.anchor_boot_s = _boot_s() if anchor_boot_s is None else anchor_boot_s
        self.anchor_wall_s = time.time() if anchor_wall_s is None else anchor_wall_s
        self._boot_id = boot_id()
        self._boot = _short(self._boot_id)
        if scale != 1.0:
            self._boot += f"x{scale:g}@{self.anchor_boot_s:.2f}"

    def now(self) -> Instant:
        return self.at(_boot_s())

    def at(self, boot_s: float) -> Instant:
        """The instant of a real boot time, as this clock shows it: a date is as the clock on
        the wall is set now. A scaled clock's date is its own, whatever is set there."""
        if self.scale == 1.0:
            return Instant(boot_s, time.time() - (_boot_s() - boot_s), self._boot)
        passed_s = (boot_s - self.anchor_boot_s) * self.scale
        return Instant(self.anchor_boot_s + passed_s, self.anchor_wall_s + passed_s, self._boot)

    def noted(self, boot: str, boot_s: float, wall_s: float) -> Instant:
        """The instant of a record with these real times, of the boot that it names.

        Of an earlier boot there is the date, and time within that boot: compared with other
        instants of it, it gives durations. What a scaled clock had shown then is not known.
        """
        if boot == self._boot_id:
            return self.at(boot_s)
        return Instant(boot_s, wall_s, _short(boot) + ("" if self.scale == 1.0 else "x?"))

    def real_s(self, scaled_s: float) -> float:
        """How many real seconds a delay on this clock takes."""
        return scaled_s / self.scale


def boot_id() -> str:
    """Names this boot of the machine: boot times of two boots cannot be compared."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _short(boot: str) -> str:
    """Enough to tell boots apart, in each instant that is stored."""
    return boot[:8]


def _boot_s() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)
