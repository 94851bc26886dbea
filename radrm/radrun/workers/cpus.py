"""Give each worker its CPUs: those of the job, dealt out so that workers share none.

A worker with a share of `c` CPUs may run on `ceil(c)` of them. The job's control group limits all
workers together; this only divides among them what the job has. The first CPU depends on the
job's id, because all jobs of a server deal from the same CPUs.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Mapping, Sequence

from radrm.radrun.workers import proc
from radrm.radrun.workers.process import Worker

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

    def set(self, shares: Mapping[tuple[str, int], float | None]) -> None:
        """Note the shares of all tasks."""
        self._shares = dict(shares)

    def apply(self, workers: Mapping[tuple[str, int], Worker]) -> None:
        """Set the affinity of all threads of these workers. Their children inherit it."""
        # The pid of one that has ended may be another process's by now.
        shares = {key: self._shares.get(key) for key, each in workers.items() if not each.ended}
        if all(share is None for share in shares.values()):
            return
        everything = proc.census()
        for key, cpus in deal(self._allowed, shares, self._job_id).items():
            for pid in proc.tree(everything, {workers[key].pid}):
                set_affinity(pid, cpus)


def set_affinity(pid: int, cpus: set[int]) -> None:
    """Have all threads of a process run on these CPUs. One that begins meanwhile inherits it."""
    with contextlib.suppress(OSError):
        for name in os.listdir(f"/proc/{pid}/task")[:_MOST_THREADS]:
            with contextlib.suppress(OSError):
                os.sched_setaffinity(int(name), cpus)
