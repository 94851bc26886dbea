"""The line for GPUs in two parts: jobs with a due time, and the others in their order.

A planner that ranks jobs by their due times asks for it; until then nothing is kept.
"""

from __future__ import annotations

from radrm.core.records import Job
from radrm.core.state.queue.line import Key, WaitingQueue
from radrm.core.state.queue.ranked import RankedQueue


class ByDue:
    """Which jobs of a line have a due time. `undue`: an empty line for all others."""

    def __init__(self, undue: WaitingQueue | RankedQueue) -> None:
        self.due: set[int] = set()
        self.undue = undue
        self._touched: set[int] = set()

    def put(self, job: Job, key: Key) -> None:
        """Add a job of the line, with the order's key."""
        if job.spec.due_s is None:
            self.undue.put(job, key)
        else:
            self.due.add(job.id)
            self._touched.add(job.id)

    def discard(self, job_id: int) -> None:
        """Remove a job, if it is there."""
        if job_id in self.due:
            self.due.discard(job_id)
            self._touched.add(job_id)
        else:
            self.undue.discard(job_id)

    def take_touched(self) -> set[int]:
        """Return the jobs with due times that came, changed or left since the last call."""
        found, self._touched = self._touched, set()
        return found
