"""Lines: jobs sorted by an order, by ranks of their users, and by due times.

Theory of operation: users' ranks
---------------------------------
A user's rank changes while nothing happens to the jobs: GPU time goes on. So each user's jobs are
sorted by themselves, and the users' lines are merged when the queue is read. A change of ranks
moves nothing. Between users of one rank the keys count as their turns say (`Order.turn`), which
keeps the order within a line.

Invariants:
- Jobs are in the order of recovery queue, priority, the user's rank, the order's key in the
  user's turn, and id.
- Within one step a rank changes only with the use of GPUs.
- The head costs the users with waiting jobs, a position this times the logarithm of their jobs;
  adding a job costs the logarithm of the user's jobs.

Theory of operation: places
---------------------------
An array with `%N` and a user with a limit have *places*. The first jobs in the order of service
have one each: these are *next*, and may be in the queue. So a line of any length costs an event no
more than its places change.

Invariant: after `fill`, the next jobs are the head of the line.

A planner that ranks jobs by their due times asks for a line in two parts, jobs with a due time and
the others; until then nothing of it is kept.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Collection, Iterator
from functools import partial
from heapq import merge
from itertools import islice
from typing import Any, TypeAlias

from radrm.core.records import Instant, Job, JobSpec
from radrm.core.state.queue.order import NO_TURN, Rank, SafeOrder
from radrm.core.state.users import Uses

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

    @property
    def is_empty(self) -> bool:
        return not self._sorted

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
        return iter(self._sorted)

    def first(self) -> Key:
        """Return the first key. The queue must not be empty."""
        return self._sorted[0]

    def first_of(self, key: Key) -> Key | None:
        """Return the first key with the queue and priority of `key`; None if no key has them."""
        at = bisect_left(self._sorted, key[:ORDER_KEY])
        return self._sorted[at] if at < len(self._sorted) else None

    def before(self, key: Key, counts_as: Callable[[Key], Key] | None = None) -> int:
        """Return how many keys are smaller, or count as a smaller one. `counts_as` must keep their
        order."""
        return bisect_left(self._sorted, key, key=counts_as)

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


RankOf = Callable[[JobSpec], Rank]


class Ranks:
    """The ranks of users at the time of the current step, each computed once."""

    def __init__(self, order: SafeOrder, uses: Uses, now: Callable[[], Instant]) -> None:
        self._order = order
        self._uses = uses
        self._now = now
        self._of: tuple[float, int] | None = None
        self._found: dict[int, Rank] = {}

    def __call__(self, spec: JobSpec) -> Rank:
        """Return the rank of the user that submitted this."""
        moment = (self._now().boot_s, self._uses.version)
        if moment != self._of:
            self._of = moment
            self._found.clear()
        found = self._found.get(spec.uid)
        if found is None:
            found = self._found[spec.uid] = self._order.rank(self._uses.of(spec))
        return found

    def without(self, job: Job, spec: JobSpec) -> Rank:
        """Return the rank of the user that submitted this, as if a live job had left its GPUs."""
        return self._order.rank(self._uses.without(job, spec))


class Line:
    """Jobs in the order of service, sorted user by user. Users may have ranks."""

    def __init__(self, rank_of: RankOf | None) -> None:
        """`rank_of` None: users do not matter."""
        self._rank_of = rank_of
        self.of_user: dict[int, WaitingQueue] = {}
        """The jobs of each user, by uid."""
        self._specs: dict[int, JobSpec] = {}
        """The spec of one of each user's jobs, by uid."""
        self._uid_of: dict[int, int] = {}
        self._first: tuple[list[Rank], int | None] | None = None
        """The head under these ranks; None: the line has changed since."""

    def put(self, job: Job, order_key: Key) -> None:
        """Add a job, or move it to the place of its changed record and key."""
        if job.id in self._uid_of:
            self.discard(job.id)
        self._of(job.spec).put(job, order_key)
        self._uid_of[job.id] = job.spec.uid

    def discard(self, job_id: int) -> None:
        """Remove a job, if it is in the line."""
        uid = self._uid_of.pop(job_id, None)
        if uid is not None:
            self.of_user[uid].discard(job_id)
            self._drop_empty(uid)

    def take(self, job_ids: Collection[int]) -> list[Key]:
        """Remove many jobs at once. Returns their keys for `add`."""
        uids = {self._uid_of[job_id] for job_id in job_ids if job_id in self._uid_of}
        self._uid_of = {i: uid for i, uid in self._uid_of.items() if i not in job_ids}
        taken = [key for uid in uids for key in self.of_user[uid].take(job_ids)]
        for uid in uids:
            self._drop_empty(uid)
        return taken

    def add(self, keys: list[Key]) -> None:
        """Add jobs that `take` removed from this or another queue, by their old keys."""
        self._uid_of.update({key[ID]: key[SPEC].uid for key in keys})
        for spec in {key[SPEC].uid: key[SPEC] for key in keys}.values():
            self._of(spec).add([key for key in keys if key[SPEC].uid == spec.uid])

    def key_of(self, job_id: int) -> Key | None:
        """Return a job's sort key; None if it is not in the line."""
        uid = self._uid_of.get(job_id)
        if uid is None:
            return None
        key = self.of_user[uid].key_of(job_id)
        assert key is not None
        if self._rank_of is None:
            return key
        return with_rank(key, self._rank_of(self._specs[uid]), self.of_user[uid].first_of(key))

    def position(self, job_id: int) -> int | None:
        """Return a job's place, 0 for the head; None if it is not in the line."""
        found, key = 0, self.key_of(job_id)
        if key is None:
            return None
        for uid, mine in self.of_user.items():
            counts_as = None
            if self._rank_of is not None:
                rank = self._rank_of(self._specs[uid])
                counts_as = partial(with_rank, rank=rank, first=mine.first_of(key))
            found += mine.before(key, counts_as)
        return found

    def head(self) -> int | None:
        """Return the id of the first job; None if the line is empty."""
        rank_of = self._rank_of
        ranks = [] if rank_of is None else [rank_of(spec) for spec in self._specs.values()]
        if self._first is None or self._first[0] != ranks:
            firsts = [mine.first() for mine in self.of_user.values()]
            if rank_of is not None:
                firsts = [with_rank(key, r) for key, r in zip(firsts, ranks, strict=True)]
            self._first = ranks, min(firsts)[ID] if firsts else None
        return self._first[1]

    def ids(self) -> Iterator[int]:
        """Yield the ids of all jobs, in no order that matters: that costs less."""
        return iter(self._uid_of)

    def __contains__(self, job_id: int) -> bool:
        return job_id in self._uid_of

    def __len__(self) -> int:
        return len(self._uid_of)

    def __iter__(self) -> Iterator[int]:
        rank_of, lines = self._rank_of, [mine.in_order() for mine in self.of_user.values()]
        if rank_of is not None:
            users = zip(self.of_user.values(), self._specs.values(), strict=True)
            lines = [_ranked(mine, rank_of(spec)) for mine, spec in users]
        for key in merge(*lines):
            yield key[ID]

    def _of(self, spec: JobSpec) -> WaitingQueue:
        """Return the jobs of a user, to which some are added now."""
        self._first = None
        mine = self.of_user.get(spec.uid)
        if mine is None:
            mine, self._specs[spec.uid] = WaitingQueue(), spec
            self.of_user[spec.uid] = mine
        return mine

    def _drop_empty(self, uid: int) -> None:
        """Forget a user of whom jobs were removed now, if none is left."""
        self._first = None
        if self.of_user[uid].is_empty:
            del self.of_user[uid], self._specs[uid]


