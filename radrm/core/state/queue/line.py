"""Jobs sorted by the order. Adding or removing one costs the logarithm of their number."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Collection, Iterator
from typing import Any, TypeAlias

from radrm.core.records import Job

Key: TypeAlias = "tuple[Any, ...]"
"""`(not recovering, -priority, the order's key, id, spec)`. Ids differ, so nothing behind them is
compared."""
ORDER_KEY, ID, SPEC = 2, -2, -1
"""The places in a key."""


def key_of(job: Job, order_key: Key) -> Key:
    """Return the sort key of a job with this key of the order."""
    return (not job.recovers, -job.spec.priority, order_key, job.id, job.spec)


class WaitingQueue:
    """Jobs sorted by recovery queue, priority, the order's key, and id."""

    def __init__(self) -> None:
        self._sorted: list[Key] = []
        self._key_of: dict[int, Key] = {}

    def put(self, job: Job, order_key: Key) -> None:
        """Add a job, or move it to the place of its changed record and key."""
        self.discard(job.id)
        key = key_of(job, order_key)
        self._key_of[job.id] = key
        insort(self._sorted, key)

    def discard(self, job_id: int) -> None:
        """Remove a job, if it is in the queue."""
        key = self._key_of.pop(job_id, None)
        if key is not None:
            del self._sorted[bisect_left(self._sorted, key)]

    def take(self, job_ids: Collection[int]) -> list[Key]:
        """Remove many jobs at once. Returns their keys, in order, for `add`."""
        taken = [key for key in self._sorted if key[ID] in job_ids]
        self._sorted = [key for key in self._sorted if key[ID] not in job_ids]
        self._key_of = {key[ID]: key for key in self._sorted}
        return taken

    def add(self, keys: list[Key]) -> None:
        """Add jobs that `take` removed from this or another queue, by their old keys."""
        self._sorted = sorted(self._sorted + keys)
        self._key_of.update({key[ID]: key for key in keys})

    def in_order(self) -> Iterator[Key]:
        """Yield the keys in their order."""
        return iter(self._sorted)

    def first_of(self, key: Key) -> Key | None:
        """Return the first key with the queue and priority of `key`; None if no key has them."""
        at = bisect_left(self._sorted, key[:ORDER_KEY])
        return self._sorted[at] if at < len(self._sorted) else None

    def before(self, key: Key, counts_as: Callable[[Key], Key]) -> int:
        """Return how many keys count as a smaller one. `counts_as` must keep their order."""
        return bisect_left(self._sorted, key, key=counts_as)

    def copy(self) -> WaitingQueue:
        """Return a copy that later changes of this queue do not change."""
        found = WaitingQueue()
        found._sorted = self._sorted.copy()
        found._key_of = self._key_of.copy()
        return found

    def position(self, job_id: int) -> int | None:
        """Return a job's place, 0 for the head; None if it is not in the queue."""
        key = self._key_of.get(job_id)
        return None if key is None else bisect_left(self._sorted, key)

    def key_of(self, job_id: int) -> Key | None:
        """Return a job's sort key; None if it is not in the queue."""
        return self._key_of.get(job_id)

    def head(self) -> int | None:
        """Return the id of the first job; None if the queue is empty."""
        return self._sorted[0][ID] if self._sorted else None

    def at(self, position: int) -> int:
        """Return the id of the job at a place; 0 is the head's."""
        job_id: int = self._sorted[position][ID]
        return job_id

    def __contains__(self, job_id: int) -> bool:
        return job_id in self._key_of

    def __len__(self) -> int:
        return len(self._sorted)

    def __iter__(self) -> Iterator[int]:
        for key in self._sorted:
            yield key[ID]
