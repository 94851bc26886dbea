"""The host's two clocks (date and time since boot), and the boot that they belong to.

With simulated GPUs both clocks may run faster than real time. The simulated driver keeps the
anchors: the real times at which the faster clocks started. So jobs and daemon show the same
time, and a restarted daemon continues at the time of the earlier one.
"""

from __future__ import annotations

import time
from pathlib import Path

from radrm.core.records import Instant
from radrm.deadlines import Zone
from radrm.host.wall import wall_s

_YEAR_S, _WEEK_S = 366 * 86_400, 7 * 86_400
"""No zone changes its offset twice in a week."""
_YEARS = 10


class Clock:
    """Two clocks that run `scale` times as fast as real time.

    With `scale` 60 a real second counts as a minute. `anchor_boot_s` and `anchor_wall_s` are
    the real times at which the scaled clocks showed real time; the default is now.
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
        self.anchor_wall_s = wall_s() if anchor_wall_s is None else anchor_wall_s
        self._boot_id = boot_id()
        self._boot = _short(self._boot_id)
        if scale != 1.0:
            self._boot += f"x{scale:g}@{self.anchor_boot_s:.2f}"

    def now(self) -> Instant:
        # Asked dozens of times for each job: at scale 1 without the detour.
        boot_s = time.clock_gettime(time.CLOCK_BOOTTIME)
        return Instant(boot_s, wall_s(), self._boot) if self.scale == 1.0 else self.at(boot_s)

    def at(self, boot_s: float) -> Instant:
        """The instant of a real time since boot.

        At scale 1 its date follows the system's date as it is set now. The date of a scaled
        clock depends on its anchors only.
        """
        if self.scale == 1.0:
            return Instant(boot_s, wall_s() - (_boot_s() - boot_s), self._boot)
        passed_s = (boot_s - self.anchor_boot_s) * self.scale
        return Instant(self.anchor_boot_s + passed_s, self.anchor_wall_s + passed_s, self._boot)

    def noted(self, boot: str, boot_s: float, wall_s: float) -> Instant:
        """The instant of a record that was written in boot `boot` at these real times.

        An instant of an earlier boot can be compared with others of that boot only. If the
        clock is scaled, what it showed in an earlier boot is unknown.
        """
        if boot == self._boot_id:
            return self.at(boot_s)
        return Instant(boot_s, wall_s, _short(boot) + ("" if self.scale == 1.0 else "x?"))

    def is_of_this_boot(self, at: Instant) -> bool:
        """Return whether an instant was stored since the machine has started."""
        return at.boot is None or at.boot.startswith(_short(self._boot_id))

    def real_boot_s(self, boot_s: float) -> float:
        """The real time since boot at which this clock shows `boot_s`."""
        if self.scale == 1.0:
            return boot_s
        return self.anchor_boot_s + (boot_s - self.anchor_boot_s) / self.scale

    def real_s(self, scaled_s: float) -> float:
        """How many real seconds a delay on this clock takes."""
        return scaled_s / self.scale


def boot_id() -> str:
    """The kernel's name of this boot. Times since boot of two boots cannot be compared."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _short(boot: str) -> str:
    """The start of a boot's name: enough to tell boots apart, and every instant stores it."""
    return boot[:8]


def _boot_s() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def site_zone() -> Zone:
    """The offsets of this machine's local time, from a year ago until `_YEARS` from now."""
    first = int(wall_s()) - _YEAR_S
    starts, offsets = [float(first)], [_offset_s(first)]
    for week_s in range(first, first + (_YEARS + 1) * _YEAR_S, _WEEK_S):
        if _offset_s(week_s + _WEEK_S) != offsets[-1]:
            low, high = week_s, week_s + _WEEK_S
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (low, middle) if _offset_s(middle) != offsets[-1] else (middle, high)
            starts.append(float(high))
            offsets.append(_offset_s(high))
    return Zone(tuple(starts), tuple(offsets))


def _offset_s(wall_s: int) -> float:
    return float(time.localtime(wall_s).tm_gmtoff)
