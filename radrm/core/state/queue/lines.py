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

What is known of a waiting job is one record (`_Waiting`): the jobs of the same need, the user, and
whether it counts for the user's places. The lines and the set aside follow from it and from the
verdict on the need: `put` and `_remove` are the only ways in and out, and a verdict that changes
moves all jobs of a need (`_move`). A line sorts its jobs user by user (`Line`).

Invariants:
- A job is in exactly one of `gpu`, `gpuless` and `aside`, or has no place. A job that is held,
  paused, being estimated or waiting for other jobs is in none of them; `State` ensures that.
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

from msgspec import Struct

from radrm.core.records import Job, Refusal
from radrm.core.state.queue.line import (
    ORDER_KEY,
    ByDue,
    Key,
    Line,
    Places,
    RankOf,
    WaitingQueue,
)

OrderKey = Callable[[Job], Key]


class Aside(Struct, frozen=True):
    """Why a job stands aside. `never`: why no known device could ever run it; None if one could."""

    refusal: Refusal
    never: str | None = None


def _nothing(job: Job) -> None:
    return None


class Verdicts(Struct, frozen=True):
    """What the lines ask the rest of the core.

    `judge` returns why a job stands aside, None if it does not. It is called once for all jobs of
    the same need. `never_on_nodes` returns why the nodes can never give a job its CPUs and host
    memory. `room` returns how many jobs of so many GPUs a user may start now, None for any number;
    None: no user has a limit.
    """

    judge: Callable[[Job], Aside | None] = _nothing
    never_on_nodes: Callable[[Job], str | None] = _nothing
    room: Callable[[int, int], int | None] | None = None


class _Need(Struct, eq=False):
    """The waiting jobs of one need, and why they stand aside."""

    facts: Hashable
    members: set[int]
    aside: Aside | None
    line: Line
    """The line of all its jobs that do not stand aside."""


class _Waiting(Struct, eq=False):
    """A waiting job. `limited`: it counts for its user's places for so many GPUs."""

    need: _Need
    uid: int
    gpus: int
    limited: bool = False


