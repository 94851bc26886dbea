"""Whether a job still improves: Algorithm 3 of SpeCon, on the losses that jobs report.

Theory of operation
-------------------
A job's *gain* is the change of its loss in one interval (Zheng's thesis, section 5.2.1, equation
5.1). A gain below `alpha`, and below the gain before, moves the job one step: progressing, then
watching, then converged. A gain above `alpha` makes it progressing again. Line 12 of the published
algorithm is a misprint; its text says what it means.

`judge_as_published` takes the loss as it is, at each interval. `judge` differs in this:

- The loss is smoothed, and divided by its largest fall so far. So one `alpha` fits losses of
  different kinds, and a loss that has not fallen yet says nothing.
- Without a new report there is no judgement. The gain is per `interval_s`, whatever time has
  passed between the two reports. So a job that reports once per epoch does not look converged.

What a restart sees: the notes, in the planner's state. A report of an earlier boot has no known
distance in time, so it only begins anew.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import fields

from radrm.rules import Attempt, Job, Progress, moment, plain_moment

PROGRESSING, WATCHING, CONVERGED = "progressing", "watching", "converged"

_SLOWER = {PROGRESSING: WATCHING, WATCHING: CONVERGED, CONVERGED: CONVERGED}
_SMOOTHING = 0.5
"""The weight of a new report in the smoothed loss and the rate."""


class Note(Struct):
    """What is known of the course of one job, as plain JSON can hold it.

    `at` is the moment of the last report (boot time, wall time, boot), `done_at` that of `done`.
    `gain` is the last gain, None before the first. `high` is the highest smoothed loss, `fall` the
    largest fall from there.
    `rate` is the part of all work that it does in a second; `begin_s` the seconds from its launch
    until it began to work. `since` and `weighed` are numbers, not times: they order the jobs by
    when they converged, and by when a move was last thought of.
    """

    serial: int
    category: str = PROGRESSING
    since: int = 0
    loss: float | None = None
    gain: float | None = None
    high: float | None = None
    fall: float = 0.0
    at: list[float | str | None] | None = None
    done: float | None = None
    done_at: list[float | str | None] | None = None
    rate: float | None = None
    begin_s: float | None = None
    moved: bool = False
    rebalanced: bool = False
    weighed: int = 0

    def plain(self) -> dict[str, object]:
        """Return it as a planner's state can hold it: without what is as at first."""
        values = ((name, getattr(self, name), first) for name, first in _FIRST)
        return {name: value for name, value, first in values if value != first}

    def begin(self, serial: int) -> None:
        """Follow a new attempt. A moved job is still converged; another one starts anew."""
        if not (self.moved or self.rebalanced):
            self.category = PROGRESSING
        self.serial = serial
        self.loss = self.gain = self.at = self.done = self.done_at = None
        self.rate = self.begin_s = None


_FIRST = tuple((each.name, each.default) for each in fields(Note))


def category_after(
    category: str, gain: float, before: float | None, alpha: float
) -> tuple[str, bool]:
    """Return a job's category after a gain, and whether it asks for a move (Algorithm 3)."""
    if before is not None and gain < before and gain < alpha:
        return _SLOWER[category], category == CONVERGED
    return (PROGRESSING if gain > alpha else category), False


def judge_as_published(note: Note, job: Job, alpha: float) -> bool:
    """Judge a job by its last loss, also if that is the one before. Returns whether it asks."""
    progress = job.progress
    if progress is None or progress.loss is None:
        return False
    before, note.loss = note.loss, progress.loss
    return before is not None and _judged(note, abs(progress.loss - before), alpha)


def judge(note: Note, job: Job, attempt: Attempt, alpha: float, interval_s: float) -> bool:
    """Judge a job by a new report. Returns whether it asks for a move."""
    progress = job.progress
    passed_s = None if progress is None else _note_report(note, progress)
    if passed_s is None or progress is None:
        return False
    if note.begin_s is None:
        note.begin_s = _begin_s(note, job, attempt, progress)
    if progress.loss is None:
        return False
    before = note.loss
    if before is None or note.high is None:
        note.loss = progress.loss
        note.high = progress.loss if note.high is None else max(note.high, progress.loss)
        return False
    note.loss = before + _SMOOTHING * (progress.loss - before)
    note.high = max(note.high, note.loss)
    note.fall = max(note.fall, note.high - note.loss)
    if not note.fall or not passed_s:
        return False
    return _judged(note, abs(note.loss - before) / note.fall * interval_s / passed_s, alpha)


def _judged(note: Note, gain: float, alpha: float) -> bool:
    note.category, asks = category_after(note.category, gain, note.gain, alpha)
    note.gain = gain
    return asks


def _note_report(note: Note, progress: Progress) -> float | None:
    """Note a report's moment and work; return the seconds since the one before.

    0 for the first one, and after a reboot. None: there is no new report.
    """
    at = progress.at
    since_s = None if note.at is None else at.since(moment(note.at))
    if since_s == 0:
        return None
    if since_s is not None and since_s < 0:
        since_s = None  # another boot, of which the records do not tell
    note.at = plain_moment(at)
    _note_work(note, progress)
    return since_s or 0.0


def _note_work(note: Note, progress: Progress) -> None:
    """Note the work done and the rate since the last report that told it."""
    before, at = note.done_at, progress.measured
    passed_s = None if before is None else at.since(moment(before))
    if passed_s == 0:
        return
    was, note.done, note.done_at = note.done, progress.work_done, plain_moment(at)
    if passed_s and passed_s > 0 and was is not None and note.done is not None:
        rate = max(0.0, note.done - was) / passed_s
        note.rate = rate if note.rate is None else note.rate + _SMOOTHING * (rate - note.rate)


def _begin_s(note: Note, job: Job, attempt: Attempt, progress: Progress) -> float | None:
    """Return the seconds from an attempt's launch until its work began; None: not known yet.

    It is the time of a report, less the time of the work done until then.
    """
    came_s = progress.measured.since(attempt.launched)
    if came_s is None or progress.work_done is None:
        return came_s
    if not note.rate:
        return None
    before = (job.saved and job.saved.work_done) or 0.0
    return max(0.0, came_s - max(0.0, progress.work_done - before) / note.rate)
