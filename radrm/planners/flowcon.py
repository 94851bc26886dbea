"""FlowCon: the CPUs of a server follow the growth of its jobs.

Theory of operation
-------------------
Zheng's thesis, section 5.1. Every `interval_s`, Algorithm 1 puts each job into a list by its growth
G (`growth`): below `alpha` it moves from the new to the watching to the completing list, one list a
run; else back to the new list. If all jobs are in the completing list, limits go and the interval
doubles, once a run. Else a new job gets G / sum of G of the CPUs, a watching one keeps what it has,
and a completing one gets at least 1 / (beta n) of n jobs. Algorithm 2: when a job comes or goes,
the interval is reset and Algorithm 1 runs at once. The thesis does not give beta; its figure 6.5
(a limit of 0.25 with two jobs) implies 2.

`measure = "paper"` is that. By default:

- Parts of the CPUs add up to one, and each job has at least 1 / (beta n), in every list and if it
  reports nothing. A job that has booked CPUs has at least those, as far as the floor of the others
  allows. A job that has just come gets what is beyond the floors until its
  growth is known; one whose growth stays unknown gets 1 / n.
- They are weights, so that no CPU idles. `limit = "cap"` makes them caps; then a job that asked
  for CPUs keeps its own.
- `goal = "completion"` gives all the floor, and the rest to the job with the least CPU work left.

Invariants:
- Shares are set only if one changes by more than `_MATTERS`, or a job is below its floor; then all
  are set that change by more than `_TRIFLE`.
- A server or an attempt whose shares cannot be set is not asked again.

What may interleave: shares that are not applied yet are left alone until the next run.

What a restart sees: the notes of running jobs, the time of the last run, and the boot that it
counts from. After a reboot everything begins anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from radrm.core import events as ev
from radrm.core.proposals import Proposal, SetShares
from radrm.core.records import Attempt, Instant, Job, Refusal, Share
from radrm.core.rules import Plan, Planner
from radrm.core.settings import fixed
from radrm.core.view import View
from radrm.core.words import ActionKind, JobState
from radrm.planners.growth import (
    COMPLETING,
    NEW,
    WATCHING,
    Growth,
    count_cpus,
    grow,
    grow_as_published,
    list_after,
    work_left_s,
)

_MOST_INTERVAL_S, _MOST_ALPHA = 3600.0, 1000.0
_MATTERS, _TRIFLE = 0.1, 0.005
_LEAST_WEIGHT, _MOST_WEIGHT = 0.01, 100.0
_NEW_RUNS = 3
"""A job counts as new for so many runs without a known growth."""
_SOON = 0.25
"""The part of an interval after which a job of unknown work is looked at again."""

Running = tuple[Job, Attempt, Growth]


@dataclass(frozen=True, slots=True)
class FlowCon(Planner):
    """Give the CPUs to the jobs that grow fastest. It runs beside a planner that starts jobs."""

    alpha: float = 0.05
    """A job whose growth is below this is slow (above 0, at most 1000). Growth: how much the loss
    falls in a second, as a part of its largest fall so far, over the part of the CPUs in use.

    A site whose jobs converge slower or faster than the paper's, which varies it."""
    interval_s: float = 20.0
    """Seconds between two runs (1 to 3600). It doubles while all jobs are completing.

    A site whose jobs report seldom; the paper varies it (itval)."""
    beta: float = 2.0
    """Each of n jobs gets at least 1 / (beta n) of the CPUs (1 to 100).

    A site that wants to leave slow jobs more CPUs than the paper."""
    limit: str = fixed("weight")
    """`weight`: jobs share what the others leave; `cap`: no job uses more than its part."""
    goal: str = fixed("growth")
    """`growth`, or `completion`: the job with the least CPU work left is first."""
    measure: str = fixed("relative")
    """`relative`, or `paper`: the published algorithms, with losses as they are."""
    name: str = "flowcon"
    version: int = 1
    starts_jobs: bool = False
    listens: frozenset[type[ev.Event]] = frozenset({ev.AttemptStarted, ev.AttemptEnded})

    def __post_init__(self) -> None:
        if not 0 < self.alpha <= _MOST_ALPHA:
            raise ValueError(f"alpha = {self.alpha:g} is not above 0 and at most {_MOST_ALPHA:g}")
        if not 1 <= self.interval_s <= _MOST_INTERVAL_S:
            raise ValueError(f"interval_s = {self.interval_s:g} is not from 1 to 3600 (seconds)")
        if not 1 <= self.beta <= 100:
            raise ValueError(f"beta = {self.beta:g} is not from 1 to 100")

    def plan(self, view: View, event: ev.Event, state: Any) -> Plan:
        kept = state or {}
        if kept.get("boot") != view.now.boot:
            kept = {}  # its attempts are gone, and its times mean nothing
        notes = {int(job_id): Growth(*note) for job_id, note in kept.get("jobs", {}).items()}
        running: list[Running] = []
        for job, attempt in view.running():
            if job.state is JobState.RUNNING:
                note = notes.get(job.id)
                if note is None or note.serial != attempt.serial:
                    note = Growth(attempt.serial)
                running.append((job, attempt, note))
        now, interval_s = view.now, self.interval_s * kept.get("times", 1.0)
        known = {note.serial for note in notes.values()}
        changed = known != {attempt.serial for _, attempt, _ in running}
        if changed:
            interval_s = self.interval_s  # Algorithm 2
        elif (wait_s := _left_s(now, kept.get("last_s"), _next_s(interval_s, running, self))) > 0:
            return Plan(state=state, wake_at=now.boot_s + wait_s)
        if not running:
            return Plan(state=None)
        cpus = next((use.node.cpus for use in view.nodes()), None)
        interval_s = self._run(running, now, cpus or 1.0, interval_s)
        kept = {
            "boot": now.boot,
            "last_s": now.boot_s,
            "times": interval_s / self.interval_s,
            "jobs": {str(job.id): note.plain() for job, _, note in running},
            "remarks": {str(job.id): note.which for job, _, note in running},
        }
        wake_at = now.boot_s + _next_s(interval_s, running, self)
        return Plan(self._changes(view, running, cpus), kept, wake_at)

    def explain(self, view: View, job: Job) -> Sequence[Refusal]:
        return ()  # no job waits because of it

    # ------------------------------------------------------------- Algorithm 1

    def _run(
        self, running: Sequence[Running], now: Instant, cpus: float, interval_s: float
    ) -> float:
        """Put each job into its list and give it its limit. Returns the next interval."""
        published = self.measure == "paper"
        for job, attempt, note in running:
            count_cpus(note, attempt, cpus)
            note.runs += 1
            if grow_as_published(note, job, now) if published else grow(note, job):
                assert note.growth is not None
                note.which = list_after(note.which, note.growth, self.alpha)
        if self.goal == "completion":
            self._limit(running, self._by_work_left(running), cpus)
        elif all(note.which == COMPLETING for _, _, note in running):
            self._limit(running, [1.0] * len(running), cpus)
            if published:
                for _, _, note in running:
                    note.limit = 1.0
            return min(2 * interval_s, _MOST_INTERVAL_S)
        elif published:
            self._limit_as_published(running)
        else:
            self._limit(running, self._by_growth(running), cpus)
        return interval_s

    def _limit_as_published(self, running: Sequence[Running]) -> None:
        total = sum(note.growth or 0.0 for _, _, note in running)
        for _, _, note in running:
            part = 1.0 if note.growth is None else note.growth / (total or 1.0)
            if note.which == COMPLETING:
                note.limit = max(part, 1 / (self.beta * len(running)))
            elif note.which == NEW:
                note.limit = part

    def _by_growth(self, running: Sequence[Running]) -> list[float]:
        """Return the part of the CPUs that each job should have; they need not add up to one.

        While the growth of a new job is not known, it gets all beyond the floors: most jobs grow
        fastest when they are new, and a short one may end before it is measured.
        """
        notes = [note for _, _, note in running]
        if any(map(_is_unmeasured, notes)):
            return [float(_is_unmeasured(note)) for note in notes]
        total = sum(note.growth or 0.0 for note in notes) or 1.0
        return [
            1 / len(notes)
            if note.growth is None
            else note.limit
            if note.which == WATCHING
            else note.growth / total
            for note in notes
        ]

    def _by_work_left(self, running: Sequence[Running]) -> list[float]:
        """Return 1 for the job with the least work left, and for new jobs of unknown work."""
        left = [work_left_s(note, job, attempt) for job, attempt, note in running]
        least = min((each for each in left if each is not None), default=None)
        first = None if least is None else left.index(least)
        return [
            float(at == first or (left[at] is None and (least is None or note.runs <= _NEW_RUNS)))
            for at, (_, _, note) in enumerate(running)
        ]

    def _limit(self, running: Sequence[Running], wanted: Sequence[float], cpus: float) -> None:
        """Give each job its floor, and the rest by what is wanted beyond it. They add up to 1."""
        floor = 1 / (self.beta * len(running))
        booked = [max(floor, (job.spec.cpus or 0.0) / cpus) for job, _, _ in running]
        if sum(booked) > 1:  # the floor of the others is first
            least, wanted = [floor] * len(running), booked
        else:
            least = booked
        beyond = [max(0.0, want - low) for want, low in zip(wanted, least, strict=True)]
        rest, total = 1 - sum(least), sum(beyond)
        for (_, _, note), low, more in zip(running, least, beyond, strict=True):
            note.limit = low + rest * (more / total if total else 1 / len(running))

    # ------------------------------------------------------------- proposals

    def _changes(
        self, view: View, running: Sequence[Running], cpus: float | None
    ) -> Iterator[Proposal]:
        """Yield the changes of shares, if one of them matters."""
        if any(use.node.shares_refused for use in view.nodes()):
            return
        if self.limit == "cap" and cpus is None:
            return
        count = len(running)
        changes = [
            (attempt, shares)
            for job, attempt, note in running
            if attempt.shares_refused is None and attempt.asked(ActionKind.SHARES) is None
            if (shares := self._shares(job, attempt, note.limit, count, cpus or 0.0))
            != attempt.placement.shares
        ]
        if any(_matters(attempt.placement.shares, new, _MATTERS) for attempt, new in changes) or (
            self.limit == "weight" and self._starves(running)
        ):
            for attempt, shares in changes:
                if not _matters(attempt.placement.shares, shares, _TRIFLE):
                    continue
                yield SetShares(job_id=attempt.job_id, shares=shares)

    def _shares(
        self, job: Job, attempt: Attempt, part: float, count: int, cpus: float
    ) -> tuple[Share, ...]:
        tasks = len({(share.role, share.task) for share in attempt.placement.shares})
        if self.limit == "weight":
            weight = min(max(part * count / tasks, _LEAST_WEIGHT), _MOST_WEIGHT)
            weight = round(weight, 3)
            return tuple(replace(s, cpu_weight=weight) for s in attempt.placement.shares)
        if job.spec.cpus is not None:
            return attempt.placement.shares
        cap = None if part >= 1 else max(round(part * cpus / tasks, 3), 0.001)
        return tuple(replace(s, cpus=cap) for s in attempt.placement.shares)

    def _starves(self, running: Sequence[Running]) -> bool:
        """Return whether a job has less than its floor now."""
        weights = [_weight(attempt.placement.shares) for _, attempt, _ in running]
        return min(weights) < sum(weights) * (1 - 0.01) / (self.beta * len(weights))


