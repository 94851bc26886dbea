"""The jobs that could start if there were room, in the order in which they are served."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Collection, Hashable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

from radrm.core.records import Job, Refusal
from radrm.core.words import Queue

OrderKey = Callable[[Job], "tuple[Any, ...]"]
Key: TypeAlias = "tuple[Any, ...]"


class WaitingQueue:
    """Recovery queue first, then priority, then the order rule's key, then the id.

    Kept sorted: adding, removing and looking at the head cost the logarithm of
    the length, so that an event's cost does not grow with the queue.
    """

    def __init__(self, order_key: OrderKey) -> None:
        self._order_key = order_key
        self._sorted: list[Key] = []
        self._key_of: dict[int, Key] = {}

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

    def take(self, job_ids: Collection[int]) -> list[Key]:
        """Remove many jobs at once; their keys, in order, for `add`."""
        taken = [key for key in self._sorted if key[-1] in job_ids]
        self._sorted = [key for key in self._sorted if key[-1] not in job_ids]
        self._key_of = {key[-1]: key for key in self._sorted}
        return taken

    def add(self, keys: list[Key]) -> None:
        """Put back what `take` removed, here or from another queue: each into its old place."""
        self._sorted = sorted(self._sorted + keys)
        self._key_of.update({key[-1]: key for key in keys})

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


@dataclass(frozen=True, slots=True)
class Aside:
    """Why a job stands aside. `never`: why no device that is known could ever run it."""

    refusal: Refusal
    never: str | None = None


@dataclass(slots=True)
class _Alike:
    """The waiting jobs of one need: what holds for one of them holds for all."""

    members: set[int]
    aside: Aside | None


class Lines:
    """Two lines beside each other: jobs for GPUs, and jobs that need none.

    Under a strict order nobody passes the head of a line. A job without a GPU takes
    nothing that the head of the other line waits for, so it stands in a line of its own.

    Jobs that could not start on the devices in service, were they all idle, stand aside in
    the order of service, so that nobody waits behind them. `judge` says which they are. It
    is asked once for jobs of the same need, not once for each job.
    """

    def __init__(self, order_key: OrderKey) -> None:
        self.gpu = WaitingQueue(order_key)
        self.gpuless = WaitingQueue(order_key)
        self.aside = WaitingQueue(order_key)
        self.of_user: dict[int, WaitingQueue] = {}
        """The jobs of each user in the line for GPUs."""
        self.judge: Callable[[Job], Aside | None] = lambda job: None
        self.sizes: tuple[int, ...] = ()
        """MiB of the devices there are, each once, ascending: between two of them needs are
        alike."""
        self._order_key = order_key
        self._alike: dict[Hashable, _Alike] = {}
        self._need_of: dict[int, Hashable] = {}
        self._uid_of: dict[int, int] = {}

    @property
    def lines(self) -> tuple[WaitingQueue, WaitingQueue]:
        return self.gpu, self.gpuless

    def of(self, job: Job) -> WaitingQueue:
        """The line that the job stands in, or stands aside from."""
        return self.gpu if job.spec.gpus else self.gpuless

    def put(self, job: Job) -> None:
        self.discard(job.id)
        if not job.spec.gpus:
            self.gpuless.put(job)
            return
        need = self._need(job)
        alike = self._alike.get(need)
        if alike is None:
            alike = self._alike[need] = _Alike(set(), self.judge(job))
        alike.members.add(job.id)
        self._need_of[job.id] = need
        self._uid_of[job.id] = job.spec.uid
        if alike.aside is not None:
            self.aside.put(job)
            return
        self.gpu.put(job)
        self._line_of(job.spec.uid).put(job)

    def discard(self, job_id: int) -> None:
        need = self._need_of.pop(job_id, None)
        if need is None:
            self.gpuless.discard(job_id)
            return
        members = self._alike[need].members
        members.discard(job_id)
        if not members:
            del self._alike[need]
        self.aside.discard(job_id)
        self.gpu.discard(job_id)
        uid = self._uid_of.pop(job_id)
        if uid in self.of_user:
            self.of_user[uid].discard(job_id)
            self._drop_empty(uid)

    def why_aside(self, job_id: int) -> Aside | None:
        """Why a job stands aside; None for one that does not."""
        need = self._need_of.get(job_id)
        return None if need is None else self._alike[need].aside

    # ------------------------------------------------------------- needs

    def judge_anew(self, job_of: Callable[[int], Job]) -> None:
        """What is in service has changed: who stands aside now?"""
        for alike in self._alike.values():
            before, alike.aside = alike.aside, self.judge(job_of(next(iter(alike.members))))
            if (before is None) is not (alike.aside is None):
                self._move(alike.members, into_line=alike.aside is None)

    def resize(self, sizes: tuple[int, ...], job_of: Callable[[int], Job]) -> None:
        """There are devices of other sizes now."""
        if sizes != self.sizes:
            self.sizes = sizes
            for job_id in list(self._need_of):
                self.put(job_of(job_id))

    def hopeless(self) -> Iterator[tuple[Hashable, str, set[int]]]:
        """Each need that no device that is known could ever serve, why, and whose it is."""
        for need, alike in self._alike.items():
            if alike.aside is not None and alike.aside.never is not None:
                yield need, alike.aside.never, alike.members

    def _need(self, job: Job) -> Hashable:
        """What decides whether a job could start on a set of idle devices."""
        roles = tuple(
            (
                role.count_min,
                role.needs.gpus,
                role.needs.mig_profile,
                bisect_left(self.sizes, role.needs.gpu_memory_mib or 0),
            )
            for role in job.spec.roles
        )
        proven = bisect_left(self.sizes, job.memory_floor_mib or 0)
        estimated = bisect_left(self.sizes, job.need_mib or 0)
        wishes = job.spec.collocation, job.own_device, job.spec.time_limit_s is None
        return roles, proven, estimated, wishes, job.queue

    def _move(self, job_ids: set[int], into_line: bool) -> None:
        source, target = (self.aside, self.gpu) if into_line else (self.gpu, self.aside)
        keys = source.take(job_ids)
        target.add(keys)
        uid_of = self._uid_of
        for uid in {uid_of[job_id] for job_id in job_ids}:
            if into_line:
                self._line_of(uid).add([key for key in keys if uid_of[key[-1]] == uid])
            else:
                self.of_user[uid].take(job_ids)
                self._drop_empty(uid)

    def _line_of(self, uid: int) -> WaitingQueue:
        return self.of_user.setdefault(uid, WaitingQueue(self._order_key))

    def _drop_empty(self, uid: int) -> None:
        if not len(self.of_user[uid]):
            del self.of_user[uid]

    def __contains__(self, job_id: int) -> bool:
        return job_id in self.gpu or job_id in self.gpuless

    def __len__(self) -> int:
        return len(self.gpu) + len(self.gpuless)
