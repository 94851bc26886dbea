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
at all: somebody tries, errs and corrects. At `MOST` the device is doubted for a pause that doubles.
After it, one more failure that counts is enough; a job that works there ends the streak.

A user can make jobs fail on purpose. So the failures of one user drain the device for that user
alone. It is drained for all if jobs of others fail there, too: at `MOST` of them together, of which
each user brings at most half. After each pause for all, it takes failures of two users again.

Invariants:
- No device is doubted unless a job works on another one. So a single device never is, and all
  together never are.
- What one user does keeps no other user from a device. Its jobs do not stand aside meanwhile: to
  sort the lines again would cost the length of the queue, and others may pass them.

What a restart sees: nothing of this. All devices are tried again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from msgspec import Struct, field

from radrm.core.records import Instant
from radrm.core.state.pauses import Pauses
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


class Tried(Struct, frozen=True):
    """An attempt on devices that has ended, or works until now: whose, where, from when on.

    `started_s` is of the clock since boot, `submitted_s` of the wall clock.
    """

    uid: int
    user: str
    devices: tuple[str, ...]
    started_s: float
    submitted_s: float


class _Failures(Struct):
    """The failures of a user's jobs on a device, in one streak."""

    count: int
    first_submitted_s: float
    last_s: float

    def independent(self, others: Iterable[Tried]) -> int:
        """Return how many mistakes these would be. `others`: those that work elsewhere."""
        since_s = self.first_submitted_s - SAME_TIME_S
        return self.count if any(each.submitted_s >= since_s for each in others) else 1


class _Streak(Struct):
    since_s: float
    """The boot time of the first failure."""
    of_user: dict[int, _Failures] = field(default_factory=dict)
    users: set[int] = field(default_factory=set)
    """Those with a failure that counts since the last pause for all."""

    def add(self, tried: Tried, wall_s: float) -> bool:
        """Add a failure at this date. Returns whether it counts."""
        known = self.of_user.get(tried.uid)
        if known is None:
            self.of_user[tried.uid] = _Failures(1, tried.submitted_s, wall_s)
            self.users.add(tried.uid)
            return True
        counts = tried.submitted_s < known.last_s + CORRECTED_S
        if counts:
            self.users.add(tried.uid)
        known.count += counts
        known.first_submitted_s = min(known.first_submitted_s, tried.submitted_s)
        known.last_s = wall_s
        return counts


Doubt: TypeAlias = tuple[str, int | None]
"""A device by UUID, and the user for whom it is doubted; None: for all."""


class Doubts:
    """The streak of each device, and the devices that are doubted now."""

    def __init__(self) -> None:
        self._streaks: dict[str, _Streak] = {}
        self._pauses: Pauses[Doubt] = Pauses(_PAUSE_S, _LONGEST_S)
        self._worked: dict[int, Tried] = {}
        """The last job of each user that worked and ended since a streak began."""
        self.now: dict[Doubt, str] = {}
        """Why a device is doubted."""

    def worked(self, tried: Tried) -> list[Doubt]:
        """Note that a job worked: it ends the streaks that are older than its start, and the doubts
        that are returned."""
        over: list[Doubt] = []
        for uuid in tried.devices:
            streak = self._streaks.get(uuid)
            if streak is not None and tried.started_s >= streak.since_s:
                over += self.trust(uuid)
        if self._streaks:
            self._worked[tried.uid] = tried
        return over

    def failed(self, tried: Tried, now: Instant, live: Iterable[Tried]) -> Doubt | None:
        """Note that a job failed at once. Returns what is doubted from now on, if anything is.

        `live`: the jobs that work at this moment.
        """
        (uuid,) = tried.devices
        if (uuid, None) in self.now or (uuid, tried.uid) in self.now:
            return None
        streak = self._streaks.setdefault(uuid, _Streak(now.boot_s))
        if not streak.add(tried, now.wall_s):
            return None
        elsewhere = []
        for each in (*live, *self._worked.values()):
            if uuid not in each.devices:
                elsewhere.append(each)
            elif each.started_s >= streak.since_s:
                return None  # it works here, too
        found = {
            uid: failures.independent(each for each in elsewhere if each.uid == uid)
            for uid, failures in streak.of_user.items()
        }
        together = sum(min(count, MOST // 2) for count in found.values())
        rested = self._pauses.last((uuid, None)) is not None
        if not elsewhere:
            return None
        if len(streak.users) > 1 and (rested or together >= MOST):
            streak.users.clear()
            return self._doubt((uuid, None), "jobs", now.boot_s)
        rested = rested or self._pauses.last((uuid, tried.uid)) is not None
        if rested or found[tried.uid] >= MOST:
            return self._doubt((uuid, tried.uid), f"jobs of {tried.user}", now.boot_s)
        return None

    def _doubt(self, doubt: Doubt, jobs: str, now_s: float) -> Doubt:
        pause = self._pauses.fail(doubt, now_s, "")
        self.now[doubt] = (
            f"{jobs} failed within {show_seconds(QUICK_S)} of starting here, and run elsewhere; "
            f"tried again after {show_seconds(pause.until_s - now_s)}"
        )
        return doubt

    def until_s(self, doubt: Doubt) -> float:
        """Return the boot time at which the pause of a doubt is over."""
        failed = self._pauses.last(doubt)
        assert failed is not None
        return failed.until_s

    def lift(self, now_s: float) -> list[Doubt]:
        """End the doubts whose pause is over, and return them: their devices are tried again."""
        over = [doubt for doubt in self.now if self._pauses.pausing(doubt, now_s) is None]
        for doubt in over:
            del self.now[doubt]
        return over

    def trust(self, uuid: str) -> list[Doubt]:
        """Forget the failures of a device: it works, or an administrator has looked at it.

        Returns the doubts that this ends.
        """
        self._streaks.pop(uuid, None)
        for doubt in [each for each, _ in self._pauses.all() if each[0] == uuid]:
            self._pauses.forget(doubt)
        over = [doubt for doubt in self.now if doubt[0] == uuid]
        for doubt in over:
            del self.now[doubt]
        if not self._streaks:
            self._worked.clear()
        return over
