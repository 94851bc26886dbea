"""FlowCon: the CPUs of a server follow the growth of its jobs.

Theory of operation
-------------------
Zheng's thesis, section 5.1. Every `interval_s`, Algorithm 1 puts each job into a list by its growth
G (`growth`): below `alpha` it moves from the new to the watching to the completing list, one list a
run; else back to the new list. If all jobs are in the completing list, limits go and the interval
doubles, once a run. Else a new job gets G / sum of G of the CPUs, a watching one keeps what it has,
and a completing one gets at least 1 / (beta n) of n jobs. Algorithm 2: when a job comes or goes,
the interval is reset and Algorithm 1 runs at once. Limits are soft (5.1.1): CPU time that a job
leaves is the others'. The thesis does not give beta; its figure 6.5 (a limit of 0.25 with two jobs)
implies 2.

`measure = "paper"` is that. The first evaluation of a loss is the first report of a job, so that
its second run knows its growth; until then its limit is 1. Limits are set as the weights with which
jobs that all want the CPUs have the same, each at most its limit. By default:

- Parts of the CPUs add up to one, and each job has at least 1 / (beta n), in every list and if it
  reports nothing. A job that has booked CPUs has at least those, as far as the floor of the others
  allows. A job that has just come gets what is beyond the floors until its
  growth is known; one whose growth stays unknown gets 1 / n.
- `goal = "completion"` gives all the floor, and the rest to the job with the least CPU work left.

Invariants:
- Shares are set only if one changes by more than `_MATTERS`, or a job is below its floor; then all
  are set that change by more than `_TRIFLE`.
- A server or an attempt whose shares cannot be set is not asked again.

Shares are weights, so that no CPU idles.

What may interleave: shares that are not applied yet are left alone until the next run.

What a restart sees: the notes of running jobs, the time of the last run, and the boot that it
counts from. After a reboot everything begins anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from msgspec import Struct

from radrm.rules import (
    ActionKind,
    Attempt,
    Instant,
    Job,
    JobState,
    Plan,
    Planner,
    Proposal,
    Quantity,
    Refusal,
    SetShares,
    Share,
    View,
    replace,
)
from radrm.rules import events as ev

# ------------------------------------------------------------------
# The growth of a job: how fast its loss falls for the CPU time that it uses.
#
# Theory of operation
# -------------------
# Zheng's thesis, section 4.1.3: P = |E(t) - E(t-1)| / seconds (4.1) is the progress of a job whose
# loss is E, and G = P / R (4.2) its growth, where R is the mean part of the CPUs that it has used.
# The thesis defines G for memory, block and network I/O as well; only CPUs are steered here.
#
# `grow_as_published` takes the loss as it is, at each run, from the first report on. `grow` differs
# in this:
#
# - The loss is smoothed, and divided by its largest fall so far: losses of different kinds cannot
#   be added. G is smoothed, too.
# - Without a new report there is no judgement, and P counts the seconds between two reports. So a
#   job that reports once per epoch does not look converged.
#
# What a restart sees: the notes, in the planner's state. Times are seconds since boot: no attempt
# outlives its boot, so a planner forgets the notes of another one.


NEW, WATCHING, COMPLETING = "new", "watching", "completing"

_SMOOTHING = 0.5
"""The weight of a new report in the smoothed loss and growth."""
_LEAST_PART = 0.001
"""A job that used less of the CPUs counts as if it had used this part."""
_LEAST_WORK = 0.005
"""The part of its work from which on a job's CPU time tells what the rest will take."""


class Growth(Struct):
    """What is known of the growth of one attempt, in fields that plain JSON can hold.

    `which` is its list, `limit` the part of the CPUs (0..1) that it was last given, `growth` its
    last G (None before the first), `runs` the runs that saw it. `at_s` is the time of the last
    report. `high` is the highest smoothed loss, `fall` the largest fall from there. `used_s` are
    CPU seconds at `used_at_s`, and `part` the mean part of the CPUs before that. `first_work` and
    `first_cpu_s` are its work done (0..1) and its CPU seconds when it was first seen.
    """

    serial: int
    which: str = NEW
    limit: float = 1.0
    growth: float | None = None
    runs: int = 0
    loss: float | None = None
    high: float = 0.0
    fall: float = 0.0
    at_s: float | None = None
    used_s: float | None = None
    used_at_s: float | None = None
    part: float | None = None
    first_work: float | None = None
    first_cpu_s: float | None = None

    def plain(self) -> list[object]:
        """Return its fields in their order: `Growth(*plain)` is the same. A state is copied at each
        call of its planner, so it has no names of fields."""
        return list(_values(self))


