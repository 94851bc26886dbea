"""The queue: the lines, the limits of arrays, and the times at which keys change.

A job is in the queue if it could start: it waits, and is not held, paused, being estimated, or
waiting for other jobs or for its `--begin`. Of an array with a limit, only so many elements are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set

from radrm.core.records import Job
from radrm.core.state.queue.arrays import Array
from radrm.core.state.queue.gpuless import Gpuless
from radrm.core.state.queue.line import key_of
from radrm.core.state.queue.ranked import Ranks, with_rank
from radrm.core.state.queue.safe_order import SafeOrder
from radrm.core.state.queue.waiting import Lines
from radrm.core.state.timers import ORDER_KEY, Timer

_MOST_FAILS = 1000


class JobQueue:
    """Puts each job where its record says. `jobs`: the unfinished jobs by id."""

    def __init__(
        self,
        order: SafeOrder,
        jobs: Mapping[int, Job],
        wake: Callable[[Timer], None],
        ranks: Ranks,
        gpuless_at_once: int,
    ) -> None:
        self.order = order
        self.lines = Lines(jobs, order.key, ranks if order.ranks else None)
        self.gpuless = Gpuless(gpuless_at_once, self.lines)
        self.arrays: dict[int, Array] = {}
        """Arrays with unfinished elements, by the id of the array."""
        self._fails: dict[int, int] = {}
        """The failures of the latest arrays whose elements have all ended: more may come, for a
        user's limit of queued jobs takes a long array in by parts. A restart forgets these."""
        self._ranks = ranks
        self._jobs = jobs
        self._wake = wake
        self._changes_s: dict[int, float] = {}
        """Boot-time second at which the key of a waiting job changes, by id."""

    def update(self, job: Job) -> None:
        """Put a job that could start into the queue, and remove any other from it."""
        aside = job.held or job.awaits_begin or job.estimating or job.after or job.pause is not None
        eligible = job.state.waiting and not aside
        array = self._array_of(job)
        left, entered = array.put(job, eligible) if array is not None else ([job.id], [])
        for job_id in left:
            self.lines.discard(job_id)
        for job_id in entered if array is not None else [job.id] * eligible:
            self.lines.put(self._jobs[job_id])
        self._note_change(job.id, self.order.changes_s(job) if eligible else None)

    def forget(self, job: Job) -> None:
        """Remove an ended job from the indices."""
        self.order.without.discard(job.id)
        array_id = job.array.array_id if job.array is not None else None
        if array_id is not None and not self.unfinished(array_id):
            array = self.arrays.pop(array_id, None)
            if array is not None and array.fails:
                self._fails[array_id] = array.fails
            if len(self._fails) > _MOST_FAILS:
                del self._fails[next(iter(self._fails))]

    def _array_of(self, job: Job) -> Array | None:
        """Return the array of an element, made on first use; None for another job."""
        if job.array is None:
            return None
        found = self.arrays.get(job.array.array_id)
        if found is None:
            # One that runs again brings no failures with it.
            fails = self._fails.pop(job.array.array_id, 0) if job.requeued is None else 0
            found = Array(job.array.at_once, self.order.key, job.array.max_fails, fails)
            self.arrays[job.array.array_id] = found
        return found

    def fails(self, array_id: int) -> int:
        """Return how many failures of an array's elements count."""
        array = self.arrays.get(array_id)
        return array.fails if array is not None else 0

    def note_fails(self, array_id: int, fails: int) -> None:
        """Remember the failures of an array whose elements have all ended."""
        if array_id in self.arrays:
            self.arrays[array_id].fails = fails

    def stopped(self, array_id: int) -> bool:
        """Return whether an array's waiting elements are held after failures."""
        array = self.arrays.get(array_id)
        return array is not None and array.stopped

    def carrier(self, array_id: int) -> int | None:
        """Return the unfinished element that has the count of failures; None if all have ended."""
        array = self.arrays.get(array_id)
        return array.carrier() if array is not None else None

    def unfinished(self, array_id: int) -> Set[int]:
        """Return the ids of an array's unfinished elements; empty if the array is unknown."""
        array = self.arrays.get(array_id)
        return array.unfinished if array is not None else frozenset()

    def precedes_returned(self, job: Job, returned: Job) -> bool:
        """Return whether a job would be served before a live one, were that back in its queue.

        `returned`: the live job's record then.
        """
        keys = []
        for each in (job, returned):
            key = key_of(each, self.order.key(each))
            ranks = self.order.ranks
            keys.append(with_rank(key, self._ranks.without(returned, each.spec)) if ranks else key)
        return keys[0] < keys[1]

    # ------------------------------------------------------------- keys

    def retry_keys(self) -> None:
        """Compute the order's key again for the jobs for which it failed."""
        without, self.order.without = self.order.without, set()
        for job_id in sorted(without):
            if job_id in self._jobs:
                self.update(self._jobs[job_id])

    def renew_key(self, timer: Timer) -> bool:
        """Compute a job's key again at a due timer. Returns whether the job is now first."""
        if not self.is_wanted(timer):
            return False
        del self._changes_s[timer.job_id]
        self.update(self._jobs[timer.job_id])
        return timer.job_id in (self.lines.gpu.head(), self.gpuless.head())

    def is_wanted(self, timer: Timer) -> bool:
        """Return whether a timer tells when a key changes. Old ones stay when that is put off."""
        return self.changes_s(timer.job_id) == timer.boot_s

    def changes_s(self, job_id: int) -> float | None:
        """Return the boot-time second at which a waiting job's key changes; None if it does not."""
        return self._changes_s.get(job_id)

    def set_timers(self) -> None:
        """Set the timers of all keys, after a restart."""
        for job_id, changes_s in self._changes_s.items():
            self._wake(Timer(changes_s, ORDER_KEY, job_id))

    def _note_change(self, job_id: int, changes_s: float | None) -> None:
        if changes_s is None:
            self._changes_s.pop(job_id, None)
        elif self._changes_s.get(job_id) != changes_s:
            self._changes_s[job_id] = changes_s
            self._wake(Timer(changes_s, ORDER_KEY, job_id))
