"""When the jobs of the line for GPUs are expected to start: the line, played forward.

Theory of operation
-------------------
`forecast` tells when one job could start if nothing else did. Here the jobs before it start, too.
The play begins with the jobs that run and what each has left to do. It goes from one expected end
to the next. At each it does what the planner does: the head starts if the policy finds devices
among the offers of that moment (`core/planning/placing.py`). With `backfill`, jobs behind it
start if the head is not delayed too much, by the planner's own rule.

Jobs that share a GPU slow one another down (`radrm/interference/model.py`); their work left is
divided anew whenever a job comes or leaves. A time limit ends a job in any case.

With exact run times and GPUs of their own the play is exact, as long as no job comes. What it does
not know: jobs that are submitted later, or stand aside because GPUs are reserved for others; orders
whose keys change; times in which a GPU's SM activity is measured; and CPUs and host memory that
become free.

It plays the first `MOST_JOBS` jobs, for `MOST_WORK` steps of work at most. What it needs of the
devices is read at the beginning, so the view may change between two pieces of the play.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from itertools import islice
from math import inf

from msgspec import Struct

from radrm.core.constraints.offers import OffersOfRole
from radrm.core.constraints.searches import Answers
from radrm.core.planning.placing import Checked, Placer
from radrm.core.records import Attempt, Job, Placement
from radrm.core.remaining import TIME_LIMIT, latest_end_s, remaining
from radrm.core.rules import Ask, Policy
from radrm.core.view import Occupant, Offer, View
from radrm.interference.model import joint_speed
from radrm.planners.backfill import Backfill, noted_until, rank_of
from radrm.planners.forecast import (
    BY_ITS_JOBS,
    SLOWEST,
    TEMPORARY,
    Expected,
    end_of,
    expect,
    offer_with,
    speeds_of,
)
from radrm.planners.order_policy import OrderPolicy
from radrm.structs import replace

MOST_JOBS = 200
MOST_WORK = 15_000
"""Steps of work: 2 to 8 us each."""
_PLACE, _REFUSE = 10, 5
_ROUNDING_S = 0.001


class _Played(Struct):
    """A job in the play. `work_s`: what it has left, in seconds alone; `speed`: beside others.

    `now_mib`: what it has reserved at the beginning; 0 for one that starts later.
    """

    expected: Expected
    devices: tuple[str, ...]
    work_s: float
    limit_s: float
    now_mib: int
    speed: float = 1.0
    by_limit: bool = False
    """Only its time limit is known: it may end at any time before."""

    @property
    def job(self) -> Job:
        return self.expected.occupant.job

    def end_s(self, now_s: float) -> float:
        return min(self.limit_s, now_s + self.work_s / self.speed)


class _Scene:
    """Which jobs are on which device, at the moment `at_s`. `later`: not as it is now."""

    def __init__(self, runs: Sequence[_Played], later: bool, at_s: float = 0.0) -> None:
        self.later = later
        self.at_s = at_s
        self._on: dict[str, list[_Played]] = {}
        for run in runs:
            for uuid in run.devices:
                self._on.setdefault(uuid, []).append(run)

    def on(self, uuid: str) -> Sequence[_Played]:
        return self._on.get(uuid, ())

    def look(self, uuid: str) -> Hashable:
        """Return a value that differs if the device may take other jobs than at another moment."""
        return self.later, tuple([run.job.id for run in self.on(uuid)])


class Ahead:
    """The line for GPUs, played forward. Times are boot-time seconds.

    `worst`: every job takes as long as its run time can be at most, not as long as expected.
    Raises what a policy raises.
    """

    def __init__(self, view: View, planner: OrderPolicy, worst: bool = False) -> None:
        self._view, self._planner, self._worst = view, planner, worst
        self._now = view.now
        self.now_s = view.now.boot_s
        self.starts: dict[int, float] = {}
        """When the jobs start that have started so far in the play, by id."""
        self.over = False
        self.certain = True
        """True if no run time that counted so far could be longer than expected."""
        self.bounded: set[int] = set()
        """Those of `starts` that wait for a job of which only the time limit is known: they start
        then at the latest, and nothing says when they are expected to."""
        self._by_limit = False
        self._work = 0
        self._answers = Answers({})
        self._kept = view.kept(planner.name, planner.version) or {}
        self._until: dict[int, float] = {}
        """Until when others may pass a head."""
        self._offers: dict[tuple[int, int], list[Offer]] = {}
        self._accepts: dict[Hashable, Offer | None] = {}
        line = list(islice(view.waiting(), MOST_JOBS + 1))
        self.cut = len(line) > MOST_JOBS
        """True if not all jobs of the line are played."""
        self._waiting = line[:MOST_JOBS]
        self.line = frozenset(job.id for job in self._waiting)
        """The ids of the jobs that wait at the beginning."""
        numbers: dict[Hashable, int] = {}
        self._kinds = {
            job.id: numbers.setdefault(_kind(view, job), len(numbers)) for job in self._waiting
        }
        """A number for the jobs that find the same devices and need the same time."""
        for job in self._waiting:
            for number in range(len(job.spec.roles)):
                self._offers_of(job, number)
        self._changes = view.reservations_change_s()
        self._before_mib: dict[str, int] = {}
        """What the jobs on each device have reserved at the beginning."""
        self._have(self._running())

    def endless(self) -> Job | None:
        """Return a job that never ends in the play, as its run time is unknown; None: all end."""
        jobs = (run.job for run in self._runs if run.end_s(self.now_s) == inf)
        return next(jobs, None)

    def play(self) -> Iterator[None]:
        """Play on from one expected end, or change of a reservation, to the next. Yields often."""
        while not self.over:
            yield from self._start_all()
            changes = [each for each in self._changes if each > self.now_s]
            then_s = min(changes + [run.end_s(self.now_s) for run in self._runs], default=inf)
            if not self._waiting or then_s == inf or self._work >= MOST_WORK:
                self.over = True
                return
            for run in self._runs:
                run.work_s = max(0.0, run.work_s - (then_s - self.now_s) * run.speed)
            self.now_s = then_s
            ended = [run for run in self._runs if run.end_s(then_s) <= then_s + _ROUNDING_S]
            self._by_limit = self._by_limit or any(run.by_limit for run in ended)
            self._have([run for run in self._runs if run.end_s(then_s) > then_s + _ROUNDING_S])

    def _have(self, runs: list[_Played]) -> None:
        """Go on with these jobs."""
        self._runs = runs
        self._scene = _Scene(runs, self.now_s > self._now.boot_s, self.now_s)
        _pace(self._view, runs, self._scene)

    # ------------------------------------------------------------- the beginning

    def _running(self) -> list[_Played]:
        """Return the jobs that are on devices now, with what they have left."""
        view = self._view
        found: dict[int, _Played] = {}
        kinds: dict[int, str] = {}
        for offer in next(iter(self._offers.values()), ()):
            there = self._expected(offer)
            self._before_mib[offer.device.uuid] = sum(expected.now_mib for expected in there)
            for expected in there:
                job, uuid = expected.occupant.job, offer.device.uuid
                if job.id in found:
                    found[job.id].devices += (uuid,)
                    continue
                limit_s = latest_end_s(job, expected.occupant.attempt, view.now)
                kinds[job.id] = offer.device.name
                found[job.id] = _Played(expected, (uuid,), 0.0, limit_s, expected.now_mib)
        runs = list(found.values())
        _pace(view, runs, _Scene(runs, False))
        for run in runs:
            end = end_of(view, run.expected, kinds[run.job.id], run.speed, run.speed)
            self.certain = self.certain and end.latest_s <= end.at_s + _ROUNDING_S
            run.work_s = ((end.latest_s if self._worst else end.at_s) - self.now_s) * run.speed
            run.by_limit = end.source == TIME_LIMIT
        return runs

    def _expected(self, offer: Offer) -> list[Expected]:
        reserved = {each.job_id: each.mib for each in self._view.reservations(offer.device.uuid)}
        found = []
        for occupant in offer.occupants:
            mib = reserved.get(occupant.job.id, 0)
            whole_mib = offer.device.capacity_mib if mib is None else mib
            found.append(expect(self._view, occupant, whole_mib, mib is None))
        return found

    # ------------------------------------------------------------- one moment

    def _start_all(self) -> Iterator[None]:
        """Start the heads that can start, then the jobs that may pass the next head."""
        while self._waiting and self._work < MOST_WORK:
            yield
            found = self._search(self._waiting[0], self._scene)
            if found is None:
                break
            self._start(self._waiting[0], found)
        if isinstance(self._planner, Backfill) and self._waiting:
            yield from self._overtake(self._waiting[0], self._planner)

    def _overtake(self, head: Job, planner: Backfill) -> Iterator[None]:
        failed: set[Hashable] = set()
        before_s: float | None = None
        for job in self._waiting[1 : planner.depth]:
            kind = self._kinds[job.id]
            if kind in failed:
                continue
            if self._work >= MOST_WORK:
                return
            yield
            found = self._search(job, self._scene)
            if found is None:
                failed.add(kind)
                continue
            if before_s is None:
                before_s = self._earliest(head, self._runs)
            until_s = self._until_s(head, before_s, planner)
            if self.now_s >= until_s:
                return
            if not self._may_overtake(head, job, found, before_s, until_s):
                failed.add(kind)
                continue
            self._until[head.id] = until_s
            self._start(job, found)
            before_s = None

    def _until_s(self, head: Job, before_s: float, planner: Backfill) -> float:
        """Return until when others may pass the head."""
        known_s = self._until.get(head.id)
        if known_s is not None:
            return known_s
        _, noted_s = noted_until(self._view, head, self._kept)
        if noted_s is not None:
            return self._now.boot_s + noted_s - self._now.wall_s
        wait_s = 0.0 if before_s == inf else before_s - self.now_s
        return self.now_s + wait_s + planner.max_delay_s

    def _may_overtake(
        self, head: Job, job: Job, placement: Placement, before_s: float, until_s: float
    ) -> bool:
        """Return whether the planner would let a job start before the head."""
        lower = rank_of(job) > rank_of(head)
        if before_s == inf:
            return not lower
        runs = [replace(run) for run in self._runs] + [self._run(job, placement)]
        _pace(self._view, runs, _Scene(runs, True))
        most_s = before_s if lower else max(before_s, until_s)
        return self._earliest(head, runs) <= most_s + _ROUNDING_S

    def _earliest(self, job: Job, runs: Sequence[_Played]) -> float:
        """Return when a job could start if nothing else started; infinity: never."""
        ends = [(run.end_s(self.now_s), run) for run in runs]
        for at_s in sorted({each_s for each_s, _ in ends} - {inf}):
            left = [run for each_s, run in ends if each_s > at_s + _ROUNDING_S]
            if self._search(job, _Scene(left, True, at_s)) is not None:
                return at_s
        return inf

    def _start(self, job: Job, placement: Placement) -> None:
        self.starts[job.id] = self.now_s
        if self._by_limit:
            self.bounded.add(job.id)
        self._waiting = [each for each in self._waiting if each is not job]
        self._have([*self._runs, self._run(job, placement)])

    def _run(self, job: Job, placement: Placement) -> _Played:
        """Return a job as it starts now on this placement."""
        attempt = Attempt(job.id, job.attempts + 1, 0, placement, self._now, began=job.saved)
        occupant = Occupant(job, attempt, self.now_s, False, None)
        devices = tuple(dict.fromkeys(placement.devices))
        mib = max((share.reserved_mib for share in placement.shares), default=0)
        whole = placement.collocation.whole_device
        expected = expect(self._view, occupant, mib, whole)
        kind = next(o.device.name for o in self._offers_of(job, 0) if o.device.uuid in devices)
        left = remaining(job, None, self._now, kind=kind, gpus=job.spec.gpus)
        work_s = inf
        if left is not None and left.source != TIME_LIMIT:
            work_s = left.upper_s if self._worst else left.value_s
            self.certain = self.certain and left.upper_s <= left.value_s + _ROUNDING_S
        limit_s = latest_end_s(job, None, self._now)
        return _Played(expected, devices, work_s, limit_s, 0, by_limit=work_s == inf)

    # ------------------------------------------------------------- devices for a job

    def _search(self, job: Job, scene: _Scene) -> Placement | None:
        """Return where the policy puts a job in this scene; None: nowhere."""
        self._work += 1
        by_role: list[OffersOfRole] = []
        offered: set[str] = set()
        for number, role in enumerate(job.spec.roles):
            wanted = job.count(role) * role.needs.gpus
            if not wanted:
                continue
            found = [self._accepted(job, number, o, scene) for o in self._offers_of(job, number)]
            offers = [offer for offer in found if offer is not None]
            if len(offers) < wanted:
                return None
            by_role.append((role, offers))
            offered.update(offer.device.uuid for offer in offers)
        self._work += _PLACE
        policy = Checked(self._policy_for(job), self._answers)
        placement = Placer(self._view, policy, job, None).place(by_role).placement
        # For another mode the search asks the view, which shows the present.
        good = placement is not None and offered.issuperset(placement.devices)
        return placement if good else None

    def _accepted(self, job: Job, number: int, offer: Offer, scene: _Scene) -> Offer | None:
        """Return the device as the job finds it in this scene; None if it is refused there."""
        if self._view.free_from_s(job, offer.device.uuid, scene.at_s) > scene.at_s + _ROUNDING_S:
            return None  # reserved for others
        key = (self._kinds[job.id], number, offer.device.uuid, scene.look(offer.device.uuid))
        if key not in self._accepts:
            self._work += _REFUSE
            then = self._then(offer, scene)
            if then is not None and self._policy_refuses(job, number, then):
                then = None
            self._accepts[key] = then
        return self._accepts[key]

    def _policy_for(self, job: Job) -> Policy:
        return self._planner.recovery_policy if job.recovers_idle else self._planner.policy

    def _offers_of(self, job: Job, number: int) -> list[Offer]:
        """Return the present offers of all devices to a job's role, kept for jobs alike."""
        key = (self._kinds[job.id], number)
        known = self._offers.get(key)
        if known is None:
            known = list(self._view.offers(job, job.spec.roles[number]))
            self._offers[key] = known
        return known

    def _policy_refuses(self, job: Job, number: int, offer: Offer) -> bool:
        role, policy = job.spec.roles[number], Checked(self._policy_for(job), self._answers)
        ask = Ask(job, job.count(role) * role.needs.gpus, self._view.need_mib(job, role))
        return policy.refuse(ask, offer) is not None

    def _then(self, offer: Offer, scene: _Scene) -> Offer | None:
        """Return the device as the job finds it in this scene; None if the core refuses it."""
        refused = offer.refusal.rule if offer.refusal is not None else None
        by_jobs = refused in BY_ITS_JOBS
        if offer.free_mib is None or not (by_jobs or refused is None or refused in TEMPORARY):
            return None
        here = scene.on(offer.device.uuid)
        if not scene.later and [r.job.id for r in here] == [h.job.id for h in offer.occupants]:
            return offer if refused is None else None
        if here and (by_jobs or offer.mode.whole_device or any(map(_has_all, here))):
            return None
        used_mib = sum(r.expected.mib if scene.later else r.now_mib or r.expected.mib for r in here)
        free_mib = offer.free_mib + self._before_mib[offer.device.uuid] - used_mib
        return offer_with(self._view, offer, [run.expected for run in here], free_mib)


def _kind(view: View, job: Job) -> Hashable:
    alike = (view.need_of(job), job.spec.uid, job.recovers_idle, rank_of(job))
    return (*alike, job.estimates, job.profile, job.limit_s, job.saved)


def _has_all(run: _Played) -> bool:
    return run.expected.occupant.attempt.placement.collocation.whole_device


def _pace(view: View, runs: Sequence[_Played], scene: _Scene) -> None:
    """Set the speed of each job beside the others on its devices."""
    each: dict[int, list[float]] = {}
    for uuid in {uuid for run in runs for uuid in run.devices}:
        here = scene.on(uuid)
        for run, speed in zip(
            here, speeds_of(view, uuid, [run.expected for run in here]), strict=True
        ):
            each.setdefault(run.job.id, []).append(speed)
    for run in runs:
        run.speed = max(SLOWEST, joint_speed(each[run.job.id])) if run.devices else 1.0