_values = attrgetter(*Growth.__struct_fields__)


def list_after(which: str, growth: float, alpha: float) -> str:
    """Return a job's list after a run of Algorithm 1 (section 5.1.2, lines 3 to 13)."""
    if growth >= alpha:
        return NEW
    return WATCHING if which == NEW else COMPLETING


def count_cpus(note: Growth, attempt: Attempt, cpus: float) -> None:
    """Note the mean part of `cpus` that an attempt has used since the last count."""
    use = attempt.host_use
    if use is None or use.cpu_s is None:
        return
    # It began at its start, with no CPU time.
    began = attempt.started or attempt.launched
    since_s = began.boot_s if note.used_at_s is None else note.used_at_s
    passed_s, used_s = use.at.boot_s - since_s, use.cpu_s - (note.used_s or 0.0)
    if passed_s > 0 and used_s >= 0:
        note.part = used_s / passed_s / cpus
    note.used_s, note.used_at_s = use.cpu_s, use.at.boot_s


def grow_as_published(note: Growth, job: Job, now: Instant) -> bool:
    """Compute G from the last loss, also if that is the one before. Returns whether it is known.

    A job that has only reported once has no growth.
    """
    progress = job.progress
    if progress is None or progress.loss is None:
        return False
    if note.growth is None and note.at_s is not None and progress.at.boot_s <= note.at_s:
        return False
    passed_s = None if note.at_s is None else now.boot_s - note.at_s
    before, note.loss, note.at_s = note.loss, progress.loss, now.boot_s
    if before is None or passed_s is None or passed_s <= 0:
        return False
    note.growth = abs(progress.loss - before) / passed_s / _part(note)
    return True


def grow(note: Growth, job: Job) -> bool:
    """Compute G from a new report. Returns whether there is one that tells it."""
    progress = job.progress
    if progress is None or progress.loss is None:
        return False
    passed_s = None if note.at_s is None else progress.at.boot_s - note.at_s
    if passed_s == 0:
        return False
    note.at_s = progress.at.boot_s
    if note.loss is None or passed_s is None or passed_s < 0:
        note.loss = progress.loss
        note.high = max(note.high, progress.loss) if note.fall else progress.loss
        return False
    before, note.loss = note.loss, note.loss + _SMOOTHING * (progress.loss - note.loss)
    note.high = max(note.high, note.loss)
    note.fall = max(note.fall, note.high - note.loss)
    if not note.fall:
        note.growth = 0.0 if note.growth is None else note.growth * (1 - _SMOOTHING)
        return True
    found = abs(note.loss - before) / note.fall / passed_s / _part(note)
    was = found if note.growth is None else note.growth
    note.growth = was + _SMOOTHING * (found - was)
    return True


def _part(note: Growth) -> float:
    return max(_LEAST_PART, 1.0 if note.part is None else note.part)


