"""The jobs that could start if there were room, in the order of service.

Theory of operation
-------------------
There are two lines: jobs for GPUs, and jobs without. Each is sorted by recovery queue,
priority, the order's key, and id. No job passes the head of its line.
So a job that no idle device in service could run must not be the head, and neither must one that
needs more CPUs or host memory than the nodes have. It stands *aside*, with the reason, and keeps
its sort key.

Whether a job stands aside depends only on its *need* (roles, size class of memory, mode, what the
nodes lack, which devices are reserved for others) and on the devices in service. So the verdict is
made once for each need, when its first job comes, and again when devices come, go or change
service.

A user with a limit (`state/users.py`) has places in the lines, for each number of GPUs apart: so
many jobs as could start at once. The user's other jobs stand aside until there is room.

Invariants:
- A job is in exactly one of `gpu`, `gpuless` and `aside`, or has no place; one in a line is also in
  its user's (`of_user`, for turns on MPS servers; `gpuless_of_user`). A job that is held, paused,
  being estimated or waiting for other jobs is in none of them; `State` ensures that.
- All jobs of one need are on the same side.
- An event costs the logarithm of the queue's length; a change of the devices costs the needs; a
  start or an end of a user with a limit costs the numbers of GPUs for which the user's jobs ask.

What may interleave: an order may return another key for a job at each call. So the key of a
job is kept until the job's record changes, or until the time that the order has named.

What a restart sees: nothing of this is stored. The lines follow from the records.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from radrm.core.records import Job, Refusal
from radrm.core.state.queue.line import (
    ID,
    ORDER_KEY,
    ByDue,
    Key,
    Places,
    RankedQueue,
    RankOf,
    WaitingQueue,
)

Line: TypeAlias = WaitingQueue | RankedQueue
OrderKey = Callable[[Job], Key]


def _line(rank_of: RankOf | None) -> Line:
    return WaitingQueue() if rank_of is None else RankedQueue(rank_of)


@dataclass(frozen=True, slots=True)
class Aside:
    """Why a job stands aside. `never`: why no known device could ever run it; None if one could."""

    refusal: Refusal
    never: str | None = None


@dataclass(slots=True, eq=False)
class _Alike:
    """The waiting jobs of one need, and why they stand aside."""

    members: set[int]
    aside: Aside | None
    line: Line
    """The line of all its jobs that do not stand aside."""


class Lines:
    """The line of jobs for GPUs, the line of jobs without, and the jobs that stand aside.

    A job without a GPU takes nothing that the head of the other line waits for, so it has a
    line of its own. `judge` returns why a job stands aside, None if it does not. It is called
    once for all jobs of the same need.
    """

    def __init__(
        self, jobs: Mapping[int, Job], order_key: OrderKey, rank_of: RankOf | None = None
    ) -> None:
        """`jobs` has the record of each job. `rank_of` returns a user's rank; None: users do not
        matter."""
        self.gpu = _line(rank_of)
        self.gpuless = _line(rank_of)
        self.aside = WaitingQueue()
        self.of_user: dict[int, WaitingQueue] = {}
        """The jobs of each user in the line for GPUs."""
        self.gpuless_of_user: dict[int, WaitingQueue] = {}
        """The jobs of each user in the line for jobs without."""
        self.changes = 0
        """How often a job has entered a line or left it."""
        self.judge: Callable[[Job], Aside | None] = lambda job: None
        self.never_on_nodes: Callable[[Job], str | None] = lambda job: None
        """Returns why the nodes can never give a job its CPUs and host memory."""
        self.room: Callable[[int, int], int | None] | None = None
        """Returns how many jobs of so many GPUs a user may start now, None for any number. None: no
        user has a limit."""
        self.barred: Callable[[Job], Hashable] | None = None
        """Returns the devices that are reserved for others before a job would end. None: none are
        reserved."""
        self.sizes: tuple[int, ...] = ()
        """Sizes of the known devices in MiB, ascending. Needs between two neighbours are alike."""
        self._rank_of = rank_of
        self._by_due: ByDue | None = None
        self._order_key = order_key
        self._alike: dict[Hashable, _Alike] = {}
        self._need_of: dict[int, Hashable] = {}
        self._uid_of: dict[int, int] = {}
        self._jobs = jobs
        self._places: dict[int, dict[int, Places]] = {}
        """By uid and number of GPUs: the jobs of users with a limit that do not stand aside."""
        self._class_of: dict[int, tuple[int, int]] = {}
        """The uid and the number of GPUs of each of these jobs."""

    @property
    def lines(self) -> tuple[Line, Line]:
        """The two lines: jobs for GPUs, and jobs without."""
        return self.gpu, self.gpuless

    def line_of_job(self, job: Job) -> Line:
        """Return the line that the job stands in, or stands aside from."""
        return self.gpu if job.spec.gpus else self.gpuless

    def put(self, job: Job) -> None:
        """Put a job into its line, or aside."""
        freed = self._remove(job.id)
        need = self._need(job)
        alike = self._alike.get(need)
        if alike is None:
            alike = self._alike[need] = _Alike(set(), self.judge(job), self.line_of_job(job))
        alike.members.add(job.id)
        self._need_of[job.id] = need
        self._uid_of[job.id] = job.spec.uid
        key = self._order_key(job)
        if alike.aside is not None:
            self.aside.put(job, key)
        else:
            self._enter(job, key)
        if freed is not None:
            self._fill(*freed)

    def discard(self, job_id: int) -> None:
        """Remove a job from its line, or from those aside."""
        freed = self._remove(job_id)
        if freed is not None:
            self._fill(*freed)

    def _remove(self, job_id: int) -> tuple[int, int] | None:
        """Remove a job. Returns whose places, and for how many GPUs, it was in, if in any."""
        need = self._need_of.pop(job_id, None)
        if need is None:
            return None
        alike = self._alike[need]
        alike.members.discard(job_id)
        if not alike.members:
            del self._alike[need]
        self.aside.discard(job_id)
        self._leave(alike.line, job_id)
        del self._uid_of[job_id]
        freed = self._class_of.pop(job_id, None)
        if freed is not None:
            self._places[freed[0]][freed[1]].discard(job_id)
        return freed

    def _enter(self, job: Job, key: Key) -> None:
        """Put a job that does not stand aside into its line, if its user has a place for it."""
        uid, gpus = job.spec.uid, job.gpus
        if self.room is None or self.room(uid, gpus) is None:
            self._join(job, key)
            return
        self._class_of[job.id] = uid, gpus
        if self._places.setdefault(uid, {}).setdefault(gpus, Places()).put(job, key):
            self._join(job, key)
        self._fill(uid, gpus)

    def _fill(self, uid: int, gpus: int) -> None:
        """Let so many jobs of a user into the line as could start at once."""
        places = self._places.get(uid, {}).get(gpus)
        if places is None or self.room is None:
            return
        self._exchange(places, *places.fill(self.room(uid, gpus)))
        if not len(places):
            del self._places[uid][gpus]
            if not self._places[uid]:
                del self._places[uid]

    def _exchange(self, places: Places, left: list[int], entered: list[int]) -> None:
        """Put those who have got a place into their line, and remove those who have lost one."""
        for job_id in left:
            self._leave(self.line_of_job(self._jobs[job_id]), job_id)
        for job_id in entered:
            key = places.key_of(job_id)
            assert key is not None
            self._join(self._jobs[job_id], key[ORDER_KEY])

    def _join(self, job: Job, key: Key) -> None:
        """Put a job into its line."""
        line = self.line_of_job(job)
        self.changes += 1
        line.put(job, key)
        self._of_user(line).setdefault(job.spec.uid, WaitingQueue()).put(job, key)
        if line is self.gpu and self._by_due is not None:
            self._by_due.put(job, key)

    def _leave(self, line: Line, job_id: int) -> None:
        """Remove a job from its line, if it is there."""
        self.changes += 1
        line.discard(job_id)
        if self._by_due is not None:
            self._by_due.discard(job_id)
        uid, of_user = self._uid_of[job_id], self._of_user(line)
        if uid in of_user:
            of_user[uid].discard(job_id)
            _drop_empty(of_user, uid)

    def use_changed(self, uid: int) -> None:
        """Give a user's places on after a change of what the user runs."""
        for gpus in list(self._places.get(uid, ())):
            self._fill(uid, gpus)

    def next_of_user(self, job: Job) -> int | None:
        """Return the first job of this one's user and number of GPUs, which has or gets the place
        that this one lacks; None if this one lacks none."""
        where = self._class_of.get(job.id)
        if where is None:
            return None
        places = self._places[where[0]][where[1]]
        return places.first() if places.stands_aside(job.id) else None

    def precedes(self, job_id: int, other_id: int) -> bool:
        """Return whether a job in a line is served before one in the same or the other line."""
        keys = [
            key
            for i in (job_id, other_id)
            for line in self.lines
            if (key := line.key_of(i)) is not None
        ]
        return len(keys) == 2 and keys[0] < keys[1]

    def why_aside(self, job_id: int) -> Aside | None:
        """Return why a job stands aside; None if it does not."""
        need = self._need_of.get(job_id)
        return None if need is None else self._alike[need].aside

    def by_due(self, job_of: Callable[[int], Job]) -> ByDue:
        """Return the line for GPUs by due time. It stays up to date; it may be replaced."""
        if self._by_due is None:
            self._by_due = ByDue(_line(self._rank_of))
            for job_id in self.gpu:
                job = job_of(job_id)
                self._by_due.put(job, self._order_key(job))
        return self._by_due

    # ------------------------------------------------------------- needs

    def need_of(self, job_id: int) -> Hashable | None:
        """Return what all jobs of one need have in common, by identity. None: in no line."""
        need = self._need_of.get(job_id)
        return None if need is None else self._alike[need]

    def judge_again(self, job_of: Callable[[int], Job]) -> None:
        """Decide again which needs stand aside, after a change of the devices in service."""
        for alike in self._alike.values():
            before, alike.aside = alike.aside, self.judge(job_of(next(iter(alike.members))))
            if (before is None) is not (alike.aside is None):
                self._move(alike, into_line=alike.aside is None)

    def resize(self, sizes: tuple[int, ...], job_of: Callable[[int], Job]) -> None:
        """Set the sizes of the devices, and classify all needs by them."""
        if sizes != self.sizes:
            self.sizes = sizes
            self.classify_again(job_of)

    def classify_again(self, job_of: Callable[[int], Job]) -> None:
        """Classify all needs again, after a change of the devices' sizes or of the nodes."""
        for job_id in list(self._need_of):
            self.put(job_of(job_id))

    def hopeless(self) -> Iterator[tuple[Hashable, str, set[int]]]:
        """Yield each need that no known device could ever serve, with the reason and its jobs."""
        for need, alike in self._alike.items():
            if alike.aside is not None and alike.aside.never is not None:
                yield need, alike.aside.never, alike.members

    def _need(self, job: Job) -> Hashable:
        """Return all that decides whether a job could start on a set of idle devices."""
        roles = tuple(
            (
                job.count(role) if job.counts else role.count_min,
                role.needs.gpus,
                role.needs.mig_profile,
                bisect_left(self.sizes, role.needs.gpu_memory_mib or 0),
            )
            for role in job.spec.roles
        )
        proven = bisect_left(self.sizes, job.memory_floor_mib or 0)
        estimated = bisect_left(self.sizes, job.need_mib or 0)
        spec = job.spec
        alone = job.own_device, spec.max_slowdown is not None, spec.sm_share
        wishes = spec.collocation, spec.gpu_types, alone, spec.time_limit_s is None
        # What a recovering job needs must fit in every case, so each is a need of its own.
        recovers = job.recovers and (job.id, job.by_policy)
        lacks = self.never_on_nodes(job), () if self.barred is None else self.barred(job)
        return roles, proven, estimated, wishes, recovers, lacks

    def _move(self, alike: _Alike, into_line: bool) -> None:
        """Move the jobs of one need into their line, or aside, with their old keys."""
        self.changes += 1
        line, job_ids = alike.line, alike.members
        if self.room is not None:
            self._move_limited(alike, into_line)
        source, target = (self.aside, line) if into_line else (line, self.aside)
        keys = source.take(job_ids)
        target.add(keys)
        uid_of, of_user = self._uid_of, self._of_user(line)
        if line is self.gpu:
            self._by_due = None  # made again when it is asked for
        for uid in {uid_of[key[ID]] for key in keys}:
            if into_line:
                mine = [key for key in keys if uid_of[key[ID]] == uid]
                of_user.setdefault(uid, WaitingQueue()).add(mine)
            else:
                of_user[uid].take(job_ids)
                _drop_empty(of_user, uid)

    def _move_limited(self, alike: _Alike, into_line: bool) -> None:
        """Move the jobs of users with limits, for which only those with a place are in the line."""
        assert self.room is not None
        gpus, of_user = self._jobs[next(iter(alike.members))].gpus, self._of_users(alike.members)
        for uid, job_ids in of_user.items():
            if self.room(uid, gpus) is None:
                continue
            if into_line:
                self._class_of.update(dict.fromkeys(job_ids, (uid, gpus)))
                places = self._places.setdefault(uid, {}).setdefault(gpus, Places())
                self._exchange(places, *places.add(self.aside.take(job_ids)))
            else:
                for job_id in job_ids:
                    del self._class_of[job_id]
                places = self._places[uid][gpus]
                left, keys = places.take(job_ids)
                self._exchange(places, left, [])
                self.aside.add(keys)
            self._fill(uid, gpus)

    def _of_users(self, job_ids: Collection[int]) -> dict[int, set[int]]:
        """Return these jobs by their users."""
        found: dict[int, set[int]] = {}
        for job_id in job_ids:
            found.setdefault(self._uid_of[job_id], set()).add(job_id)
        return found

    def _of_user(self, line: Line) -> dict[int, WaitingQueue]:
        """Return the jobs of each user in a line."""
        return self.of_user if line is self.gpu else self.gpuless_of_user

    def __contains__(self, job_id: int) -> bool:
        return job_id in self.gpu or job_id in self.gpuless

    def __len__(self) -> int:
        return len(self.gpu) + len(self.gpuless)


def _drop_empty(of_user: dict[int, WaitingQueue], uid: int) -> None:
    if not len(of_user[uid]):
        del of_user[uid]
