"""One array's elements: which have not ended, and which may be in the queue now.

`--array=0-99%4` lets four elements at a time be live or next in line. The others
stand aside here, in the order of service, so that a throttled array of any length
costs an event no more than a single job does.
"""

from __future__ import annotations

from radrm.core.records import Job
from radrm.core.state.waiting import OrderKey, WaitingQueue


class Array:
    """Its places go to the live elements, then to the first of those that could start, in the
    order of service: what came before does not count, so a restart changes nothing."""

    def __init__(self, at_once: int | None, order_key: OrderKey) -> None:
        self.at_once = at_once
        self.unfinished: set[int] = set()
        self._live: set[int] = set()
        self._ready = WaitingQueue(order_key)
        self._next: set[int] = set()
        """As many of the first of `_ready` as there are places left."""

    def put(self, job: Job, eligible: bool) -> tuple[list[int], list[int]]:
        """Take in an element's changed record. Who leaves the queue by that, and who enters.

        `eligible`: it waits, and nothing but the array's limit keeps it from the queue.
        """
        (self.unfinished.discard if job.state.final else self.unfinished.add)(job.id)
        (self._live.add if job.state.live else self._live.discard)(job.id)
        left = [job.id]
        entered: list[int] = []
        self._next.discard(job.id)
        self._ready.discard(job.id)
        if eligible:
            self._ready.put(job)
            if (self._ready.position(job.id) or 0) < len(self._next):
                self._next.add(job.id)
                entered.append(job.id)
        places = len(self._ready) if self.at_once is None else self.at_once - len(self._live)
        while len(self._next) > max(0, places):
            last = self._ready.at(len(self._next) - 1)
            self._next.discard(last)
            left.append(last)
        while len(self._next) < min(places, len(self._ready)):
            following = self._ready.at(len(self._next))
            self._next.add(following)
            entered.append(following)
        return left, [i for i in entered if i in self._next]

    def stands_aside(self, job_id: int) -> bool:
        """True for an element that waits only for others of its array to end."""
        return job_id in self._ready and job_id not in self._next
