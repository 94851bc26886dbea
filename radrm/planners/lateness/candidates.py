"""The waiting jobs that are tried: those with due times by rank, the others in their order."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from math import inf

from msgspec import Struct, field

from radrm.core.planning.assembly import Found
from radrm.core.records import Job
from radrm.core.view import View
from radrm.core.words import Quantity
from radrm.deadlines import OLD, OTHER, Key, Ranking, old_from_s, prefix


def candidates(
    view: View, ranking: Ranking, first: Sequence[Job], depth: int, max_wait_s: float
) -> Iterator[Job]:
    """Yield the jobs to try; one may have started meanwhile.

    First come those of `first`, then `depth` with due times. Of the others it is the first one
    of their line: if that does not start, none of them is next.
    """
    now_s, tried = view.now.wall_s, set[int]()
    for job in first:
        tried.add(job.id)
        yield job
    keys = ranking.first(now_s)
    head = head_without_due(view)
    head_key = None if head is None else _key(head, now_s, max_wait_s)
    for key in islice(keys, depth):
        while head is not None and head_key is not None and head_key < key:
            yield head
            head, head_key = _next(view, head, now_s, max_wait_s)
        due = view.job(key[3])
        if due is not None and due.id not in tried:
            yield due
    while head is not None:
        yield head
        head, head_key = _next(view, head, now_s, max_wait_s)


def _next(view: View, tried: Job, now_s: float, max_wait_s: float) -> tuple[Job | None, Key | None]:
    """Return the next job without a due time, if the one before has started, and its place."""
    head = head_without_due(view)
    return (None, None) if head is None or head is tried else (head, _key(head, now_s, max_wait_s))


def head_without_due(view: View) -> Job | None:
    """Return the first job of the line without a due time."""
    job_id = view.by_due().without_due.head()
    return None if job_id is None else view.job(job_id)


def _key(job: Job, now_s: float, max_wait_s: float) -> Key:
    """Return the place of a job without a due time among those with one."""
    old_s = old_from_s(job, max_wait_s)
    is_old = old_s <= now_s
    return (prefix(job), OLD if is_old else OTHER, old_s if is_old else 0.0, job.id)


def any_due(view: View) -> bool:
    """Return whether a running job has a due time."""
    return any(job.spec.due_s is not None for job, _ in view.running())


# ------------------------------------------------------------------
# What a call of the planner can take over from the one before, so that an event costs little.
#
# Nothing of it is saved: it can be made again from the view at any time.


_SOON_S, _READ_S, _CHECK_S = 1.0, 10.0, 60.0
"""Stops and moves are weighed at most so often, because of readings, and at least so often."""
_TEMPORARY = frozenset({"turn", "reading"})
"""Refusals that may end although no device changes."""


class Seen(Struct):
    """What was seen at the last call: no device takes a job of a kind that has `failed`."""

    ranking: Ranking = field(default_factory=lambda: Ranking(None, 0.0, 0.0))
    failed: set[Hashable] = field(default_factory=set)
    look: tuple[object, ...] | None = None
    """The devices then, as `View.offers_mark`; None: look again."""
    wake_s: float | None = None
    _kinds: dict[int, Hashable] = field(default_factory=dict)
    _without_due: Job | None = None
    _quiet: bool = False
    _weighed_s: float = -inf

    @classmethod
    def of(cls, view: View, planner: str) -> Seen:
        """Return what a planner has seen."""
        found = view.scratch.get(planner)
        if found is None:
            found = view.scratch[planner] = cls()
        assert isinstance(found, cls)
        return found

    def classify(self, view: View, jobs: Mapping[int, Job | None]) -> None:
        """Note the kinds of jobs that came or changed. `None`: the job has left."""
        for job_id, job in jobs.items():
            if job is None:
                self._kinds.pop(job_id, None)
            else:
                self._kinds[job_id] = _kind(view, job)

    def same(self, view: View, touched: Iterable[int]) -> bool:
        """Return whether nothing can start, as at the last call: only such jobs have come."""
        now_s = view.now.boot_s
        if not self._quiet or now_s >= self._weighed_s + _READ_S or now_s < self._weighed_s:
            return False
        if head_without_due(view) is not self._without_due or view.offers_mark() != self.look:
            return False
        kinds = self._kinds
        return self.failed.issuperset([kinds[each] for each in touched if each in kinds])

    def weighs(self, now_s: float, reading: bool) -> bool:
        """Return whether stops and moves are weighed now."""
        if 0 <= now_s - self._weighed_s < (_READ_S if reading else _SOON_S):
            return False
        self._weighed_s = now_s
        return True

    def begin(self, view: View) -> None:
        """Forget what failed, if a device has changed since."""
        if self.look is None or view.offers_mark() != self.look:
            self.failed.clear()
            self._without_due = None

    def fails(self, job: Job) -> bool:
        """Return whether it is known that no device takes a job."""
        return job is self._without_due or self._kinds.get(job.id) in self.failed

    def note_failure(self, view: View, job: Job, found: Found) -> bool:
        """Note that no device takes a job, and return whether that lasts while none changes."""
        if not found.too_few or any(each.rule in _TEMPORARY for each in found.refusals):
            return False
        if job.spec.due_s is None:
            self._without_due = job
            return True
        kind = self._kinds.get(job.id)
        if kind is None:
            return False
        self.failed.add(kind)
        return True

    def end(self, view: View, quiet: bool, wake_s: float) -> None:
        """Note how a call ended: `quiet`, if nothing could start. It is called again by then."""
        self._quiet, self.look = quiet, view.offers_mark()
        self.wake_s = min(wake_s, (view.now.boot_s // _CHECK_S + 1) * _CHECK_S)


def _kind(view: View, job: Job) -> Hashable:
    """Return what jobs have in common that core and policy treat alike; None: unknown."""
    alike = view.need_of(job)
    if alike is None or job.target is not None or view.prefers(job):
        return None
    smact = job.estimate(Quantity.SMACT)
    return (
        alike,
        job.spec.uid,
        job.spec.max_slowdown,
        job.need_mib,
        job.memory_floor_mib,
        None if smact is None else (smact.value, smact.chip),
    )