def with_rank(key: Key, rank: Rank, first: Key | None = None) -> Key:
    """Return the key of a job whose user has this rank. `first`: the key of the user's first job
    of the same queue and priority; None: this one."""
    recovering, priority, order_key, *rest = key
    turn = _in_turn(order_key, rank, order_key if first is None else first[ORDER_KEY])
    return (recovering, priority, rank.rank, turn, *rest)


def _in_turn(order_key: Key, rank: Rank, first: Key) -> Key:
    """Return how the order's key counts beside those of others. One without two numbers in front
    counts as it is."""
    numbers = None if rank[1:] == NO_TURN else _numbers(order_key)
    if numbers is None:
        return order_key
    tier, size = numbers
    its_tier, its_size = _numbers(first) or numbers
    least = max(size, its_size) if its_tier < rank.least else size
    # The key behind keeps the order of one user's jobs where these are equal.
    return 0, ((1, max(tier, rank.least)), (1, least * rank.factor), *order_key[1])


def _numbers(order_key: Key) -> tuple[float, float] | None:
    """Return the two numbers with which a key of an order begins; None if it does not."""
    if order_key[0] != 0 or len(order_key[1]) < 2:
        return None
    (kind, tier), (its_kind, size) = order_key[1][:2]
    return (tier, size) if kind == its_kind == 1 else None


