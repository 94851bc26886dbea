"""The elements of one array: which have not ended, and which may be in the queue now.

Theory of operation
-------------------
`--array=0-99%4` gives an array four *places*. A live element has one. The free places go to
the first elements that could start, in the order of service: these are in the queue. All
others stand aside here. So a limited array of any length costs an event no more than a single
job, and jobs behind it pass.

Invariants:
- `_next` is the head of `_ready`, one element per free place. No other element is in the queue.
- Elements that are held, paused, being estimated or waiting for other jobs take no place.
- If more elements are live than there are places (after a requeue, say), none is next.

What may interleave: any change of an element's record. Each one goes through `put`, which
returns the elements that leave and enter the queue.

What a restart sees: nothing of this is stored. The places follow from the records alone, if
live elements are put first (`core/adoption.py`).
"""

from __future__ import annotations

from radrm.core.records import Job
from radrm.core.state.queue.waiting import OrderKey, WaitingQueue


class Array:
    """The elements of one array and their places."""

    def __init__(self, at_once: int | None, order_key: OrderKey) -> None:
        self.at_once = at_once
        self.unfinished: set[int] = set()
        self._live: set[int] = set()
        self._order_key = order_key
        self._ready = WaitingQueue()
        self._next: set[int] = set()
        """The elements in the queue: the first ones of `_ready`, one per free place."""

    def put(self, job: Job, eligible: bool) -> tuple[list[int], list[int]]:
        """Take in an element's changed record. Returns the ids that leave and enter the queue.

        `eligible`: it waits, and only the array's limit can keep it out of the queue.
        """
        (self.unfinished.discard if job.state.final else self.unfinished.add)(job.id)
        (self._live.add if job.state.live else self._live.discard)(job.id)
        left = [job.id]
        entered: list[int] = []
        self._next.discard(job.id)
        self._ready.discard(job.id)
        if eligible:
            self._ready.put(job, self._order_key(job))
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
        # The changed element may have entered as the last one, and left again.
        return left, [i for i in entered if i in self._next]

    def stands_aside(self, job_id: int) -> bool:
        """Return whether only the array's limit keeps an element out of the queue."""
        return job_id in self._ready and job_id not in self._next
