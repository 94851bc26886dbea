"""What each task has used: the CPU time and memory of its worker's processes, from /proc.

The CPU time of a task goes on counting when its worker is replaced. Memory is the sum of what the
processes hold; pages that they share count for each. Both are looked up rarely, because a look
reads every process of the server.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from radrm.radrun.workers import proc
from radrm.radrun.workers.process import Worker

_MIB = 1 << 20


class Use(NamedTuple):
    """What one task has used: CPU seconds since the attempt's first worker of it, and memory."""

    cpu_s: float
    memory_mib: int


class Usage:
    """The use of all tasks, by role and number."""

    def __init__(self) -> None:
        self._before: dict[tuple[str, int], float] = {}
        """CPU seconds of the workers that a task had before."""
        self._now: dict[tuple[str, int], tuple[int, float]] = {}
        """The worker of a task, by its pid, and its CPU seconds at the last look."""

    def look(self, workers: Mapping[tuple[str, int], Worker]) -> dict[tuple[str, int], Use]:
        """Return what the tasks of these workers have used."""
        everything = proc.census()
        found = {}
        for key, worker in workers.items():
            # The pid of one that has ended may be another process's by now.
            living = set() if worker.ended else {worker.pid}
            tree = [everything[pid] for pid in proc.tree(everything, living)]
            cpu_s = sum(each.cpu_s for each in tree)
            pid, most_s = self._now.get(key, (worker.pid, 0.0))
            if pid != worker.pid:
                self._before[key] = self._before.get(key, 0.0) + most_s
                most_s = 0.0
            # What an orphan used goes with it; a sum must not fall.
            cpu_s = max(cpu_s, most_s)
            self._now[key] = (worker.pid, cpu_s)
            memory = sum(each.memory_bytes for each in tree)
            found[key] = Use(self._before.get(key, 0.0) + cpu_s, memory // _MIB)
        return found
