"""The first jobs of a sorted line, one per place; all others stand aside.

Theory of operation
-------------------
An array with `%N` and a user with a limit have *places*. The first jobs in the order of service
have one each: these are *next*, and may be in the queue. So a line of any length costs an event no
more than its places change.

Invariant: after `fill`, the next jobs are the head of the line.
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import islice

from radrm.core.records import Job
from radrm.core.state.queue.line import Key, WaitingQueue


class Places:
    """A line of jobs, and which of them have a place."""

    def __init__(self) -> None:
        self._line = WaitingQueue()
        self._next: set[int] = set()

    def put(self, job: Job, order_key: Key) -> bool:
        """Add a job that is not in the line. Returns whether it is next, until `fill`."""
        self._line.put(job, order_key)
        is_next = (self._line.position(job.id) or 0) < len(self._next)
        if is_next:
            self._next.add(job.id)
        return is_next

    def discard(self, job_id: int) -> None:
        """Remove a job, if it is in the line. Its place is given on by `fill`."""
        self._next.discard(job_id)
        self._line.discard(job_id)

    def fill(self, places: int | None) -> tuple[list[int], list[int]]:
        """Give so many places (None: one for each job). Returns who loses one, and who gets one."""
        wanted = len(self._line) if places is None else max(0, min(places, len(self._line)))
        left: list[int] = []
        entered: list[int] = []
        while len(self._next) > wanted:
            left.append(self._line.at(len(self._next) - 1))
            self._next.discard(left[-1])
        while len(self._next) < wanted:
            entered.append(self._line.at(len(self._next)))
            self._next.add(entered[-1])
        return left, entered

    def take(self, job_ids: Collection[int]) -> tuple[list[int], list[Key]]:
        """Remove many jobs at once. Returns who loses a place, and all keys for `add`."""
        left = sorted(self._next.intersection(job_ids))
        self._next.difference_update(job_ids)
        return left, self._line.take(job_ids)

    def add(self, keys: list[Key]) -> tuple[list[int], list[int]]:
        """Add many jobs, by their old keys. Returns who loses a place, and who gets one."""
        self._line.add(keys)
        before, self._next = self._next, set(islice(self._line, len(self._next)))
        return sorted(before - self._next), sorted(self._next - before)

    def key_of(self, job_id: int) -> Key | None:
        """Return a job's sort key; None if it is not in the line."""
        return self._line.key_of(job_id)

    def stands_aside(self, job_id: int) -> bool:
        """Return whether a job of the line has no place."""
        return job_id in self._line and job_id not in self._next

    def first(self) -> int | None:
        """Return the id of the first job; None if the line is empty."""
        return self._line.head()

    def __len__(self) -> int:
        return len(self._line)