class Lines:
    """The line of jobs for GPUs, the line of jobs without, and the jobs that stand aside.

    A job without a GPU takes nothing that the head of the other line waits for, so it has a
    line of its own.
    """

    def __init__(
        self,
        jobs: Mapping[int, Job],
        order_key: OrderKey,
        rank_of: RankOf | None,
        verdicts: Verdicts,
    ) -> None:
        """`jobs` has the record of each job. `rank_of` returns a user's rank; None: users do not
        matter."""
        self.verdicts = verdicts
        self.aside = WaitingQueue()
        self.changes = 0
        """How often a job has entered a line or left it."""
        self.sizes: tuple[int, ...] = ()
        """Sizes of the known devices in MiB, ascending. Needs between two neighbours are alike."""
        self._barred: Callable[[Job], Hashable] | None = None
        self._jobs, self._order_key, self._rank_of = jobs, order_key, rank_of
        self.gpu, self.gpuless = Line(rank_of), Line(rank_of)
        self._by_due: ByDue | None = None
        self._waiting: dict[int, _Waiting] = {}
        self._needs: dict[Hashable, _Need] = {}
        self._places: dict[int, dict[int, Places]] = {}
        """By uid and number of GPUs: the jobs of users with a limit that do not stand aside."""

    @property
    def lines(self) -> tuple[Line, Line]:
        """The two lines: jobs for GPUs, and jobs without."""
        return self.gpu, self.gpuless

    def line_of_job(self, job: Job) -> Line:
        """Return the line that the job stands in, or stands aside from."""
        return self.gpu if job.spec.gpus else self.gpuless

    def put(self, job: Job) -> None:
        """Put a job into its line, or aside."""
        before = self._remove(job.id)
        facts = self._facts(job)
        need = self._needs.get(facts)
        if need is None:
            aside, line = self.verdicts.judge(job), self.line_of_job(job)
            need = self._needs[facts] = _Need(facts, set(), aside, line)
        need.members.add(job.id)
        waiting = self._waiting[job.id] = _Waiting(need, job.spec.uid, job.gpus)
        key = self._order_key(job)
        if need.aside is not None:
            self.aside.put(job, key)
        else:
            self._enter(job, waiting, key)
        if before is not None and before.limited:
            self._fill(before.uid, before.gpus)

    def discard(self, job_id: int) -> None:
        """Remove a job from its line, or from those aside."""
        before = self._remove(job_id)
        if before is not None and before.limited:
            self._fill(before.uid, before.gpus)

    def _remove(self, job_id: int) -> _Waiting | None:
        """Remove a job, and return what is known of it. Its user's place is given on by `_fill`."""
        found = self._waiting.pop(job_id, None)
        if found is None:
            return None
        need = found.need
        need.members.discard(job_id)
        if not need.members:
            del self._needs[need.facts]
        self.aside.discard(job_id)
        self._leave(need.line, job_id)
        if found.limited:
            self._places[found.uid][found.gpus].discard(job_id)
        return found

    def _enter(self, job: Job, waiting: _Waiting, key: Key) -> None:
        """Put a job that does not stand aside into its line, if its user has a place for it."""
        uid, gpus, room = waiting.uid, waiting.gpus, self.verdicts.room
        if room is None or room(uid, gpus) is None:
            self._join(job, key)
            return
        waiting.limited = True
        if self._places.setdefault(uid, {}).setdefault(gpus, Places()).put(job, key):
            self._join(job, key)
        self._fill(uid, gpus)

    def _fill(self, uid: int, gpus: int) -> None:
        """Let so many jobs of a user into the line as could start at once."""
        places, room = self._places.get(uid, {}).get(gpus), self.verdicts.room
        if places is None or room is None:
            return
        self._exchange(places, *places.fill(room(uid, gpus)))
        if not len(places):
            del self._places[uid][gpus]
            if not self._places[uid]:
                del self._places[uid]

    def _exchange(self, places: Places, left: list[int], entered: list[int]) -> None:
        """Put those who have got a place into their line, and remove those who have lost one."""
        for job_id in left:
            self._leave(self._waiting[job_id].need.line, job_id)
        for job_id in entered:
            key = places.key_of(job_id)
            assert key is not None
            self._join(self._jobs[job_id], key[ORDER_KEY])

    def _join(self, job: Job, key: Key) -> None:
        line = self.line_of_job(job)
        self.changes += 1
        line.put(job, key)
        if line is self.gpu and self._by_due is not None:
            self._by_due.put(job, key)

    def _leave(self, line: Line, job_id: int) -> None:
        self.changes += 1
        line.discard(job_id)
        if self._by_due is not None:
            self._by_due.discard(job_id)

    def use_changed(self, uid: int) -> None:
        """Give a user's places on after a change of what the user runs."""
        for gpus in list(self._places.get(uid, ())):
            self._fill(uid, gpus)

    def next_of_user(self, job: Job) -> int | None:
        """Return the first job of this one's user and number of GPUs, which has or gets the place
        that this one lacks; None if this one lacks none."""
        found = self._waiting.get(job.id)
        if found is None or not found.limited:
            return None
        places = self._places[found.uid][found.gpus]
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
        found = self._waiting.get(job_id)
        return None if found is None else found.need.aside

    def by_due(self) -> ByDue:
        """Return the line for GPUs by due time. It stays up to date; it may be replaced."""
        if self._by_due is None:
            self._by_due = ByDue(Line(self._rank_of))
            for job_id in self.gpu:
                job = self._jobs[job_id]
                self._by_due.put(job, self._order_key(job))
        return self._by_due

    # ------------------------------------------------------------- needs

    def need_of(self, job_id: int) -> Hashable | None:
        """Return what all jobs of one need have in common, by identity. None: in no line."""
        found = self._waiting.get(job_id)
        return None if found is None else found.need

    def judge_again(self) -> None:
        """Decide again which needs stand aside, after a change of the devices in service."""
        for need in self._needs.values():
            first = self._jobs[next(iter(need.members))]
            before, need.aside = need.aside, self.verdicts.judge(first)
            if (before is None) is not (need.aside is None):
                self._move(need, into_line=need.aside is None)

    def resize(self, sizes: tuple[int, ...]) -> None:
        """Set the sizes of the devices, and classify all needs by them."""
        if sizes != self.sizes:
            self.sizes = sizes
            self.classify_again()

    def bar(self, barred: Callable[[Job], Hashable] | None) -> None:
        """Classify all needs by the devices that are reserved for others before a job would end.

        `barred` returns these; None: none are reserved.
        """
        self._barred = barred
        self.classify_again()

    def classify_again(self) -> None:
        """Classify all needs again, after a change of the devices' sizes or of the nodes."""
        for job_id in list(self._waiting):
            self.put(self._jobs[job_id])

    def hopeless(self) -> Iterator[tuple[Hashable, str, set[int]]]:
        """Yield each need that no known device could ever serve, with the reason and its jobs."""
        for facts, need in self._needs.items():
            if need.aside is not None and need.aside.never is not None:
                yield facts, need.aside.never, need.members

    def _facts(self, job: Job) -> Hashable:
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
        need_mib, spec = job.need_mib, job.spec
        estimated = None if need_mib is None else bisect_left(self.sizes, need_mib)
        alone = job.own_device, spec.max_slowdown is not None, spec.sm_share
        wishes = spec.collocation, spec.gpu_types, alone, spec.time_limit_s is None
        # What a recovering job needs must fit in every case, so each is a need of its own.
        recovers = job.recovers and (job.id, job.by_policy)
        barred = () if self._barred is None else self._barred(job)
        lacks = self.verdicts.never_on_nodes(job), barred
        return roles, proven, estimated, wishes, recovers, lacks

    def _move(self, need: _Need, into_line: bool) -> None:
        """Move the jobs of one need into their line, or aside, with their old keys."""
        self.changes += 1
        line, job_ids = need.line, need.members
        self._move_limited(need, into_line)
        if into_line:
            line.add(self.aside.take(job_ids))
        else:
            self.aside.add(line.take(job_ids))
        if line is self.gpu:
            self._by_due = None  # made again when it is asked for

    def _move_limited(self, need: _Need, into_line: bool) -> None:
        """Move the jobs of users with limits, for which only those with a place are in the line."""
        room = self.verdicts.room
        if room is None:
            return
        gpus = self._jobs[next(iter(need.members))].gpus
        for uid, job_ids in self._of_users(need.members).items():
            if room(uid, gpus) is None:
                continue
            for job_id in job_ids:
                self._waiting[job_id].limited = into_line
            if into_line:
                places = self._places.setdefault(uid, {}).setdefault(gpus, Places())
                self._exchange(places, *places.add(self.aside.take(job_ids)))
            else:
                places = self._places[uid][gpus]
                left, keys = places.take(job_ids)
                self._exchange(places, left, [])
                self.aside.add(keys)
            self._fill(uid, gpus)

    def _of_users(self, job_ids: Collection[int]) -> dict[int, set[int]]:
        found: dict[int, set[int]] = {}
        for job_id in job_ids:
            found.setdefault(self._waiting[job_id].uid, set()).add(job_id)
        return found

    def __contains__(self, job_id: int) -> bool:
        return job_id in self.gpu or job_id in self.gpuless

    def __len__(self) -> int:
        return len(self.gpu) + len(self.gpuless)
