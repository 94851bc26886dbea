"""When a job is expected to start and to end, and how late that is.

Theory of operation
-------------------
What a job has left to run is that of `radrm/core/remaining.py`. A running job has done its
work at its mean speed so far, and does the rest at its speed beside its present neighbours; what it
reports shows its speed itself.

A waiting job starts when a planner has reserved for it. Else the line for GPUs is played forward
(`radrm/planners/ahead.py`): once with the run times that are expected, which gives `start`, and
once with the longest, which gives `start_latest`. Where another kind of planner starts jobs, only
the start of the job that it serves next is known, from `radrm/planners/forecast.py`.

A play takes long in the daemon's terms, so requests prepare it in pieces (`prepare`) and share it.
It is made again when a job has changed, but takes `_SHARE` of the time at most.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from math import inf

from msgspec import Struct

from radrm.core.planning.placing import Checked, RuleFailed
from radrm.core.records import Attempt, Instant, Job, Refusal
from radrm.core.remaining import PROGRESS, TIME_LIMIT, Remaining, remaining
from radrm.core.rules import AnyPlanner
from radrm.core.scheduler import Scheduler
from radrm.core.snapshot import Snapshot
from radrm.core.view import View
from radrm.core.words import Collocation, JobState
from radrm.daemon.serving.turns import Pace, Work
from radrm.deadlines import Costs
from radrm.estimators.learning.contention import mean_speed, speed_beside
from radrm.interference.model import joint_speed
from radrm.planners.ahead import MOST_JOBS, Ahead
from radrm.planners.forecast import Forecast
from radrm.planners.order_policy import OrderPolicy
from radrm.structs import replace

_BY_CHOICE = frozenset({"price", "cheaper", "preemption", "slots"})
"""The planners' reasons that the forecast does not know: others start later or end earlier."""
_UNKNOWN = 0.5
"""The SM activity of a job of which nothing is known."""
_SLOWEST = 0.01
_SHARE = 0.05
"""The part of the daemon's time that plays may take while jobs change."""


class Expected(Struct, frozen=True):
    """What is expected of a job. Epoch seconds; None: unknown.

    `start` of a waiting job, and `start_latest`, at worst: alone, if jobs before it have only a
    time limit. `end`; `latest`, the end at worst. `source`: of its run time; the time limit, if
    that ends it. `unknown`: why there is no `end`. `start_unknown`: why there is no `start`.
    `needs_s`: the run time that it has left.
    """

    start: float | None = None
    end: float | None = None
    latest: float | None = None
    source: str | None = None
    unknown: str | None = None
    needs_s: float | None = None
    start_latest: float | None = None
    start_unknown: str | None = None


