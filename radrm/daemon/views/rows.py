"""The rows of `status`: one job, or waiting elements of one array that are alike."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from msgspec import Struct

from radrm.core.records import Job
from radrm.core.words import JobState


class Row(Struct):
    """An unfinished job, or successive waiting elements of one array (up to `last`)."""

    job: Job
    position: int | None = None
    """The place of the job in its line, 1 for the head."""
    last: Job | None = None
    count: int = 1
    step: int = 1
    """The difference of successive indices."""

    def takes(self, job: Job) -> bool:
        """Add the array's next waiting element to the row. False if `job` is not that."""
        first, next_ = self.job.array, job.array
        if first is None or next_ is None or first.array_id != next_.array_id:
            return False
        mine, last = self.job, self.last or self.job
        alike = (
            mine.state is job.state is JobState.PENDING
            and last.array is not None
            and mine.pause == job.pause
            and self._follows(last.array.index, next_.index, job.id - last.id)
            and mine.held == job.held
            and mine.awaits_begin == job.awaits_begin
            and mine.spec.begin_s == job.spec.begin_s
            and mine.after == job.after
            and mine.spec.due_s == job.spec.due_s
        )
        if alike and last.array is not None:
            self.step = next_.index - last.array.index
            self.last, self.count = job, self.count + 1
        return alike

    def _follows(self, last: int, index: int, ids: int) -> bool:
        """True if no element is missing before this index: one whose id is not the next, with a
        larger step, may follow one that has ended."""
        if self.last is not None:
            return index - last == self.step
        return index - last == 1 or (index > last and ids == 1)

    @property
    def label(self) -> str:
        """As `12_[0-9]` or, with another step, `12_[0-8:2]`."""
        first, last = self.job.array, (self.last or self.job).array
        if first is None or last is None or self.last is None:
            return self.job.label
        step = "" if self.step == 1 else f":{self.step}"
        return f"{first.array_id}_[{first.index}-{last.index}{step}]"


class EndedRun(Struct, frozen=True):
    """A run of a job that has ended. The job may run again by now."""

    job_id: int
    run: int


Line: TypeAlias = "Row | int | EndedRun"
"""A row, or what has ended: a job by its id, or one run. The store has its record."""


def job_id(line: Line) -> int:
    if isinstance(line, EndedRun):
        return line.job_id
    return line if isinstance(line, int) else line.job.id


class Collapsing:
    """Appends lines to `lines`, with waiting elements of an array that are alike in one row."""

    def __init__(self, lines: list[Line]) -> None:
        self.lines = lines
        self._last: Row | None = None
        """The last row if it is of an array: a copy, which may grow."""

    def add(self, lines: Iterable[Line]) -> None:
        """Add the next lines in the order of display."""
        for line in lines:
            if not isinstance(line, Row) or line.job.array is None:
                self._last = None
                self.lines.append(line)
            elif self._last is None or not self._last.takes(line.job):
                self._last = Row(line.job, line.position)
                self.lines.append(self._last)