def work_left_s(note: Growth, job: Job, attempt: Attempt) -> float | None:
    """Return the CPU seconds that a job still needs; None if that is not known.

    From the work that it reports and the CPU time that this took; before that from the estimate of
    its duration, as if it used one CPU.
    """
    done = job.progress.work_done if job.progress is not None else None
    used_s = attempt.host_use.cpu_s if attempt.host_use is not None else None
    if done is not None and used_s is not None:
        if note.first_work is None or note.first_cpu_s is None:
            # A first attempt has done all this work with all this CPU time.
            first = attempt.number == 1
            note.first_work, note.first_cpu_s = (0.0, 0.0) if first else (done, used_s)
        work = done - note.first_work
        if work >= _LEAST_WORK:
            return max(0.0, (used_s - note.first_cpu_s) / work * (1 - done))
    return job.predicted(Quantity.DURATION)


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
    goal: str = "growth"
    """`growth`, or `completion`: the job with the least CPU work left is first.

    A site whose jobs report their steps, and that wants most of them to end sooner."""
    measure: str = "relative"
    """`relative`, or `paper`: the published algorithms, with losses as they are.

    A site that wants the published algorithm, for jobs whose losses are of one kind."""
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
        if self.measure == "paper":
            object.__setattr__(self, "listens", self.listens | {ev.ProgressReported})

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
            if isinstance(event, ev.ProgressReported):
                state = _with_first_loss(kept, running, event)
            return Plan(state=state, wake_at=now.boot_s + wait_s)
        if not running:
            return Plan(state=None)
        cpus = next((use.node.cpus for use in view.nodes()), None) or 1.0
        interval_s = self._run(running, now, cpus, interval_s)
        kept = {
            "boot": now.boot,
            "last_s": now.boot_s,
            "times": interval_s / self.interval_s,
            "jobs": {str(job.id): note.plain() for job, _, note in running},
            "remarks": {str(job.id): note.which for job, _, note in running},
        }
        wake_at = now.boot_s + _next_s(interval_s, running, self)
        return Plan(self._changes(view, running), kept, wake_at)

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
            _limit_as_published(running, self.beta)
        else:
            self._limit(running, self._by_growth(running), cpus)
        return interval_s

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

    def _changes(self, view: View, running: Sequence[Running]) -> Iterator[Proposal]:
        """Yield the changes of shares, if one of them matters."""
        if any(use.node.shares_refused for use in view.nodes()):
            return
        parts = [note.limit for _, _, note in running]
        if self.measure == "paper":
            parts = soft_parts(parts)
        changes = [
            (attempt, shares)
            for (_, attempt, _), part in zip(running, parts, strict=True)
            if attempt.shares_refused is None and attempt.asked(ActionKind.SHARES) is None
            if (shares := _weighted(attempt, part * len(running))) != attempt.placement.shares
        ]
        if any(
            _matters(attempt.placement.shares, new, _MATTERS) for attempt, new in changes
        ) or self._starves(running):
            for attempt, shares in changes:
                if not _matters(attempt.placement.shares, shares, _TRIFLE):
                    continue
                yield SetShares(job_id=attempt.job_id, shares=shares)

    def _starves(self, running: Sequence[Running]) -> bool:
        """Return whether a job has less than its floor now."""
        weights = [_weight(attempt.placement.shares) for _, attempt, _ in running]
        return min(weights) < sum(weights) * (1 - 0.01) / (self.beta * len(weights))


def _with_first_loss(
    kept: dict[str, Any], running: Sequence[Running], event: ev.ProgressReported
) -> dict[str, Any]:
    """Return a state that knows the first loss of the job that reports: its evaluation at the
    start, of `measure = "paper"`."""
    note = next((note for job, _, note in running if job.id == event.job_id), None)
    if note is None or note.loss is not None or event.progress.loss is None:
        return kept
    note.loss, note.at_s = event.progress.loss, event.progress.at.boot_s
    return {**kept, "jobs": {**kept["jobs"], str(event.job_id): note.plain()}}


def _limit_as_published(running: Sequence[Running], beta: float) -> None:
    """Set the limits of lines 18 to 26. A job of unknown growth may have all."""
    total = sum(note.growth or 0.0 for _, _, note in running)
    for _, _, note in running:
        part = 1.0 if note.growth is None else note.growth / (total or 1.0)
        if note.which == COMPLETING:
            note.limit = max(part, 1 / (beta * len(running)))
        elif note.which == NEW:
            note.limit = part


def soft_parts(limits: Sequence[float]) -> list[float]:
    """Return the part of the CPUs that each job gets while all want them: the same for all, each
    at most its limit (0..1). What the limits leave is divided alike. They add up to 1."""
    parts, rest = [0.0] * len(limits), 1.0
    for passed, at in enumerate(sorted(range(len(limits)), key=limits.__getitem__)):
        parts[at] = min(limits[at], rest / (len(limits) - passed))
        rest -= parts[at]
    return [part + rest / len(limits) for part in parts]


def _weighted(attempt: Attempt, weight: float) -> tuple[Share, ...]:
    """Return an attempt's shares with this weight, which its tasks divide."""
    tasks = len({(share.role, share.task) for share in attempt.placement.shares})
    weight = round(min(max(weight / tasks, _LEAST_WEIGHT), _MOST_WEIGHT), 3)
    return tuple(replace(s, cpu_weight=weight) for s in attempt.placement.shares)


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
        was = 1.0 if before.cpu_weight is None else before.cpu_weight
        if abs((after.cpu_weight or 1.0) - was) > part * was:
            return True
    return False
