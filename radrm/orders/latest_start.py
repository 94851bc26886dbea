"""The latest start first: the due time less the run time that is left (least slack first).

Of two jobs with the same due time the longer one must start earlier.
"""

from __future__ import annotations

from dataclasses import dataclass

from radrm.core.records import Instant, Job
from radrm.core.rules import Order
from radrm.deadlines.remaining import remaining


@dataclass(frozen=True, slots=True)
class LatestStart(Order):
    """Sort jobs by their latest start: the due time less the expected run time.

    A job of which nothing is known needs no time, and its time limit counts where that is all that
    is known. Jobs without a due time are last, by their submission.
    """

    name: str = "latest-start"

    def key(self, job: Job, now: Instant) -> tuple[float, ...]:
        due_s = job.spec.due_s
        if due_s is None:
            return (1, 0.0, *job.place, job.id)
        left = remaining(job, None, now)
        return (0, due_s - (0.0 if left is None else left.value_s), *job.place, job.id)

    def bound(self, job: Job, now: Instant) -> str | None:
        if job.spec.due_s is None:
            return "it has no due time, so all jobs with one may pass it"
        return "jobs that must start earlier to be in time may pass it"