def _ranked(line: WaitingQueue, rank: Rank) -> Iterator[Key]:
    first: Key | None = None
    for key in line.in_order():
        if first is None or first[:ORDER_KEY] != key[:ORDER_KEY]:
            first = key
        yield with_rank(key, rank, first)


class Places:
    """A line of jobs, and which of them have a place."""

    def __init__(self) -> None:
        self._line = WaitingQueue()
        self._next: set[int] = set()

    def put(self, job: Job, order_key: Key) -> bool:
        """Add a job that is not in the line. Returns whether it is next, until `fill`."""
        self._line.put(job, order_key)
        is_next = (self._line.position(job.id) or 0) < len(self._next)
        if is_next:
            self._next.add(job.id)
        return is_next

    def discard(self, job_id: int) -> None:
        """Remove a job, if it is in the line. Its place is given on by `fill`."""
        self._next.discard(job_id)
        self._line.discard(job_id)

    def fill(self, places: int | None) -> tuple[list[int], list[int]]:
        """Give so many places (None: one for each job). Returns who loses one, and who gets one."""
        wanted = len(self._line) if places is None else max(0, min(places, len(self._line)))
        left: list[int] = []
        entered: list[int] = []
        while len(self._next) > wanted:
            left.append(self._line.at(len(self._next) - 1))
            self._next.discard(left[-1])
        while len(self._next) < wanted:
            entered.append(self._line.at(len(self._next)))
            self._next.add(entered[-1])
        return left, entered

    def take(self, job_ids: Collection[int]) -> tuple[list[int], list[Key]]:
        """Remove many jobs at once. Returns who loses a place, and all keys for `add`."""
        left = sorted(self._next.intersection(job_ids))
        self._next.difference_update(job_ids)
        return left, self._line.take(job_ids)

    def add(self, keys: list[Key]) -> tuple[list[int], list[int]]:
        """Add many jobs, by their old keys. Returns who loses a place, and who gets one."""
        self._line.add(keys)
        before, self._next = self._next, set(islice(self._line, len(self._next)))
        return sorted(before - self._next), sorted(self._next - before)

    def key_of(self, job_id: int) -> Key | None:
        """Return a job's sort key; None if it is not in the line."""
        return self._line.key_of(job_id)

    def stands_aside(self, job_id: int) -> bool:
        """Return whether a job of the line has no place."""
        return job_id in self._line and job_id not in self._next

    def first(self) -> int | None:
        """Return the id of the first job; None if the line is empty."""
        return self._line.head()

    def __len__(self) -> int:
        return len(self._line)


class ByDue:
    """Which jobs of a line have a due time. `without_due`: an empty line for all others."""

    def __init__(self, without_due: Line) -> None:
        self.due: set[int] = set()
        self.without_due = without_due
        self._touched: set[int] = set()

    def put(self, job: Job, key: Key) -> None:
        """Add a job of the line, with the order's key."""
        if job.spec.due_s is None:
            self.without_due.put(job, key)
        else:
            self.due.add(job.id)
            self._touched.add(job.id)

    def discard(self, job_id: int) -> None:
        if job_id in self.due:
            self.due.discard(job_id)
            self._touched.add(job_id)
        else:
            self.without_due.discard(job_id)

    def take_touched(self) -> set[int]:
        """Return the jobs with due times that came, changed or left since the last call."""
        found, self._touched = self._touched, set()
        return found
