"""The date, of whatever year.

`time.time()` raises beyond 2262, where nanoseconds do not fit into 64 bits. A wrong clock may show
such a date; it must end neither the daemon nor a command. This file imports nothing of radrm:
`submit` and runners use it.
"""

from __future__ import annotations

import time

LAST_S = 253_402_000_000.0
"""In the year 9999: the last one that calendars here know."""


def wall_s() -> float:
    """Return the date in seconds since the epoch, between 1970 and 9999."""
    found = time.clock_gettime(time.CLOCK_REALTIME)
    return found if 0.0 <= found <= LAST_S else min(max(0.0, found), LAST_S)


def stand_in_for_time() -> None:
    """Have libraries of this process, such as `logging`, read the date here, too."""
    time.time = wall_s
    time.time_ns = lambda: int(wall_s() * 1e9)
