"""The tasks of a job with parameter servers, and the CPUs of each. Pure arithmetic.

A *server* here is a parameter server, a task of the role `ps`; a *worker* one of the role `worker`.
CPUs are rounded to thousandths, as the core books them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import floor, inf

from radrm.core.records import Placement, Role

SERVER, WORKER = "ps", "worker"


@dataclass(frozen=True, slots=True)
class Limits:
    """What the tasks of one role may be: how many, and with how many CPUs each."""

    least: int = 1
    most: int = 1_000_000
    step: int = 1
    least_cpus: float = 0.001
    most_cpus: float = inf

    @classmethod
    def of(cls, role: Role, shown: int = 0) -> Limits:
        """Return what a job file allows; `shown`: the least number that a death has shown."""
        least = role.needs.cpus or 0.001
        most = max(least, role.needs.cpus_max or least)
        return cls(max(role.count_min, shown), role.count_max, role.step, least, most)

    def count(self, wanted: float) -> int:
        """Return the largest allowed number of tasks that is at most `wanted`; else the least."""
        beyond = (min(wanted, self.most) - self.least) / self.step
        return self.least + self.step * max(0, floor(beyond + 1e-9))

    def next(self, count: int) -> int | None:
        """Return the next larger number of tasks; None if there is none."""
        return count + self.step if count + self.step <= self.most else None

    def cpus(self, wanted: float) -> float:
        """Return the allowed CPUs of a task that are nearest to `wanted`."""
        return round(min(max(wanted, self.least_cpus), self.most_cpus), 3)

    @property
    def total_cpus(self) -> float:
        """The most CPUs of all tasks together."""
        return self.most * self.most_cpus


@dataclass(frozen=True, slots=True)
class Layout:
    """The CPUs of each server and of each worker, by number."""

    servers: tuple[float, ...]
    workers: tuple[float, ...]

    @property
    def total(self) -> float:
        """The CPUs of all tasks together."""
        return sum(self.servers) + sum(self.workers)

    @property
    def counts(self) -> tuple[int, int]:
        """The numbers of servers and of workers."""
        return len(self.servers), len(self.workers)

    def with_servers(self, cpus: Sequence[float]) -> Layout:
        """Return the layout with other servers."""
        return replace(self, servers=rounded(cpus))

    def with_workers(self, cpus: Sequence[float]) -> Layout:
        """Return the layout with other workers."""
        return replace(self, workers=rounded(cpus))

    def differs(self, other: Layout, part: float) -> bool:
        """Return whether a task has other CPUs by more than `part` of them, or the numbers differ.

        `part`: 0 for any difference.
        """
        if self.counts != other.counts:
            return True
        pairs = zip((*self.servers, *self.workers), (*other.servers, *other.workers), strict=True)
        return any(abs(now - was) > part * was + 1e-6 for now, was in pairs)


def numbers_of(placement: Placement, role: str) -> list[int]:
    """Return the numbers of a role's tasks, ascending. After a resize there can be gaps.

    A layout has the tasks in this order.
    """
    return sorted({share.task for share in placement.shares if share.role == role})


def rounded(cpus: Sequence[float]) -> tuple[float, ...]:
    """Return amounts of CPUs in thousandths."""
    return tuple(round(each, 3) for each in cpus)


def shared_out(total: float, parts: Sequence[float], limits: Limits) -> tuple[float, ...]:
    """Share out CPUs among tasks in proportion to `parts` (>= 0), within what each may have.

    What a task cannot take goes to the others. The sum is `total`, but for what the limits force.
    """
    parts = [max(0.0, part) for part in parts]
    if not any(parts):
        parts = [1.0] * len(parts)
    given: list[float | None] = [None] * len(parts)
    while True:
        open_ = [at for at, each in enumerate(given) if each is None]
        left = total - sum(each for each in given if each is not None)
        weight = sum(parts[at] for at in open_)
        found = {at: left * (parts[at] / weight if weight else 1 / len(open_)) for at in open_}
        low = [at for at in open_ if found[at] < limits.least_cpus]
        high = [at for at in open_ if found[at] > limits.most_cpus]
        if not low and not high:
            for at in open_:
                given[at] = found[at]
            return rounded([each for each in given if each is not None])
        # The side that is further beyond its limit is settled first: the other may be then inside.
        under = sum(limits.least_cpus - found[at] for at in low)
        over = sum(found[at] - limits.most_cpus for at in high)
        for at in low if under >= over else high:
            given[at] = limits.least_cpus if under >= over else limits.most_cpus
        if all(each is not None for each in given):
            return rounded([each for each in given if each is not None])
