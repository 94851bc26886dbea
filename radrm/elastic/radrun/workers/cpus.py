"""Give each worker its CPUs: those near its GPUs, dealt out so that workers share none.

A worker with a share of `c` CPUs may run on `ceil(c)` of them. The job's control group limits all
workers together; this only divides among them what the job has. The first CPU depends on the
job's id, because all jobs of a server deal from the same CPUs. Workers that
have more CPUs than are near, or of which that is not known, get some of all CPUs.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Collection, Mapping, Sequence

from radrm.elastic.radrun.placement import Task
from radrm.elastic.radrun.workers import proc
from radrm.elastic.radrun.workers.process import Worker

_Shares = dict[tuple[str, int], float | None]
_GOLDEN = 0.6180339887498949
_MOST_THREADS = 100_000


def deal(
    allowed: Sequence[int], shares: Mapping[tuple[str, int], float | None], job_id: int
) -> dict[tuple[str, int], set[int]]:
    """The CPUs of each task. A task without a share may run on all of them."""
    size = len(allowed)
    # Multiples of the golden ratio lie far apart: neighbours in id begin far from each other.
    next_cpu = int(size * (job_id * _GOLDEN % 1.0))
    found = {}
    for key, share in shares.items():
        count = size if share is None else max(1, min(size, math.ceil(share - 1e-9)))
        found[key] = {allowed[(next_cpu + offset) % size] for offset in range(count)}
        next_cpu += 0 if share is None else count
    return found


class Cpus:
    """The CPU shares of the tasks, as they are now."""

    def __init__(self, job_id: int) -> None:
        self._job_id = job_id
        self._allowed = sorted(os.sched_getaffinity(0))
        self._shares: dict[tuple[str, int], float | None] = {}
        self._near: dict[tuple[str, int], tuple[int, ...]] = {}

    def place(self, tasks: Collection[Task]) -> None:
        """Note the shares of the tasks of a placement, and the CPUs near each."""
        self._shares = {task.key: task.cpus for task in tasks}
        self._near = {task.key: task.near_cpus for task in tasks}

    def set(self, shares: Mapping[tuple[str, int], float | None]) -> None:
        """Note the shares of all tasks."""
        self._shares = dict(shares)

    def apply(self, workers: Mapping[tuple[str, int], Worker]) -> None:
        """Set the affinity of all threads of these workers. Their children inherit it."""
        # The pid of one that has ended may be another process's by now.
        shares = {key: self._shares.get(key) for key, each in workers.items() if not each.ended}
        if all(share is None and not self._near.get(key) for key, share in shares.items()):
            return
        everything = proc.census()
        for place, its in self._places(shares).items():
            for key, cpus in deal(place, its, self._job_id).items():
                for pid in proc.tree(everything, {workers[key].pid}):
                    set_affinity(pid, cpus)

    def _places(self, shares: _Shares) -> dict[tuple[int, ...], _Shares]:
        """The CPUs that tasks get some of, and the shares of these tasks."""
        found: dict[tuple[int, ...], _Shares] = {}
        for key, share in shares.items():
            found.setdefault(self._near.get(key, ()), {})[key] = share
        places: dict[tuple[int, ...], _Shares] = {}
        for near, its in found.items():
            enough = len(near) >= max(1.0, sum(share or 0.0 for share in its.values()))
            places.setdefault(near if enough else tuple(self._allowed), {}).update(its)
        return places


def set_affinity(pid: int, cpus: set[int]) -> None:
    """Have all threads of a process run on these CPUs. One that begins meanwhile inherits it."""
    with contextlib.suppress(OSError):
        for name in os.listdir(f"/proc/{pid}/task")[:_MOST_THREADS]:
            with contextlib.suppress(OSError):
                os.sched_setaffinity(int(name), cpus)
