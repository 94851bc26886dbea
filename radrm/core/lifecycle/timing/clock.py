"""The date is set while jobs wait for one.

Timers count the time since boot, which nobody sets. A moment that is a date (`--begin`, a
reservation, the dates of planners) comes earlier or later when the date is set. So each step
compares the two clocks, and looks at all dates again when they have moved apart.
"""

from __future__ import annotations

from radrm.core.lifecycle.timing.begin import at_begin
from radrm.core.records import CLOCK_SET_S
from radrm.core.state.state import State
from radrm.core.state.timers import ALL_PLANNERS, Timer


def follow_clock(state: State) -> None:
    """Look at the dates again if the date has been set since the last step.

    Reservations for users look for themselves (`reservations/course.py`).
    """
    now, before_s = state.step.now, state.ahead_s
    ahead_s = now.wall_s - now.boot_s
    if before_s is not None and abs(ahead_s - before_s) <= CLOCK_SET_S:
        return
    state.ahead_s = ahead_s
    if before_s is not None:
        for job in [each for each in state.jobs.values() if each.awaits_begin]:
            at_begin(state, job)
        state.wake(Timer(now.boot_s, ALL_PLANNERS))
