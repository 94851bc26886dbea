"""One array's elements: which have not ended, and which may be in the queue now.

`--array=0-99%4` lets four elements at a time be live or next in line. The others
stand aside here, in the order of service, so that a throttled array of any length
costs an event no more than a single job does.
"""

from __future__ import annotations

from radrm.core.records import Job
from radrm.core.waiting import OrderKey, WaitingQueue


class Array:
    def __init__(self, at_once: int | None, order_key: OrderKey) -> None:
        self.at_once = at_once
        self.unfinished: set[int] = set()
        self._inside: set[int] = set()
        self._aside = WaitingQueue(order_key)

    def put(self, job: Job, eligible: bool) -> bool:
        """Take in an element's changed record. True when it may stand in the queue.

        `eligible`: it waits, and nothing but the array's limit keeps it from the queue.
        """
        if job.state.final:
            self.unfinished.discard(job.id)
        else:
            self.unfinished.add(job.id)
        self._aside.discard(job.id)
        if not eligible and not job.state.live:
            self._inside.discard(job.id)
            return False
        if self.at_once is None:
            return eligible
        if eligible and job.id not in self._inside and len(self._inside) >= self.at_once:
            self._aside.put(job)
            return False
        self._inside.add(job.id)
        return eligible

    def next(self) -> int | None:
        """The element that now has a place in the queue, if there is one free."""
        if self.at_once is None or len(self._inside) >= self.at_once:
            return None
        job_id = self._aside.head()
        if job_id is not None:
            self._aside.discard(job_id)
            self._inside.add(job_id)
        return job_id

    def stands_aside(self, job_id: int) -> bool:
        """True for an element that waits only for others of its array to end."""
        return job_id in self._aside
