"""Whether the clock can be believed: nothing is removed by age right after it was set.

Theory of operation. Each sweep notes the time on both clocks. The date is *steady* while it runs
as the time since boot does. Across a reboot only the date is known: it must not go back, nor be
more than a week later. A clock that was set, or a server that was off for longer, starts a new
steady time. By age radrm removes only after a day of it. So a wrong date removes nothing, if
somebody corrects it within a day.
"""

from __future__ import annotations

from dataclasses import dataclass

from radrm.core.records import Instant

STEP_S = 3600.0
"""Difference of the two clocks between two sweeps that is no correction of the date's drift."""
LONGEST_OFF_S = 7 * 86400.0
TRUSTED_AFTER_S = 86400.0


@dataclass(frozen=True, slots=True)
class Steady:
    """The date has been steady since `since_s` (epoch seconds), as seen last at `last`."""

    since_s: float
    last: Instant

    def seen(self, now: Instant) -> Steady:
        """Return this with the time of a new sweep."""
        ran_s, passed_s = now.since(self.last), now.wall_s - self.last.wall_s
        if ran_s is not None:
            steady = abs(passed_s - ran_s) <= STEP_S
        else:
            steady = -STEP_S <= passed_s <= LONGEST_OFF_S
        return Steady(self.since_s if steady else now.wall_s, now)

    @property
    def trusted(self) -> bool:
        """True once the date has been steady for a day."""
        return self.last.wall_s - self.since_s >= TRUSTED_AFTER_S
