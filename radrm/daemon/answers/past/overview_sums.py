"""What an overview of a time counts, job by job and attempt by attempt."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heappush, heappushpop
from typing import Any

from radrm.core.records import Instant
from radrm.core.words import Outcome
from radrm.daemon.answers.energy import MOST_KEYS
from radrm.daemon.answers.past.bins import Bins, Level
from radrm.daemon.answers.past.figures import Figures
from radrm.daemon.answers.past.quantiles import Quantiles
from radrm.errors import Refused
from radrm.host.storage.ended import PastJob, UsedAttempt

MOST_BARS = 1500
"""Stays of attempts on devices that an answer has."""
WAITS_S = (0, 10, 60, 300, 900, 3600, 4 * 3600, 12 * 3600, 24 * 3600, 72 * 3600)
"""The lower bounds of the classes of waiting times."""


@dataclass(slots=True)
class User:
    """The sums of a user; `hit`: jobs that ended after an out-of-memory death."""

    figures: Figures = field(default_factory=Figures)
    waits: Quantiles = field(default_factory=Quantiles)
    gpu_s: float = 0.0
    hit: int = 0
    recovered: int = 0


@dataclass(slots=True)
class Use:
    """Use of devices by attempts; each is weighed by the seconds that the attempt stayed."""

    held_s: float = 0.0
    smact: float = 0.0
    smact_s: float = 0.0
    peak_mib_s: float = 0.0
    reserved_mib_s: float = 0.0

    def document(self) -> dict[str, Any]:
        return {
            "held_s": self.held_s,
            "smact": self.smact / self.smact_s if self.smact_s else None,
            "peak_share": self.peak_mib_s / self.reserved_mib_s if self.reserved_mib_s else None,
        }


@dataclass(slots=True)
class OverviewSums:
    """The sums of the time of `bins`, at `now`."""

    bins: Bins
    now: Instant
    ends: list[Figures] = field(init=False)
    """Of each bin: what ended in it, its GPU time and its energy."""
    total: Figures = field(default_factory=Figures)
    users: dict[str, User] = field(default_factory=dict)
    devices: dict[str, Use] = field(default_factory=dict)
    use: Use = field(default_factory=Use)
    waits: Quantiles = field(default_factory=Quantiles)
    classes: list[int] = field(default_factory=lambda: [0] * len(WAITS_S))
    waiting: Level = field(init=False)
    hit: int = 0
    recovered: int = 0
    hit_open: int = 0
    attempts: int = 0
    gpuless: int = 0
    shared: int = 0
    shared_oom: int = 0
    running: int = 0
    first_s: float | None = None
    """When the first job that counts was submitted."""
    serials: array[int] = field(default_factory=lambda: array("q"))
    peaks: array[int] = field(default_factory=lambda: array("q"))
    """Of each attempt that ended in the time and whose peak is known: serial and MiB."""
    longest: list[tuple[float, int, PastJob, UsedAttempt]] = field(default_factory=list)
    """A heap of the attempts that stayed longest: their seconds and serials."""
    stays: int = 0

    def __post_init__(self) -> None:
        self.ends = [Figures() for _ in range(self.bins.count)]
        self.waiting = Level(self.bins)

    def user(self, name: str) -> User:
        """Return the sums of a user. Raises `Refused` for too many users."""
        found = self.users.get(name)
        if found is None:
            if len(self.users) >= MOST_KEYS:
                raise Refused(f"more than {MOST_KEYS} users had jobs then; take a shorter time")
            found = self.users[name] = User()
        return found

    def visit(self, job: PastJob, attempts: Sequence[UsedAttempt]) -> User:
        """Count a job and its attempts; return what adds up its GPU time."""
        user = self.user(job.spec.user)
        deaths = sum(each.outcome is Outcome.OOM for each in attempts)
        ended = job.ended is not None and self.bins.place(job.ended.wall_s) is not None
        if ended:
            self._end(job, user)
            if deaths:
                done = job.state.value == "COMPLETED"
                user.hit += 1
                user.recovered += done
                self.hit += 1
                self.recovered += done
        elif job.ended is None:
            self.running += job.state.live
            self.hit_open += deaths > 0
        self.wait(job)
        for each in attempts:
            self._attempt(job, each, user)
        return user

    def wait(self, job: PastJob) -> None:
        """Count the time for which a job waited for its first start."""
        until = job.started or job.ended
        until_s = until.wall_s if until is not None else self.now.wall_s
        begin_s = job.submitted.wall_s
        if until_s >= self.bins.edges[0] and begin_s < self.bins.edges[-1]:
            self.first_s = begin_s if self.first_s is None else min(self.first_s, begin_s)
        self.waiting.stay(begin_s, min(until_s, self.now.wall_s))

    def _end(self, job: PastJob, user: User) -> None:
        place = self.bins.place(job.ended.wall_s) if job.ended is not None else None
        if place is None:
            return
        for sums in (self.total, user.figures, self.ends[place]):
            sums.end(job)
        waited_s = job.waited_s
        if waited_s is not None:
            waited_s = max(0.0, waited_s)
            self.waits.add(waited_s)
            user.waits.add(waited_s)
            self.classes[bisect_right(WAITS_S, waited_s) - 1] += 1

    def _attempt(self, job: PastJob, attempt: UsedAttempt, user: User) -> None:
        begin_s, end_s = attempt.stay(self.now)
        begin_s = max(begin_s, self.bins.edges[0])
        stayed_s = min(end_s, self.bins.edges[-1]) - begin_s
        if stayed_s < 0.0:
            return
        ended = None if attempt.ended is None else self.bins.place(attempt.ended.wall_s)
        if ended is not None and attempt.outcome is Outcome.OOM:
            for sums in (self.total, user.figures, self.ends[ended]):
                sums.oom += 1
        if not attempt.devices:
            self.gpuless += 1
            return
        self.attempts += 1
        self._use(attempt, stayed_s)
        if any(each.shared for each in attempt.usage):
            self.shared += 1
            self.shared_oom += ended is not None and attempt.outcome is Outcome.OOM
        if ended is not None and (peak_mib := attempt.peak_mib):
            self.serials.append(attempt.serial)
            self.peaks.append(peak_mib)
        self.stays += 1
        item = stayed_s, attempt.serial, job, attempt
        if len(self.longest) < MOST_BARS:
            heappush(self.longest, item)
        else:
            heappushpop(self.longest, item)

    def _use(self, attempt: UsedAttempt, stayed_s: float) -> None:
        for each in attempt.usage:
            reserved_mib = attempt.reserved_mib(each.device)
            for use in (self.use, self.device(each.device)):
                if each.smact_mean is not None:
                    use.smact += each.smact_mean * stayed_s
                    use.smact_s += stayed_s
                if each.peak_mib is not None and reserved_mib:
                    use.peak_mib_s += each.peak_mib * stayed_s
                    use.reserved_mib_s += reserved_mib * stayed_s

    def device(self, uuid: str) -> Use:
        """Return the use of a device."""
        found = self.devices.get(uuid)
        if found is None:
            if len(self.devices) >= MOST_KEYS:
                raise Refused(f"jobs had more than {MOST_KEYS} GPUs then; take a shorter time")
            found = self.devices[uuid] = Use()
        return found

    def held(self, device: str, at_s: float, seconds: float) -> None:
        """Add the time for which some job held a device."""
        self.use.held_s += seconds
        self.total.gpu_s += seconds
        self.device(device).held_s += seconds
        place = self.bins.place(at_s)
        if place is not None:
            self.ends[place].gpu_s += seconds