class Foresight:
    """Tells when jobs are expected to end, and what late ends cost. Changes nothing.

    `planners`: those of the configuration. `limit`: of the time that their policy may take.
    `clock`: seconds, for how long a play takes.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        planners: Sequence[AnyPlanner] = (),
        costs: Costs | None = None,
        limit: AbstractContextManager[object] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._scheduler = scheduler
        self._planners = planners
        self._costs = costs or Costs()
        self._limit = limit or nullcontext()
        self._clock = clock
        self._plays: _Plays | None = None

    def of(
        self,
        job: Job,
        live: Attempt | None,
        now: Instant,
        refusals: Sequence[Refusal] | None = None,
    ) -> Expected:
        """Return what is expected of a job. `refusals`: why it waits; None: it is not the next."""
        if job.state.final:
            return Expected()
        if live is not None:
            return of_running(self._scheduler.snapshot, job, live, now)
        return self._of_waiting(job, now, refusals)

    def late_s(self, job: Job, expected: Expected, now: Instant) -> float | None:
        """Return by how many seconds a job is late, has ended late, or is expected to.

        0 in time. Where no end is expected: by how many it is late at least, if it ran from now
        on. None without a due time, while nothing says that it will be late, and for a job that has
        ended without a result.
        """
        due_s = job.spec.due_s
        if due_s is None:
            return None
        if job.state.final:
            if job.ended is None or job.state is not JobState.COMPLETED:
                return None
            return max(0.0, job.ended.wall_s - due_s)
        if expected.end is None:
            begin_s = max(now.wall_s, job.spec.begin_s or 0.0)
            least_s = begin_s + (expected.needs_s or 0.0) - due_s
            in_time = expected.latest is not None and expected.latest <= due_s
            return least_s if least_s > 0 else 0.0 if in_time else None
        late_s = max(0.0, expected.end - due_s, now.wall_s - due_s)
        # One that its time limit ends leaves no result in time.
        return None if late_s == 0.0 and expected.source == TIME_LIMIT else late_s

    def cost(self, job: Job, late_s: float | None) -> float | None:
        """Return what being late by so many seconds costs; None if that is unknown."""
        return None if late_s is None else self._costs.tardiness_cost(job.spec.weight, late_s)

    # ------------------------------------------------------------- waiting jobs

    def _of_waiting(self, job: Job, now: Instant, refusals: Sequence[Refusal] | None) -> Expected:
        start, latest_start, why = self._start(job, now, refusals)
        left = waiting_left(self._scheduler.snapshot, job, now)
        if left is None:
            return Expected(start, None, None, None, _NO_SOURCE, None, latest_start, why)
        source = TIME_LIMIT if left.limited else left.source
        needs_s = None if left.source == TIME_LIMIT else left.value_s  # it may run for longer
        found = Expected(None, None, None, source, why, needs_s, latest_start, why)
        last_s = start if latest_start is None else latest_start
        latest = None if last_s is None or left.upper_s == inf else last_s + left.upper_s
        if start is None:
            return replace(found, latest=latest)
        if left.source == TIME_LIMIT:
            return replace(found, start=start, latest=latest, unknown=_NO_SOURCE)
        return replace(found, start=start, end=start + left.value_s, latest=latest)

    def _start(
        self, job: Job, now: Instant, refusals: Sequence[Refusal] | None
    ) -> tuple[float | None, float | None, str | None]:
        """Return when a waiting job is expected to start, and at the latest; or why that is
        unknown."""
        snapshot = self._scheduler.snapshot
        if job.held:
            return None, None, "it is held"
        if job.after:
            return None, None, "it waits for the end of other jobs"
        if job.awaits_begin:
            return None, None, "it does not start before its --begin"
        reserved = [
            reservation.since.boot_s
            for device in snapshot.devices
            for reservation in device.reservations
            if reservation.job_id == job.id and reservation.kind.planned
        ]
        if reserved:
            return now.wall_s + max(0.0, max(reserved) - now.boot_s), None, None
        aside = any(each.rule == "reserved" and each.device is None for each in refusals or ())
        if any(each.rule == "service" for each in refusals or ()):
            return None, None, "no GPU in service can take it"
        if snapshot.position(job) is None and not aside:
            return None, None, "it is not in the queue yet"
        waits = next((refusal for refusal in refusals or () if refusal.rule in _BY_CHOICE), None)
        if waits is not None:
            return None, None, waits.message
        if self._plays is not None and self._plays.has(job):
            return self._plays.start_of(job, now)
        if self._plays is not None and self._plays.cut and job.spec.gpus:
            why = f"its start cannot be predicted: more than {MOST_JOBS} jobs are before it"
            return None, None, why
        if refusals is None or any(refusal.rule == "order" for refusal in refusals):
            return None, None, "its start cannot be predicted: jobs are before it"
        wait_s = self._wait_s(job)
        if wait_s == inf:
            return None, None, "its start cannot be predicted"
        start = now.wall_s + max(0.0, wait_s)
        bounded = wait_s > 0 and self._bounded(now)
        return (None, start, _BOUNDED) if bounded else (start, None, None)

    def _bounded(self, now: Instant) -> bool:
        """Return whether only its time limit is known of a job that runs on a GPU."""
        found = (
            remaining(job, live, now, kind=_kind(self._scheduler.snapshot, live), gpus=job.gpus)
            for job, live in self._scheduler.snapshot.running
            if live.devices
        )
        return any(left is not None and left.source == TIME_LIMIT for left in found)

    def prepare(self) -> Work[None]:
        """Play the line forward, in pieces. `of` then knows the start of every job in it."""
        version = self._scheduler.snapshot.jobs_version
        if self._plays is None or not self._plays.is_good(version, self._clock()):
            self._plays = self._new_plays(version)
        pace = Pace()
        for _ in () if self._plays is None else self._plays.ticks():
            yield from pace.rest_if_spent()

    def _new_plays(self, version: int) -> _Plays | None:
        """Return plays of the present line; None where no planner serves it in its order."""
        view = self._scheduler.view
        planner = next((each for each in self._planners if each.starts_jobs), None)
        if not isinstance(planner, OrderPolicy):
            return None
        if view.isolation.rests("policy", planner.policy.name):
            return None
        return _Plays(view, planner, version, self._limit, self._clock)

    def _wait_s(self, job: Job) -> float:
        view = self._scheduler.view
        for planner in self._planners:
            policy = getattr(planner, "recovery_policy" if job.recovers_idle else "policy", None)
            if not planner.starts_jobs or policy is None:
                continue
            if view.isolation.rests("policy", policy.name) or view.refuse_on_nodes(job) is not None:
                break
            try:
                with self._limit:
                    forecast = Forecast(view, Checked(policy, view.answers), job)
            except RuleFailed:
                break
            return forecast.start_s - view.now.boot_s
        return inf


class _Plays:
    """The line for GPUs, played forward with the expected and with the longest run times."""

    def __init__(
        self,
        view: View,
        planner: OrderPolicy,
        version: int,
        limit: AbstractContextManager[object],
        clock: Callable[[], float],
    ) -> None:
        self._version, self._limit, self._clock = version, limit, clock
        self._over = self._failed = False
        began_s = clock()
        with limit:
            self._usual, self._worst = Ahead(view, planner), Ahead(view, planner, worst=True)
        self._steps = self._play()
        self._ended_s = clock()
        self._took_s = self._ended_s - began_s

    def is_good(self, version: int, now_s: float) -> bool:
        """Return whether it can answer still: no job has changed, or it took long and is new."""
        return self._version == version or now_s < self._ended_s + self._took_s / _SHARE

    def ticks(self) -> Iterator[None]:
        """Play on to the end. One request may give it up, and another goes on with it."""
        while not self._over:
            began_s = self._clock()
            try:
                with self._limit:
                    next(self._steps)
            except StopIteration:
                self._over = True
            except RuleFailed:
                self._over = self._failed = True  # the next search for a placement reports it
            self._ended_s = self._clock()
            self._took_s += self._ended_s - began_s
            yield

    def _play(self) -> Iterator[None]:
        yield from self._usual.play()
        if not self._usual.certain:
            yield from self._worst.play()

    @property
    def cut(self) -> bool:
        """True if the line was too long to play all of it."""
        return self._usual.cut

    def has(self, job: Job) -> bool:
        """Return whether a job was in the line at the beginning."""
        return job.id in self._usual.line

    def start_of(self, job: Job, now: Instant) -> tuple[float | None, float | None, str | None]:
        """Return when a job starts, and at the latest, as epoch seconds; or why it is unknown."""
        start_s = None if self._failed else self._usual.starts.get(job.id)
        if start_s is None:
            return None, None, self._why_unknown(job)
        start = max(now.wall_s, now.wall_s + start_s - now.boot_s)
        worst_s = (self._usual if self._usual.certain else self._worst).starts.get(job.id)
        latest = None if worst_s is None else max(start, now.wall_s + worst_s - now.boot_s)
        if job.id not in self._usual.bounded:
            return start, latest, None
        return None, latest, self._why_unknown(job) if latest is None else _BOUNDED

    def _why_unknown(self, job: Job) -> str:
        endless = None if self._failed else self._usual.endless()
        if endless is not None:
            return (
                f"its start cannot be predicted: job {endless.label}, before it, has no --time, "
                "no --duration and no earlier run"
            )
        return "its start cannot be predicted"


_BOUNDED = "jobs before it have only a time limit, and may end sooner"
_NO_SOURCE = "its run time is unknown; give its --duration, or report progress"


def waiting_left(snapshot: Snapshot, job: Job, now: Instant) -> Remaining | None:
    """Return the run time that a waiting job has left, on any kind of GPU that is here."""
    kinds = {each.device.name for each in snapshot.devices} if job.profile else ()
    found = [
        left
        for kind in (kinds or (None,))
        if (left := remaining(job, None, now, kind=kind, gpus=job.gpus)) is not None
    ]
    if not found:
        return None
    best = min(found, key=lambda left: left.value_s)
    return replace(best, upper_s=max(left.upper_s for left in found))


# ------------------------------------------------------------------ running jobs


def of_running(snapshot: Snapshot, job: Job, live: Attempt, now: Instant) -> Expected:
    """Return when a live job is expected to end, at its time limit at the latest."""
    ran_s = now.since(live.started) if live.started is not None else None
    if ran_s is None:
        return Expected(unknown="it has not started yet" if live.started is None else _REBOOT)
    demand = _demand(snapshot, job, live)
    mean = max(_SLOWEST, mean_speed(snapshot.used_now(live), demand, ran_s))
    left = remaining(job, live, now, kind=_kind(snapshot, live), gpus=len(live.devices), speed=mean)
    if left is None:
        return Expected(unknown=_NO_SOURCE)
    limit_s = left.limit_s
    at_limit = None if limit_s == inf else now.wall_s + limit_s
    unknown = _NO_SOURCE if left.source == TIME_LIMIT else None
    if left.source not in (PROGRESS, TIME_LIMIT):
        if live.work_begun is None:
            unknown = "how much of its work it had saved is unknown"
        elif left.exceeded:
            unknown = f"it has run for longer than predicted ({left.source})"
    if unknown is not None:
        return Expected(latest=at_limit, source=left.source, unknown=unknown)
    scale = 1.0 if left.source == PROGRESS else mean / _speed_now(snapshot, live, demand)
    if left.limited:
        assert at_limit is not None
        return Expected(None, at_limit, at_limit, TIME_LIMIT, None, limit_s)
    source = TIME_LIMIT if limit_s < left.value_s * scale else left.source
    value_s, upper_s = (min(each * scale, limit_s) for each in (left.value_s, left.upper_s))
    latest = None if upper_s == inf else now.wall_s + upper_s
    return Expected(None, now.wall_s + value_s, latest, source, None, value_s)


_REBOOT = "it has run since before a reboot"


def _kind(snapshot: Snapshot, live: Attempt) -> str | None:
    """Return the name of an attempt's GPUs; None if they are not all alike."""
    devices = [snapshot.device(uuid) for uuid in live.devices]
    names = {None if each is None else each.device.name for each in devices}
    return names.pop() if len(names) == 1 else None


def _demand(snapshot: Snapshot, job: Job, live: Attempt) -> float:
    shown = snapshot.used_now(live).alone_smact
    found = next((d for u in live.placement.devices if (d := snapshot.device(u))), None)
    device = None if found is None else found.device
    demand = job.smact_in(live.placement.collocation, device) if shown is None else shown
    return _UNKNOWN if demand is None else demand


def _speed_now(snapshot: Snapshot, live: Attempt, demand: float) -> float:
    """Return the speed of an attempt beside the jobs that are on its devices now."""
    mps = live.placement.collocation is Collocation.MPS
    each = []
    for uuid in live.placement.devices:
        device = snapshot.device(uuid)
        others = []
        for job_id, occupant in (device.occupants if device is not None else {}).items():
            other = snapshot.job(job_id)
            if job_id != live.job_id and other is not None:
                shown = occupant.usage.alone_smact
                there = live.placement.collocation, None if device is None else device.device
                others.append(other.smact_in(*there) if shown is None else shown)
        each.append(speed_beside(demand, others, mps))
    return max(_SLOWEST, joint_speed(each)) if each else 1.0