def _is_unmeasured(note: Growth) -> bool:
    return note.growth is None and note.runs <= _NEW_RUNS


def _next_s(interval_s: float, running: Sequence[Running], rule: FlowCon) -> float:
    """Return the seconds until the next run: fewer while the work of a new job is not known."""
    if rule.goal == "completion" and any(
        note.runs <= _NEW_RUNS and note.first_work is None for _, _, note in running
    ):
        return max(1.0, _SOON * interval_s)
    return interval_s


def _left_s(now: Instant, last_s: float | None, interval_s: float) -> float:
    """Return the seconds until the next run."""
    if last_s is None or now.boot_s < last_s:  # another boot, of which the records do not tell
        return 0.0
    left_s = interval_s - (now.boot_s - last_s)
    return left_s if left_s > 0.001 else 0.0


def _weight(shares: Sequence[Share]) -> float:
    """Return the weight of all tasks of a job together."""
    tasks = {(share.role, share.task): share.cpu_weight for share in shares}
    return sum(1.0 if weight is None else weight for weight in tasks.values())


def _matters(old: Sequence[Share], new: Sequence[Share], part: float) -> bool:
    """Return whether other shares change what a job gets by more than this part of it."""
    for before, after in zip(old, new, strict=True):
        if (before.cpus is None) is not (after.cpus is None):
            return True
        for was, now in (
            (before.cpus or 1.0, after.cpus or 1.0),
            (1.0 if before.cpu_weight is None else before.cpu_weight, after.cpu_weight or 1.0),
        ):
            if abs(now - was) > part * was:
                return True
    return False
