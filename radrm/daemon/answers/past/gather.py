"""Past runs: gathered in pieces, the GPU time that was held, and figures of them.

Of the time of a device n attempts get 1/n each. So all parts add up to the time for which some
attempt held the device, as with recent GPU time (`core/state/users.py`) and with energy. A MIG
instance counts as a device.

Theory of operation. The stays are walked through in the order of time. Each device has a sum V of
dt/n; what an attempt gets is V at its end less V at its beginning. So a change costs the same
however many attempts are there. The time of a device in a day is that for which n > 0. Begins are
sorted in blocks, which are merged, so that no piece of the work is long; the ends of what is there
are in a heap, which is small.

docs/reports.md says what the figures mean. Jobs that had not ended when the question came count as
they were then.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from heapq import heappop, heappush, merge
from typing import Protocol, TypeAlias, TypeVar

from msgspec import Struct, field

from radrm.core.records import Instant, Job
from radrm.core.words import JobState
from radrm.daemon.loop import Loop
from radrm.daemon.serving.turns import Pace, Work
from radrm.daemon.views.documents import Document
from radrm.errors import Refused
from radrm.host.storage.ended import AT_ONCE, PastAttempt, PastJob, PastSpec


class Sum(Protocol):
    """Something that adds up seconds of GPUs."""

    gpu_s: float


class _Device(Struct):
    count: int = 0
    at_s: float = 0.0
    parts_s: float = 0.0
    """The sum of dt/n."""


_BLOCK = 2000


class Held:
    """The stays of attempts between two times (epoch seconds)."""

    def __init__(self, begin_s: float, end_s: float) -> None:
        self._begin_s, self._end_s = begin_s, end_s
        self._begins: list[list[tuple[float, int, str, float, int]]] = [[]]
        """Of each stay its begin, a number, its device, its end, and the place of its sum. Only
        plain values: the garbage collector does not look at such tuples again and again. All
        blocks but the last one are sorted."""
        self._sums: list[Sum | None] = [None]
        self._number = 0
        self._devices: dict[str, _Device] = {}

    def add(self, devices: Sequence[str], begin_s: float, end_s: float, to: Sum | None) -> bool:
        """Note that an attempt held these devices; its part will be added to `to`. False if
        that is at another time."""
        if begin_s < self._begin_s:
            begin_s = self._begin_s
        if end_s > self._end_s:
            end_s = self._end_s
        if begin_s >= end_s:
            return False
        if devices and self._sums[-1] is not to:
            self._sums.append(to)
        if len(self._begins[-1]) >= _BLOCK:
            self._begins[-1].sort()
            self._begins.append([])
        for device in devices:
            self._number += 1
            stay = begin_s, self._number, device, end_s, len(self._sums) - 1
            self._begins[-1].append(stay)
        return True

    def divide(
        self,
        next_cut: Callable[[float], float] = lambda _: math.inf,
        of_device: Callable[[str, float, float], None] | None = None,
    ) -> Work[None]:
        """Add to each sum its part, once.

        `of_device` hears for each device when an interval began in which it was held, and its
        seconds. No interval goes beyond what `next_cut` returns for its beginning.
        """
        pace, devices = Pace(), defaultdict[str, _Device](_Device)
        ends: list[tuple[float, int, str, float, int]] = []
        """A heap of what is there: end, number, device, V at its begin, the place of its sum."""

        def passed(name: str, at_s: float, change: int) -> float:
            """Return V of a device at a time, when stays begin or end there."""
            device = devices[name]
            if device.count:
                device.parts_s += (at_s - device.at_s) / device.count
                if of_device is not None:
                    _cut(name, device.at_s, at_s, next_cut, of_device)
            device.at_s = at_s
            device.count += change
            return device.parts_s

        def end() -> None:
            end_s, _, name, parts_s, place = heappop(ends)
            parts_s = passed(name, end_s, -1) - parts_s
            to = self._sums[place]
            if to is not None:
                to.gpu_s += parts_s

        self._begins[-1].sort()
        for begin_s, number, name, end_s, place in merge(*self._begins):
            while ends and ends[0][0] <= begin_s:
                end()
            heappush(ends, (end_s, number, name, passed(name, begin_s, 1), place))
            yield from pace.rest_if_spent()
        while ends:
            end()
            yield from pace.rest_if_spent()


def _cut(
    name: str,
    from_s: float,
    at_s: float,
    next_cut: Callable[[float], float],
    of_device: Callable[[str, float, float], None],
) -> None:
    """Tell `of_device` of the intervals into which a time is cut."""
    while from_s < at_s:
        until_s = min(at_s, next_cut(from_s))
        if until_s <= from_s:  # so far from now that a float does not tell
            until_s = at_s
        of_device(name, from_s, until_s - from_s)
        from_s = until_s


J_PER_KWH = 3.6e6


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
            "kwh": self.joules / J_PER_KWH,
            "cost": self.cost,
        }


def add_end(job: PastJob, *to: Figures) -> None:
    """Add a run that has ended to each sum. The runs of a job come one after another: it counts
    once."""
    state, waited_s = job.state, job.waited_s
    for sums in to:
        sums.jobs += job.id != sums.last
        sums.last = job.id
        sums.runs += 1
        if state is JobState.COMPLETED:
            sums.completed += 1
        else:
            sums.failed += state is JobState.FAILED
            sums.timeout += state is JobState.TIMEOUT
            sums.cancelled += state is JobState.CANCELLED
        if waited_s is not None:
            sums.started += 1
            sums.waited_s += max(0.0, waited_s)


_SUMS = tuple(name for name in Figures.__struct_fields__ if name not in ("user", "last"))

MOST_KEYS = 100_000
"""Rows that one report can add up."""

Key: TypeAlias = "str | int | None"


class Rows(Struct):
    """The sums of each user, group, job, GPU or day."""

    found: dict[Key, Figures] = field(default_factory=dict)

    def of(self, key: Key) -> Figures:
        """Return the sums of a key. Raises `Refused` for too many."""
        figures = self.found.get(key)
        if figures is None:
            if len(self.found) >= MOST_KEYS:
                raise Refused(
                    f"the report has more than {MOST_KEYS} rows; take a shorter time, as in "
                    "--since 1d, or another --by"
                )
            figures = self.found[key] = Figures()
        return figures


MOST_JOBS = 400_000
"""Jobs that one question can look at."""

_A = TypeVar("_A", bound=PastAttempt)


def gather(
    loop: Loop,
    begin_s: float,
    end_s: float,
    now: Instant,
    visit: Callable[[PastJob, Sequence[_A]], Sum | None],
    read: Callable[[Sequence[int]], Iterator[list[_A]]],
) -> Work[Held]:
    """Visit the jobs that ended since `begin_s` and those that have not ended, a run at a time.

    `visit` hears of a run and its attempts, as `read` gives them (`EndedJobs.attempts`, or `used`).
    It returns what adds up its GPU time, if anything does.

    Returns the time for which they held GPUs between the two times (epoch seconds, until now at
    most). Raises `Refused` for too many jobs.
    """
    held, pace = Held(begin_s, end_s), Pace()
    open_jobs: list[PastJob] = []
    for job in loop.scheduler.snapshot.jobs:
        if job.attempts or job.run > 1:
            open_jobs.append(past_job(job))
        yield from pace.rest_if_spent()
    count = len(open_jobs)
    known = {job.id for job in open_jobs}
    for at in range(0, count, AT_ONCE):
        yield from _visit(loop, open_jobs[at : at + AT_ONCE], now, visit, held, read)
    for some in loop.store.ended.between(begin_s, float("inf")):
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
    for ended in loop.store.ended.earlier([job.id for job in jobs if job.run > 1]):
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
        for run in runs[job.id]:
            some = [each for each in made[job.id] if before < each.number <= run.attempts]
            _hold(held, some, now, visit(run, some))
            before = run.attempts
        some = [each for each in made[job.id] if before < each.number]
        _hold(held, some, now, visit(job, some))


def _hold(held: Held, attempts: Sequence[PastAttempt], now: Instant, to: Sum | None) -> None:
    for each in attempts:
        held.add(each.devices, *each.stay(now), to)
