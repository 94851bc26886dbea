"""The jobs that could start if there were room, in the order in which they are served."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from radrm.core.records import Job
from radrm.core.words import Queue

OrderKey = Callable[[Job], "tuple[Any, ...]"]


class WaitingQueue:
    """Recovery queue first, then priority, then the order rule's key, then the id.

    Kept sorted: adding, removing and looking at the head cost the logarithm of
    the length, so that an event's cost does not grow with the queue.
    """

    def __init__(self, order_key: OrderKey) -> None:
        self._order_key = order_key
        self._sorted: list[tuple[Any, ...]] = []
        self._key_of: dict[int, tuple[Any, ...]] = {}

    def put(self, job: Job) -> None:
        """Add a job, or move it to where its changed record belongs."""
        self.discard(job.id)
        recovering = job.queue is Queue.RECOVERY
        key = (not recovering, -job.spec.priority, self._order_key(job), job.id)
        self._key_of[job.id] = key
        insort(self._sorted, key)

    def discard(self, job_id: int) -> None:
        key = self._key_of.pop(job_id, None)
        if key is not None:
            del self._sorted[bisect_left(self._sorted, key)]

    def position(self, job_id: int) -> int | None:
        """0 for the head; None for a job that is not in the queue."""
        key = self._key_of.get(job_id)
        return None if key is None else bisect_left(self._sorted, key)

    def head(self) -> int | None:
        return self._sorted[0][-1] if self._sorted else None

    def at(self, position: int) -> int:
        """The job at a place; 0 is the head's."""
        job_id: int = self._sorted[position][-1]
        return job_id

    def __contains__(self, job_id: int) -> bool:
        return job_id in self._key_of

    def __len__(self) -> int:
        return len(self._sorted)

    def __iter__(self) -> Iterator[int]:
        for key in self._sorted:
            yield key[-1]


class Lines:
    """Two lines beside each other: jobs for GPUs, and jobs that need none.

    Under a strict order nobody passes the head of a line. A job without a GPU takes
    nothing that the head of the other line waits for, so it stands in a line of its own.
    """

    def __init__(self, order_key: OrderKey) -> None:
        self.gpu = WaitingQueue(order_key)
        self.gpuless = WaitingQueue(order_key)
        self.users: Counter[int] = Counter()
        """How many jobs of each user stand in the line for GPUs."""
        self._uid_of: dict[int, int] = {}

    @property
    def lines(self) -> tuple[WaitingQueue, WaitingQueue]:
        return self.gpu, self.gpuless

    def of(self, job: Job) -> WaitingQueue:
        return self.gpu if job.spec.gpus else self.gpuless

    def put(self, job: Job) -> None:
        self.discard(job.id)
        self.of(job).put(job)
        if job.spec.gpus:
            self._uid_of[job.id] = job.spec.uid
            self.users[job.spec.uid] += 1

    def discard(self, job_id: int) -> None:
        uid = self._uid_of.pop(job_id, None)
        if uid is not None:
            self.users[uid] -= 1
            if not self.users[uid]:
                del self.users[uid]
        self.gpu.discard(job_id)
        self.gpuless.discard(job_id)

    def __contains__(self, job_id: int) -> bool:
        return job_id in self.gpu or job_id in self.gpuless

    def __len__(self) -> int:
        return len(self.gpu) + len(self.gpuless)
