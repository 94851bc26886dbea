"""The waiting jobs in the order of service, with the limits of arrays and of jobs without a GPU.

Theory of operation
-------------------
At most `core.gpuless_at_once` of them run at a time, because they share the server's CPUs. The
limit is for all users together, and a job without a time limit may hold its place for ever. So a
user who runs none may start one beyond the limit. That stops no running job, keeps no place empty
for a user who may never come, and costs the server at most one job for each further user.

Invariants:
- A user who runs no job without a GPU never waits for the places of others.
- At most the limit and one for each further user run.
- While the limit is reached, `line` costs the users with such jobs waiting, not their jobs.

What a restart sees: nothing is stored. The counts follow from the attempts.

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

A job is in the queue if it could start: it waits, and is not held, paused, being estimated, or
waiting for other jobs or for its `--begin`. Of an array with a limit, only so many elements are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping

from radrm.core.records import Attempt, Job, Refusal
from radrm.core.state.queue.line import Places, Ranks, key_of, with_rank
from radrm.core.state.queue.lines import Lines, OrderKey, Verdicts
from radrm.core.state.queue.order import SafeOrder
from radrm.core.state.timers import ORDER_KEY, Timer

RULE = "gpuless"


class Gpuless:
    """The running jobs without a GPU, by user; and the line of those that wait."""

    def __init__(self, most: int, lines: Lines) -> None:
        self._most = most
        self.lines = lines
        self._uid_of: dict[int, int] = {}
        self._running: Counter[int] = Counter()

    def update(self, attempt: Attempt, job: Job | None) -> None:
        """Count an attempt while it is live, if its placement has no device."""
        had = self._uid_of.pop(attempt.job_id, None)
        if had is not None:
            self._running[had] -= 1
            if not self._running[had]:
                del self._running[had]
        if job is not None and attempt.ended is None and not attempt.placement.devices:
            self._uid_of[job.id] = job.spec.uid
            self._running[job.spec.uid] += 1

    def refuse(self, job: Job) -> Refusal | None:
        """Return why a waiting job without a GPU has no place now; None if it has one."""
        if self._has_place(job.spec.uid):
            return None
        running, mine = len(self._uid_of), self._running[job.spec.uid]
        runs = f"{running} jobs without a GPU run, {mine} of them of {job.spec.user}"
        why = f"{runs}; the limit is {self._most} (core.gpuless_at_once)"
        return Refusal(RULE, why, None, running + 1, self._most)

    def _has_place(self, uid: int) -> bool:
        # With a limit of 0 none runs.
        return len(self._uid_of) < self._most or (self._most > 0 and uid not in self._running)

    def line(self) -> Iterator[int]:
        """Yield the waiting jobs that have a place, in the order of service."""
        line = self.lines.gpuless
        if len(self._uid_of) < self._most:
            yield from line
            return
        firsts = (
            mine.head() for uid, mine in self.lines.gpuless.of_user.items() if self._has_place(uid)
        )
        keys = [(line.key_of(job_id), job_id) for job_id in firsts if job_id is not None]
        yield from [job_id for _, job_id in sorted(keys)]

    def head(self) -> int | None:
        """Return the first waiting job that has a place; None without one."""
        if len(self._uid_of) < self._most:
            return self.lines.gpuless.head()
        return next(self.line(), None)


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
        if self.at_once is None and self.max_fails is None:
            return [job.id], [job.id] * eligible  # it has a place for each
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
        verdicts: Verdicts,
    ) -> None:
        self.order = order
        self.lines = Lines(jobs, order.key, ranks if order.ranks else None, verdicts)
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
        if array_id is not None and not self.array(array_id).unfinished:
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

    def array(self, array_id: int) -> Array:
        """Return the array with this id; an empty one if none of its elements is unfinished."""
        return self.arrays.get(array_id) or Array(None, self.order.key)

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
