"""A generation of workers as processes: who has ended, and what of them still lives."""

from __future__ import annotations

import contextlib
import enum
import os
import signal
from collections.abc import Callable, Iterable
from typing import Any

from radrm.elastic.radrun.placement import Placement, is_server
from radrm.elastic.radrun.workers import proc
from radrm.elastic.radrun.workers.environment import Ports
from radrm.elastic.radrun.workers.proc import Processes
from radrm.elastic.radrun.workers.process import Worker


class Stop(enum.Enum):
    """Why a generation is being stopped."""

    RESIZE = enum.auto()
    """Another one takes its place; its workers save first."""
    FAILURE = enum.auto()
    """A worker has failed; it starts again from the last checkpoint."""
    END = enum.auto()
    """The job is over, or was asked to end."""


class Generation:
    """The workers of one placement, by role and number.

    `number` is radrun's own count of starts. `stop`: why it is being stopped; `kill_s`: the
    monotonic time after which its processes are killed. `servers_asked`: its servers have TERM.
    """

    def __init__(self, number: int, placement: Placement) -> None:
        self.number = number
        self.placement = placement
        self.workers: dict[tuple[str, int], Worker] = {}
        self.ports: Ports | None = None
        self.stop: Stop | None = None
        self.kill_s = float("inf")
        self.servers_asked = False
        self._leaders: dict[int, int] = {}
        """The start time of each worker, by pid."""

    def add(self, worker: Worker) -> None:
        """Add a worker; it replaces the one of the same task."""
        self.workers[worker.task.key] = worker
        self._leaders[worker.pid] = worker.start_ticks

    @property
    def leaders(self) -> set[int]:
        """The pids of all workers that it has had."""
        return set(self._leaders)

    def processes(self, everything: Processes) -> set[int]:
        """The living processes of its workers.

        Another process may have the pid of a worker that has ended: then nothing of that worker's
        session lives, because the kernel gives no number of a session to a new process.
        """
        reused = {
            pid
            for pid, start_ticks in self._leaders.items()
            if pid in everything and everything[pid].start_ticks != start_ticks
        }
        return proc.tree(everything, self.leaders - reused)

    @property
    def ready(self) -> bool:
        return all(each.ready for each in self.workers.values())

    @property
    def ended(self) -> bool:
        return all(each.ended for each in self.workers.values())

    @property
    def complete(self) -> bool:
        """Whether all workers but the servers have ended well."""
        counts = self.placement.roles()
        return all(
            each.code == 0
            for (role, _), each in self.workers.items()
            if not is_server(role, counts)
        )

    @property
    def only_servers_left(self) -> bool:
        """Whether all workers but servers have ended, and a server has not."""
        counts = self.placement.roles()
        left = [role for (role, _), each in self.workers.items() if not each.ended]
        return bool(left) and all(is_server(role, counts) for role in left)

    def failed(self) -> list[Worker]:
        """The workers that have ended with an error."""
        return [each for each in self.workers.values() if each.ended and each.code != 0]

    def send(self, number: int) -> None:
        """Signal the workers, not the processes below them."""
        for worker in self.workers.values():
            worker.send(number)

    def sweep(self, others: set[int], number: int = signal.SIGKILL) -> bool:
        """Signal all that is left of it, with 0 only look; False if nothing is left.

        `others`: the workers of other generations, whose processes are spared.
        """
        everything = proc.census()
        left = self.processes(everything) | proc.orphans(
            everything, os.getpid(), self.leaders | others
        )
        left -= proc.tree(everything, others)
        for worker in self.workers.values():
            worker.killed = worker.killed or (number == signal.SIGKILL and worker.pid in left)
        proc.kill(everything, left, number)
        return bool(left)

    def described(self) -> list[dict[str, Any]]:
        """Its tasks for `tasks.json`, in the order of the placement."""
        found = []
        for task in self.placement.tasks:
            worker = self.workers.get(task.key)
            if worker is not None:
                found.append(
                    {
                        "role": task.role,
                        "task": task.number,
                        "pid": worker.pid,
                        "start_ticks": worker.start_ticks,
                        "code": worker.code,
                        "signal": worker.signal,
                        "host_oom": worker.out_of_memory,
                    }
                )
        return found


class MemoryKills:
    """Tells kills by the kernel for host memory from others: the count of its group has grown."""

    def __init__(self, count: Callable[[], int] = proc.out_of_memory_kills) -> None:
        self._count = count
        self._known = count()

    def judge(self, workers: Iterable[Worker]) -> None:
        """Set `out_of_memory` of workers that have ended since the last call."""
        fresh = [worker for worker in workers if worker.ended and not worker.judged]
        for worker in fresh:
            worker.judged = True
        killed = [each for each in fresh if each.signal == signal.SIGKILL and not each.killed]
        if killed and (now := self._count()) > self._known:
            self._known = now
            for worker in killed:
                worker.out_of_memory = True


def reap_orphans(known: set[int]) -> None:
    """Reap adopted children that have ended. Those of `known` are reaped by their workers."""
    with contextlib.suppress(ChildProcessError):
        while True:
            options = os.WEXITED | os.WNOHANG | os.WNOWAIT
            found = os.waitid(os.P_ALL, 0, options)
            if found is None or found.si_pid in known:
                return
            os.waitpid(found.si_pid, os.WNOHANG)
