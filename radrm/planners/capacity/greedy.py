"""One construction of a plan: jobs in an order, each with its configurations in an order.

Servers of one kind with the same number of free GPUs are alike, so `Room` keeps them together: a
stack for each kind and number. The best fit is the least number that suffices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from radrm.planners.capacity.problem import Allocation, Configuration, Problem, Server


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
