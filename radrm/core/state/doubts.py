"""GPUs on which jobs fail at once, while others run elsewhere.

Theory of operation
-------------------
A GPU that is broken in a way that nobody reports fails each job within seconds, is idle again, and
takes the next one: it empties the queue. So each device has a *streak*: the failures since the last
job that worked there. A job *fails at once* within `QUICK_S` of its start, alone on its device; it
*works* if it completes or runs for longer.

Most such failures are mistakes of users, and must cost no GPU. So the jobs of a user count once
together, but each counts if another one of the same time works elsewhere: then the mistake is not
in all of them. A job that was submitted `CORRECTED_S` after the user's last failure here counts not
at all: somebody tries, errs and corrects. At `MOST` the device is doubted: it is drained for a
pause that doubles. After it, one more failure that counts is enough; a job that works there ends
the streak.

Invariants:
- No device is doubted unless a job works on another one. So a single device never is, and all
  together never are.

What a restart sees: nothing of this. All devices are tried again.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct, field

from radrm.core.records import Instant
from radrm.core.state.pauses import Failed, Pauses
from radrm.core.units import show_seconds

QUICK_S = 60.0
"""A job that fails later than this has probably used its GPU."""
MOST = 4
SAME_TIME_S = 600.0
"""A job that works tells of jobs that are submitted later than so long before it."""
CORRECTED_S = 5.0
"""Nobody corrects a mistake faster; a loop of a shell submits its next job sooner."""
_PAUSE_S = 60.0
_LONGEST_S = 600.0


class Run(Struct, frozen=True):
    """An attempt that has ended, or works until now: whose, where, and from when on.

    `started_s` is of the clock since boot, `submitted_s` of the wall clock.
    """

    uid: int
    devices: tuple[str, ...]
    started_s: float
    submitted_s: float


class _Failures(Struct):
    """The failures of a user's jobs on a device, in one streak."""

    count: int
    first_submitted_s: float
    last_s: float

    def independent(self, runs: Iterable[Run]) -> int:
        """Return how many mistakes these would be. `runs`: those that work elsewhere."""
        since_s = self.first_submitted_s - SAME_TIME_S
        return self.count if any(each.submitted_s >= since_s for each in runs) else 1


class _Streak(Struct):
    since_s: float
    """The boot time of the first failure."""
    of_user: dict[int, _Failures] = field(default_factory=dict)

    def add(self, run: Run, wall_s: float) -> bool:
        """Add a failure at this date. Returns whether it counts."""
        known = self.of_user.get(run.uid)
        if known is None:
            self.of_user[run.uid] = _Failures(1, run.submitted_s, wall_s)
            return True
        counts = run.submitted_s < known.last_s + CORRECTED_S
        known.count += counts
        known.first_submitted_s = min(known.first_submitted_s, run.submitted_s)
        known.last_s = wall_s
        return counts


class Doubts:
    """The streak of each device, and the devices that are doubted now."""

    def __init__(self) -> None:
        self._streaks: dict[str, _Streak] = {}
        self._pauses: Pauses[str] = Pauses(_PAUSE_S, _LONGEST_S)
        self._worked: dict[int, Run] = {}
        """The last job of each user that worked and ended since a streak began."""
        self.now: dict[str, str] = {}
        """Why a device is doubted, by UUID."""

    def worked(self, run: Run) -> None:
        """Note that a job worked: it ends the streaks that are older than its start."""
        for uuid in run.devices:
            streak = self._streaks.get(uuid)
            if streak is not None and run.started_s >= streak.since_s:
                self.trust(uuid)
        if self._streaks:
            self._worked[run.uid] = run

    def failed(self, run: Run, now: Instant, live: Iterable[Run]) -> Failed | None:
        """Note that a job failed at once. Returns the pause of its device if that is doubted now.

        `live`: the jobs that work at this moment.
        """
        (uuid,) = run.devices
        if uuid in self.now:
            return None
        streak = self._streaks.setdefault(uuid, _Streak(now.boot_s))
        again = self._pauses.last(uuid) is not None
        if not streak.add(run, now.wall_s):
            return None
        elsewhere = []
        for each in (*live, *self._worked.values()):
            if uuid not in each.devices:
                elsewhere.append(each)
            elif each.started_s >= streak.since_s:
                return None  # it works here, too
        found = sum(
            failures.independent(each for each in elsewhere if each.uid == uid)
            for uid, failures in streak.of_user.items()
        )
        if not elsewhere or (found < MOST and not again):
            return None
        pause = self._pauses.fail(uuid, now.boot_s, "")
        self.now[uuid] = (
            f"jobs failed within {show_seconds(QUICK_S)} of starting here, and run elsewhere; "
            f"tried again after {show_seconds(pause.until_s - now.boot_s)}"
        )
        return pause

    def lift(self, now_s: float) -> list[str]:
        """Return the devices whose pause is over: they are tried again."""
        over = [uuid for uuid in self.now if self._pauses.pausing(uuid, now_s) is None]
        for uuid in over:
            del self.now[uuid]
        return over

    def trust(self, uuid: str) -> None:
        """Forget the failures of a device: it works, or an administrator has looked at it."""
        self._streaks.pop(uuid, None)
        self._pauses.forget(uuid)
        self.now.pop(uuid, None)
        if not self._streaks:
            self._worked.clear()
