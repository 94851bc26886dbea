"""The capacity allocation problem of ANDREAS (section IV), and what a plan costs.

Money is in the site's currency, times are seconds from now. A *kind* is a number that stands for a
kind of GPU. A *server* is one node's GPUs of one kind that a plan may give away.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from math import inf

from msgspec import Struct


class Configuration(Struct, frozen=True):
    """So many GPUs of a kind: the job's remaining run time there, and its price.

    `tier` comes before the price: 0 for the kinds that the job's submitter likes best.
    """

    kind: int
    gpus: int
    time_s: float
    cost: float
    tier: int = 0


class Work(Struct, frozen=True, dict=True):
    """A job to plan. It has at least one configuration.

    `due_s`: seconds from now, negative if that is past. `rate`: what a second of lateness costs.
    `here`: the kind and number of GPUs with which it runs already.
    """

    job_id: int
    due_s: float
    rate: float
    configurations: tuple[Configuration, ...]
    priority: int = 0
    here: tuple[int, int] | None = None

    @cached_property
    def pressure_s(self) -> float:
        """Equation (2): the least run time after now, less the due time."""
        return min(each.time_s for each in self.configurations) - self.due_s

    @cached_property
    def worst_late_s(self) -> float:
        """The lateness with the slowest configuration: that of a postponed job."""
        return max(0.0, max(each.time_s for each in self.configurations) - self.due_s)

    def is_late(self, configuration: Configuration) -> bool:
        """Return whether it ends too late in a configuration: it is outside of D*."""
        return not configuration.time_s < self.due_s

    def late_cost(self, time_s: float) -> float:
        """Return what its lateness costs if it ends `time_s` from now."""
        return self.rate * max(0.0, time_s - self.due_s)

    def measure(self, configuration: Configuration) -> float:
        """Return what to keep small: the price; the run time, where that is too long."""
        return configuration.time_s if self.is_late(configuration) else configuration.cost

    @cached_property
    def ranked(self) -> tuple[Configuration, ...]:
        """Its configurations without chance: the cheapest in time, then the fastest too late."""

        def key(each: Configuration) -> tuple[float, ...]:
            return (each.tier, self.is_late(each), self.measure(each), each.kind, each.gpus)

        return tuple(sorted(self.configurations, key=key))


class Server(Struct, frozen=True):
    """A server with `gpus` to give away. `used` more are in use; the first ends in `first_s`."""

    kind: int
    gpus: int
    used: int = 0
    first_s: float = inf


class Price(Struct, frozen=True):
    """What one watt costs, from now on: `money[i]` until `times[i]`, straight between them.

    Both begin with 0 and have at least two entries; the last slope holds for ever.
    """

    times: tuple[float, ...] = (0.0, 3600.0)
    money: tuple[float, ...] = (0.0, 0.001)

    def of_watt(self, seconds: float) -> float:
        """Return what a watt costs for so many seconds from now."""
        at = min(max(1, bisect_right(self.times, seconds)), len(self.times) - 1)
        (t0, t1), (m0, m1) = self.times[at - 1 : at + 1], self.money[at - 1 : at + 1]
        return m0 + (m1 - m0) * (seconds - t0) / (t1 - t0)


class Problem(Struct, frozen=True):
    """All that one call of the optimizer decides about.

    `watts[kind][n]`: the power of a server with n GPUs in use. `works` are in the order of service:
    `in_order`.
    """

    works: tuple[Work, ...]
    servers: tuple[Server, ...]
    watts: tuple[tuple[float, ...], ...]
    price: Price = Price()
    rho: float = 100.0

    def power_w(self, kind: int, in_use: int) -> float:
        """Return the power of a server of a kind with so many GPUs in use."""
        known = self.watts[kind]
        return known[min(in_use, len(known) - 1)]

    def postponed_cost(self, work: Work) -> float:
        """Return the penalty of a job that does not run now."""
        return self.rho * work.rate * work.worst_late_s


Allocation = Mapping[int, tuple[int, Configuration]]
"""A plan: by the place in `Problem.works`, the server and the configuration. Others wait."""


def in_order(works: Sequence[Work]) -> tuple[Work, ...]:
    """Return jobs by priority, then the most pressing first."""
    return tuple(sorted(works, key=lambda each: (-each.priority, -each.pressure_s, each.job_id)))


def objective(problem: Problem, plan: Allocation, code: bool = False) -> float:
    """Return f_OBJ, equation (1): what a plan costs until the next decision.

    Weighted lateness of the jobs that run, the penalty of those that wait, and the energy of each
    server until its first job ends. `code`: as the authors' program has it, both lateness and
    energy count until the first end on any server.
    """
    used = [server.used for server in problem.servers]
    first_s = [server.first_s for server in problem.servers]
    for place, configuration in plan.values():
        used[place] += configuration.gpus
        first_s[place] = min(first_s[place], configuration.time_s)
    soonest_s = min(first_s, default=inf)
    total = 0.0
    for number, work in enumerate(problem.works):
        if number not in plan:
            total += problem.postponed_cost(work)
        else:
            total += work.late_cost(soonest_s if code else plan[number][1].time_s)
    for server, in_use, end_s in zip(problem.servers, used, first_s, strict=True):
        until_s = soonest_s if code else end_s
        if in_use and until_s < inf:
            total += problem.power_w(server.kind, in_use) * problem.price.of_watt(until_s)
    return total


# ------------------------------------------------------------------
# One construction of a plan: jobs in an order, each with its configurations in an order.
#
# Servers of one kind with the same number of free GPUs are alike, so `Room` keeps them together: a
# stack for each kind and number. The best fit is the least number that suffices.


class Room:
    """The servers by kind and free GPUs; the last of each list is given away first."""

    def __init__(self, servers: Sequence[Server], whole: bool = False) -> None:
        self._whole = whole
        self._free: dict[int, dict[int, list[int]]] = {}
        for place in reversed(range(len(servers))):
            server = servers[place]
            if server.gpus and not (whole and server.used):
                self._put(server.kind, server.gpus, place)

    def _put(self, kind: int, gpus: int, place: int) -> None:
        self._free.setdefault(kind, {}).setdefault(gpus, []).append(place)

    def take(self, kind: int, gpus: int) -> int | None:
        """Return the server that fits best, and take its GPUs; None if none has so many free.

        With `whole` the job gets all GPUs of the server.
        """
        levels = self._free.get(kind, {})
        fits = [level for level, places in levels.items() if level >= gpus and places]
        if not fits:
            return None
        level = min(fits)
        place = levels[level].pop()
        if level > gpus and not self._whole:
            self._put(kind, level - gpus, place)
        return place

    @property
    def any(self) -> bool:
        """True while a GPU is free."""
        return any(places for levels in self._free.values() for places in levels.values())


def construct(
    problem: Problem,
    order: Iterable[int],
    choices: Callable[[int], Iterable[Configuration]],
    whole: bool = False,
) -> Allocation:
    """Return the plan in which each job, in this order, gets the first of its choices that fits."""
    room, found = Room(problem.servers, whole), {}
    for number in order:
        if not room.any:
            break
        for configuration in choices(number):
            place = room.take(configuration.kind, configuration.gpus)
            if place is not None:
                found[number] = (place, configuration)
                break
    return found


def without_chance(problem: Problem, whole: bool = False) -> Allocation:
    """Return the plan of the pure greedy method, for jobs in the order of `Problem.works`."""
    ranked = [work.ranked for work in problem.works]
    return construct(problem, range(len(ranked)), ranked.__getitem__, whole)
