"""The growth of a job: how fast its loss falls for the CPU time that it uses.

Theory of operation
-------------------
Zheng's thesis, section 4.1.3: P = |E(t) - E(t-1)| / seconds (4.1) is the progress of a job whose
loss is E, and G = P / R (4.2) its growth, where R is the mean part of the CPUs that it has used.
The thesis defines G for memory, block and network I/O as well; only CPUs are steered here.

`grow_as_published` takes the loss as it is, at each run. `grow` differs in this:

- The loss is smoothed, and divided by its largest fall so far: losses of different kinds cannot be
  added. G is smoothed, too.
- Without a new report there is no judgement, and P counts the seconds between two reports. So a
  job that reports once per epoch does not look converged.

What a restart sees: the notes, in the planner's state. Times are seconds since boot: no attempt
outlives its boot, so a planner forgets the notes of another one.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from operator import attrgetter

from radrm.core.records import Attempt, Instant, Job
from radrm.core.words import Quantity

NEW, WATCHING, COMPLETING = "new", "watching", "completing"

_SMOOTHING = 0.5
"""The weight of a new report in the smoothed loss and growth."""
_LEAST_PART = 0.001
"""A job that used less of the CPUs counts as if it had used this part."""
_LEAST_WORK = 0.005
"""The part of its work from which on a job's CPU time tells what the rest will take."""


@dataclass(slots=True)
class Growth:
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


_values = attrgetter(*(each.name for each in fields(Growth)))


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
    """Compute G from the last loss, also if that is the one before. Returns whether it is known."""
    progress = job.progress
    if progress is None or progress.loss is None:
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
