"""The elements of one array: which have not ended, and which may be in the queue now.

Theory of operation
-------------------
`--array=0-99%4` gives an array four *places*. A live element has one. The free places go to
the first elements that could start, in the order of service: these are in the queue. All
others stand aside here. So a limited array of any length costs an event no more than a single
job, and jobs behind it pass.

Invariants:
- The first elements of `_ready`, one per free place, are next. No other element is in the queue.
- Elements that are held, paused, being estimated or waiting for other jobs take no place.
- If more elements are live than there are places (after a requeue, say), none is next.
- While the array is stopped (`--max-fails`), none is next.

What may interleave: any change of an element's record. Each one goes through `put`, which
returns the elements that leave and enter the queue.

What a restart sees: nothing of this is stored. The places follow from the records alone, if
live elements are put first (`core/adoption.py`).
"""

from __future__ import annotations

from radrm.core.records import Job
from radrm.core.state.queue.places import Places
from radrm.core.state.queue.waiting import OrderKey


class Array:
    """The elements of one array and their places."""

    def __init__(
        self,
        at_once: int | None,
        order_key: OrderKey,
        max_fails: int | None = None,
        fails: int = 0,
    ) -> None:
        self.at_once = at_once
        self.max_fails = max_fails
        self.fails = fails
        """The failures that count, as the carrier's record has them."""
        self._carrier: int | None = None
        self.unfinished: set[int] = set()
        self._live: set[int] = set()
        self._order_key = order_key
        self._ready = Places()

    def put(self, job: Job, eligible: bool) -> tuple[list[int], list[int]]:
        """Take in an element's changed record. Returns the ids that leave and enter the queue.

        `eligible`: it waits, and only the array's limit can keep it out of the queue.
        """
        (self.unfinished.discard if job.state.final else self.unfinished.add)(job.id)
        (self._live.add if job.state.live else self._live.discard)(job.id)
        if job.array is not None and (job.array.fails or job.id == self._carrier):
            self.fails, self._carrier = job.array.fails, job.id
        self._ready.discard(job.id)
        mine = [job.id] if eligible and self._ready.put(job, self._order_key(job)) else []
        free = None if self.at_once is None else self.at_once - len(self._live)
        free = 0 if self.stopped else free
        left, entered = self._ready.fill(free)
        # The changed element may have entered as the last one, and left again.
        return [job.id, *left], [i for i in (*mine, *entered) if i not in left]

    @property
    def stopped(self) -> bool:
        """True if so many elements have failed that no other may start."""
        return self.max_fails is not None and self.fails >= self.max_fails

    def carrier(self) -> int | None:
        """Return the element whose record has the count: at best the last one, which ends last.

        None if all have ended.
        """
        if self._carrier not in self.unfinished:
            self._carrier = max(self.unfinished, default=None)
        return self._carrier

    def stands_aside(self, job_id: int) -> bool:
        """Return whether only the array's limit keeps an element out of the queue."""
        return self._ready.stands_aside(job_id)
