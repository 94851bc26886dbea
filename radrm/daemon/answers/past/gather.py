"""Past runs: gathered in pieces, the GPU time that was held, and figures of them.

Of the time of a device n attempts get 1/n each. So all parts add up to the time for which some
attempt held the device, as with recent GPU time (`core/state/users.py`) and with energy. A MIG
instance counts as a device.

Theory of operation. The stays are walked through in the order of time. Each device has a sum V of
dt/n; what an attempt gets is V at its end less V at its beginning. So a change costs the same
however many attempts are there. The time of a device in a day is that for which n > 0.

docs/reports.md says what the figures mean. Jobs that had not ended when the question came count as
they were then.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from heapq import heappop, heappush
from typing import Protocol, TypeVar

from msgspec import Struct

from radrm.core.records import Instant, Job
from radrm.core.words import JobState
from radrm.daemon.loop import Loop
from radrm.daemon.serving.turns import Pace, Work
from radrm.daemon.views.documents import Document
from radrm.errors import Refused
from radrm.host.storage.ended import AT_ONCE, PastAttempt, PastJob, PastSpec, UsedAttempt


class Sum(Protocol):
    """Something that adds up seconds of GPUs."""

    gpu_s: float


class _Device(Struct):
    count: int = 0
    at_s: float = 0.0
    parts_s: float = 0.0
    """The sum of dt/n."""


class Held:
    """The stays of attempts between two times (epoch seconds)."""

    def __init__(self, begin_s: float, end_s: float) -> None:
        self._begin_s, self._end_s = begin_s, end_s
        self._changes: list[tuple[float, int, bool, str, float, int]] = []
        """A heap: time, a number, whether a stay begins or ends, its device, for what begins its
        end, for what ends V at its beginning, and the place of its sum. Only plain values: the
        garbage collector does not look at such tuples again and again."""
        self._sums: list[Sum | None] = [None]
        self._number = 0
        self._devices: dict[str, _Device] = {}

    def add(self, devices: Sequence[str], begin_s: float, end_s: float, to: Sum | None) -> bool:
        """Note that an attempt held these devices; its part will be added to `to`. False if
        that is at another time."""
        begin_s, end_s = max(begin_s, self._begin_s), min(end_s, self._end_s)
        if begin_s >= end_s:
            return False
        if devices and self._sums[-1] is not to:
            self._sums.append(to)
        for device in devices:
            self._number += 1
            change = begin_s, self._number, True, device, end_s, len(self._sums) - 1
            heappush(self._changes, change)
        return True

    def divide(
        self,
        next_cut: Callable[[float], float],
        of_device: Callable[[str, float, float], None],
    ) -> Work[None]:
        """Add to each sum its part, once.

        `of_device` hears for each device when an interval began in which it was held, and its
        seconds. No interval goes beyond what `next_cut` returns for its beginning.
        """
        pace = Pace()
        while self._changes:
            at_s, number, begins, name, value, place = heappop(self._changes)
            device = self._devices.setdefault(name, _Device())
            if device.count:
                device.parts_s += (at_s - device.at_s) / device.count
                from_s = device.at_s
                while from_s < at_s:
                    until_s = min(at_s, next_cut(from_s))
                    if until_s <= from_s:  # so far from now that a float does not tell
                        until_s = at_s
                    of_device(name, from_s, until_s - from_s)
                    from_s = until_s
            device.at_s = at_s
            if begins:
                device.count += 1
                heappush(self._changes, (value, number, False, name, device.parts_s, place))
            else:
                device.count -= 1
                to = self._sums[place]
                if to is not None:
                    to.gpu_s += device.parts_s - value
            if pace.spent:
                yield from pace.rest()


_J_PER_KWH = 3.6e6


class Figures(Struct):
    """Sums; energy in joules. `waited_s` is that of the `started` jobs together."""

    jobs: int = 0
    runs: int = 0
    completed: int = 0
    failed: int = 0
    timeout: int = 0
    cancelled: int = 0
    started: int = 0
    waited_s: float = 0.0
    oom: int = 0
    gpu_s: float = 0.0
    joules: float = 0.0
    cost: float = 0.0
    idle_j: float = 0.0
    """Energy of a GPU, or in a day, while no job was there."""
    user: str | None = None
    """Whose job it is, in a row of one job."""
    last: int | None = None
    """The job that was added last."""

    def end(self, job: PastJob) -> None:
        """Add a run that has ended. The runs of a job come one after another: it counts once."""
        self.jobs += job.id != self.last
        self.last = job.id
        self.runs += 1
        self.completed += job.state is JobState.COMPLETED
        self.failed += job.state is JobState.FAILED
        self.timeout += job.state is JobState.TIMEOUT
        self.cancelled += job.state is JobState.CANCELLED
        waited_s = job.waited_s
        if waited_s is not None:
            self.started += 1
            self.waited_s += max(0.0, waited_s)

    @property
    def empty(self) -> bool:
        """True if nothing was added up."""
        return not any(getattr(self, name) for name in _SUMS)

    def add(self, other: Figures) -> None:
        """Add all sums of another row."""
        for name in _SUMS:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def document(self) -> Document:
        """As JSON; `waited_s` is the mean, null where no job has started."""
        return {
            "jobs": self.jobs,
            "runs": self.runs,
            "completed": self.completed,
            "failed": self.failed,
            "timeout": self.timeout,
            "cancelled": self.cancelled,
            "oom_deaths": self.oom,
            "waited_s": self.waited_s / self.started if self.started else None,
            "gpu_s": self.gpu_s,
            "kwh": self.joules / _J_PER_KWH,
            "cost": self.cost,
        }


_SUMS = tuple(name for name in Figures.__struct_fields__ if name not in ("user", "last"))


MOST_JOBS = 400_000
"""Jobs that one question can look at."""

Visit = Callable[[PastJob, Sequence[PastAttempt]], "Sum | None"]
"""Hears of a run of a job and its attempts; returns what adds up its GPU time, if anything does."""

_A = TypeVar("_A", bound=PastAttempt)


def gather(loop: Loop, begin_s: float, end_s: float, now: Instant, visit: Visit) -> Work[Held]:
    """Visit the jobs that ended since `begin_s` and those that have not ended.

    Returns the time for which they held GPUs between the two times (epoch seconds, until now at
    most). Raises `Refused` for too many jobs.
    """
    return (yield from _gather(loop, begin_s, end_s, now, visit, loop.store.ended.attempts))


def gather_used(
    loop: Loop,
    begin_s: float,
    end_s: float,
    now: Instant,
    visit: Callable[[PastJob, Sequence[UsedAttempt]], Sum | None],
) -> Work[Held]:
    """As `gather`, with what the attempts used."""
    return (yield from _gather(loop, begin_s, end_s, now, visit, loop.store.ended.used))


def _gather(
    loop: Loop,
    begin_s: float,
    end_s: float,
    now: Instant,
    visit: Callable[[PastJob, Sequence[_A]], Sum | None],
    read: Callable[[Sequence[int]], Iterator[list[_A]]],
) -> Work[Held]:
    held, pace = Held(begin_s, end_s), Pace()
    open_jobs: list[PastJob] = []
    for job in loop.scheduler.snapshot.jobs:
        if job.attempts or job.run > 1:
            open_jobs.append(past_job(job))
        if pace.spent:
            yield from pace.rest()
    count = len(open_jobs)
    known = {job.id for job in open_jobs}
    for at in range(0, count, AT_ONCE):
        yield from _visit(loop, open_jobs[at : at + AT_ONCE], now, visit, held, read)
    for uid in list(loop.store.rows.users()):
        for some in loop.store.ended.of_user(uid, begin_s, float("inf")):
            count += len(some)
            if count > MOST_JOBS:
                raise Refused(
                    f"more than {MOST_JOBS} jobs have ended since then; take a shorter time, as in "
                    "--since 1d"
                )
            new = [job for job in some if job.id not in known]
            yield from _visit(loop, new, now, visit, held, read)
    return held


def past_job(job: Job) -> PastJob:
    """Return what sums need of a job that has not ended."""
    spec = PastSpec(job.spec.name, job.spec.user, job.spec.group)
    times = job.submitted, job.state, job.started, job.ended
    return PastJob(job.id, spec, *times, job.run, job.rerun, job.attempts)


def _visit(
    loop: Loop,
    jobs: Sequence[PastJob],
    now: Instant,
    visit: Callable[[PastJob, Sequence[_A]], Sum | None],
    held: Held,
    read: Callable[[Sequence[int]], Iterator[list[_A]]],
) -> Work[None]:
    """Visit the runs of some jobs: a piece of work or more."""
    runs: dict[int, list[PastJob]] = {job.id: [] for job in jobs}
    for ended in loop.store.ended.earlier(list(runs)):
        for run in ended:
            runs[run.id].append(run)
        yield
    made: dict[int, list[_A]] = {job.id: [] for job in jobs}
    for some in read(list(made)):
        for each in some:
            made[each.job_id].append(each)
        yield
    for job in jobs:
        before = 0
        for run in (*runs[job.id], job):
            last = run.attempts if run is not job else math.inf
            attempts = [each for each in made[job.id] if before < each.number <= last]
            before = run.attempts
            to = visit(run, attempts)
            for each in attempts:
                held.add(each.devices, *each.stay(now), to)
