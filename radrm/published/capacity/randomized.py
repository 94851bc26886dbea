"""Randomized greedy (ANDREAS, Algorithm 1): many constructions at once; the cheapest counts.

Theory of operation
-------------------
All constructions go through the places of the queue together: at each place every construction has
its own job, which takes the first of its configurations that fits. Arrays have a construction in
each column. As in `problem`, servers of one kind with the same number of free GPUs are a
stack (a *row*), so a step costs the same for any number of servers.

Chance. Neighbours in the queue are swapped from the front to the back, so that one job can be put
back by several places. The front one gives way with a probability of 1/2 times the least weight
over its own weight: the paper says only "inversely proportional". Configurations are drawn without
putting back, with a probability in inverse proportion to their price: the least of -ln(u) x price
comes first. Those that end in time (D*) come before the others, which are drawn by their time.

`code` is as the authors' program: the front one gives way with 0.55 if it is the heavier, else with
0.45; of n configurations only the first round(0.05 n) are drawn; the first construction has no
chance; lateness and energy end with the first job. Two steps of that program are left out: it gives
the idle GPUs of a server to one of its jobs afterwards, and draws among the best fitting servers.

The bits are those of PCG64, which numpy keeps the same in all its versions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.random import PCG64
from numpy.typing import NDArray

from radrm.published.capacity.problem import Allocation, Configuration, Problem, Work

_TIER, _LATE = 1e6, 5e5
"""What a tier, and a late end, add to the key of a configuration: more than any other part."""
_LEAST = 1e-30
_SWAP, _SWAP_HEAVY, _SWAP_LIGHT = 0.5, 0.55, 0.45
_DRAWN = 0.05
_BLOCK = 32
_SAME = 1e-9
_FAR_S = 1e10

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bits = NDArray[np.uint32]


class Chance:
    """A source of numbers in (0, 1) that depends on nothing but its key."""

    def __init__(self, *key: int) -> None:
        self._bits = PCG64(list(key))

    def uniform(self, *shape: int) -> Floats:
        """Return an array of numbers."""
        return _numbers(self.bits(*shape))

    def bits(self, *shape: int) -> Bits:
        """Return what `uniform` makes numbers of."""
        size = int(np.prod(shape))
        raw = np.asarray(self._bits.random_raw(size // 2 + 1)).astype("<u8", copy=False)
        return raw.view("<u4")[:size].reshape(shape)


def _numbers(bits: Bits) -> Floats:
    found: Floats = (bits.astype(np.float64) + 0.5) * 2.0**-32
    return found


class Constructions(Struct, frozen=True):
    """The plans of all constructions. `costs`: f_OBJ of each; `best`: the one to carry out."""

    problem: Problem
    costs: Floats
    best: int
    steps: Sequence[tuple[Ints, Ints, Ints]]
    """For each place of the queue: by construction the job, the pair (-1: none), and the server."""
    pairs: Sequence[tuple[int, int]]

    def plan(self, number: int | None = None) -> Allocation:
        """Return one of the plans; None: the best one."""
        at = self.best if number is None else number
        found = {}
        for jobs, chosen, places in self.steps:
            if chosen[at] >= 0:
                job, pair = int(jobs[at]), self.pairs[chosen[at]]
                found[job] = (int(places[at]), _of_pair(self.problem.works[job], pair))
        return found

    def order(self, number: int) -> list[int]:
        """Return the order in which a construction has served the jobs."""
        return [int(jobs[number]) for jobs, _, _ in self.steps]


def _of_pair(work: Work, pair: tuple[int, int]) -> Configuration:
    return next(each for each in work.configurations if (each.kind, each.gpus) == pair)


def construct_many(
    problem: Problem, count: int, chance: Chance, code: bool = False
) -> Constructions:
    """Return `count` (at least 1) random constructions."""
    table = _Table(problem, code)
    room = _Room(problem, table, count)
    state = _State(problem, count)
    queue = _Queue(problem, table, count, chance, code)
    steps = []
    for place in range(len(problem.works)):
        levels = room.levels()
        if not levels.any():
            break
        jobs, noise = queue.next(place)
        keys = table.base[:, jobs] + (table.span[:, jobs] * noise if code else noise)
        keys[levels == 0] = np.inf
        chosen = keys.argmin(axis=0)
        fits = np.flatnonzero(np.isfinite(keys[chosen, room.columns]))
        places = np.zeros(count, np.int64)
        if len(fits):
            job, pair = jobs[fits], chosen[fits]
            places[fits] = at = room.take(pair, levels[pair, fits], fits)
            state.add(at, fits, table.gpus[pair], table.times[pair, job])
            state.costs[fits] += table.gain[pair, job]
            state.stays[fits] += table.stays[pair, job]
        if len(fits) < count:
            left_out = np.ones(count, bool)
            left_out[fits] = False
            chosen[left_out] = -1
        steps.append((jobs, chosen, places))
    costs = state.total(steps, table) if not code else state.total_as_code(steps)
    least = float(costs.min())
    equal = np.flatnonzero(costs <= least + _SAME * abs(least))
    best = int(equal[np.argmax(state.stays[equal])])
    return Constructions(problem, costs, best, steps, table.pairs)


class _Table:
    """The configurations as arrays [pair of kind and GPUs x job]."""

    def __init__(self, problem: Problem, code: bool) -> None:
        works = problem.works
        self.pairs = sorted({(c.kind, c.gpus) for w in works for c in w.configurations})
        at = {pair: number for number, pair in enumerate(self.pairs)}
        shape = (len(self.pairs), len(works))
        self.kinds = np.array([kind for kind, _ in self.pairs], np.int64)
        self.gpus = np.array([gpus for _, gpus in self.pairs], np.int64)
        self.base, self.span = np.full(shape, np.inf), np.zeros(shape)
        self.times, self.gain = np.full(shape, np.inf), np.zeros(shape)
        self.stays = np.zeros(shape, np.int64)
        for job, work in enumerate(works):
            postponed = problem.postponed_cost(work)
            for each in work.configurations:
                here = at[each.kind, each.gpus], job
                self.times[here] = each.time_s
                self.gain[here] = (0.0 if code else work.late_cost(each.time_s)) - postponed
                self.stays[here] = work.here == (each.kind, each.gpus)
            keys = _keys_as_code(work) if code else _keys(work)
            for each, (base, span) in zip(work.ranked, keys, strict=True):
                here = at[each.kind, each.gpus], job
                self.base[here], self.span[here] = base, span


def _keys(work: Work) -> list[tuple[float, float]]:
    found = []
    for each in work.ranked:
        group = _TIER * each.tier + _LATE * work.is_late(each)
        found.append((group + float(np.log(max(_LEAST, work.measure(each)))), 1.0))
    return found


def _keys_as_code(work: Work) -> list[tuple[float, float]]:
    groups: dict[tuple[int, bool], int] = {}
    for each in work.ranked:
        group = (each.tier, work.is_late(each))
        groups[group] = groups.get(group, 0) + 1
    found, seen = [], dict.fromkeys(groups, 0)
    for each in work.ranked:
        group = (each.tier, work.is_late(each))
        drawn = int(_DRAWN * groups[group] + 0.5)
        base, rank = _TIER * each.tier + _LATE * group[1], seen[group]
        seen[group] += 1
        found.append((base, float(drawn)) if rank < drawn else (base + rank, 0.0))
    return found


class _Queue:
    """Who is next in each construction, and the chance for its configurations."""

    def __init__(
        self, problem: Problem, table: _Table, count: int, chance: Chance, code: bool
    ) -> None:
        works = problem.works
        self._pairs, self._count, self._code, self._chance = len(table.pairs), count, code, chance
        self._rates = np.array([work.rate for work in works])
        self._priorities = np.array([work.priority for work in works], np.int64)
        positive = self._rates[self._rates > 0]
        least = float(positive.min()) if len(positive) else 0.0
        with np.errstate(divide="ignore", invalid="ignore"):
            gives = np.where(self._rates > 0, _SWAP * least / self._rates, _SWAP)
        self._gives_way = gives
        self._carried = np.zeros(count, np.int64)
        self._swaps = self._noise = np.zeros(0, np.uint32)

    def next(self, place: int) -> tuple[Ints, Floats]:
        """Return the job of each construction at a place of the queue, and chance [pair x it]."""
        at = place % _BLOCK
        if at == 0:
            # A queue has more places than servers have room: most are never asked for, so the
            # numbers of a place are made of its bits when it is.
            self._swaps = self._chance.bits(_BLOCK, self._count)
            rows = min(_BLOCK, len(self._rates) - place)
            self._noise = self._chance.bits(rows, self._pairs, self._count)
        noise = self._noise_at(at)
        following = place + 1
        if following >= len(self._rates):
            return self._carried, noise
        ahead = self._carried
        if self._code:
            heavier = self._rates[ahead] > self._rates[following]
            likely = np.where(heavier, _SWAP_HEAVY, _SWAP_LIGHT)
        else:
            likely = self._gives_way[ahead]
        swap = _numbers(self._swaps[at]) < likely
        if self._code:
            swap[0] = False
        swap &= self._priorities[ahead] == self._priorities[following]
        self._carried = np.where(swap, ahead, following)
        return np.where(swap, following, ahead), noise

    def _noise_at(self, at: int) -> Floats:
        noise = _numbers(self._noise[at])
        if not self._code:
            return np.log(-np.log(noise))
        noise[:, 0] = np.arange(self._pairs) * 1e-9
        return noise


class _Room:
    """The free GPUs of all constructions: a stack of servers for each kind and number of GPUs."""

    def __init__(self, problem: Problem, table: _Table, count: int) -> None:
        self.columns = np.arange(count)
        self._kinds, self._gpus = table.kinds, table.gpus
        most: dict[int, int] = {int(kind): 0 for kind in self._kinds}
        for server in problem.servers:
            if server.kind in most:
                most[server.kind] = max(most[server.kind], server.gpus)
        self._most = most
        rows: dict[int, int] = {}
        slots: list[int] = []
        for kind, largest in most.items():
            rows[kind] = len(slots)
            sizes = [each.gpus for each in problem.servers if each.kind == kind]
            slots += [sum(size >= free for size in sizes) for free in range(largest + 1)]
        self._row = rows
        self._row_of_pair = np.array([rows[int(kind)] for kind in self._kinds], np.int64)
        self._slot = np.concatenate([[0], np.cumsum(slots)]).astype(np.int64)
        self._count = np.zeros((len(slots), count), np.int64)
        self._stack = np.zeros((int(self._slot[-1]), count), np.int64)
        for place in reversed(range(len(problem.servers))):
            server = problem.servers[place]
            if server.kind in most and server.gpus:
                row = rows[server.kind] + server.gpus
                self._stack[self._slot[row] + self._count[row, 0]] = place
                self._count[row] += 1

    def levels(self) -> Ints:
        """Return for [pair x construction] the free GPUs of the server that fits best; 0: none."""
        found = np.zeros((len(self._kinds), len(self.columns)), np.int64)
        wanted = {
            (int(kind), int(gpus)): number
            for number, (kind, gpus) in enumerate(zip(self._kinds, self._gpus, strict=True))
        }
        for kind, largest in self._most.items():
            best: Any = np.zeros(len(self.columns), np.int64)
            for free in range(largest, 0, -1):
                best = np.where(self._count[self._row[kind] + free] > 0, free, best)
                if (kind, free) in wanted:
                    found[wanted[kind, free]] = best
        return found

    def take(self, pairs: Ints, levels: Ints, columns: Ints) -> Ints:
        """Take the GPUs of pairs from servers with so many free GPUs; return the servers."""
        before = self._row_of_pair[pairs] + levels
        after = before - self._gpus[pairs]
        last = self._count[before, columns] - 1
        places: Ints = self._stack[self._slot[before] + last, columns]
        self._count[before, columns] = last
        top = self._count[after, columns]
        self._stack[self._slot[after] + top, columns] = places
        self._count[after, columns] = top + 1
        return places


class _State:
    """What the constructions have used so far, and cost."""

    def __init__(self, problem: Problem, count: int) -> None:
        self._problem, servers = problem, problem.servers
        self._used = np.repeat(np.array([[s.used] for s in servers], np.int64), count, axis=1)
        self._first_s = np.repeat(np.array([[s.first_s] for s in servers], float), count, axis=1)
        self.stays = np.zeros(count, np.int64)
        self.costs = np.full(count, sum(problem.postponed_cost(work) for work in problem.works))

    def add(self, places: Ints, columns: Ints, gpus: Ints, times: Floats) -> None:
        """Add one job to each of these constructions."""
        self._used[places, columns] += gpus
        self._first_s[places, columns] = np.minimum(self._first_s[places, columns], times)

    def total(self, steps: Sequence[tuple[Ints, Ints, Ints]], table: _Table) -> Floats:
        """Return the objective of each construction, equation (1)."""
        runs = (self._used > 0) & np.isfinite(self._first_s)
        until_s = np.where(runs, self._first_s, 0.0)
        found: Floats = self.costs + (self._power() * self._of_watt(until_s)).sum(axis=0)
        return found

    def total_as_code(self, steps: Sequence[tuple[Ints, Ints, Ints]]) -> Floats:
        """Return the objective of the authors' program: all of it until the first end."""
        works = self._problem.works
        due_s = np.array([work.due_s for work in works])
        rates = np.array([work.rate for work in works])
        soonest_s = self._first_s.min(axis=0, initial=np.inf)
        some = np.isfinite(soonest_s)
        until_s = np.where(some, soonest_s, 0.0)
        found: Floats = self.costs + self._power().sum(axis=0) * self._of_watt(until_s)
        for jobs, chosen, _ in steps:
            late = rates[jobs] * np.maximum(0.0, until_s - due_s[jobs])
            found = found + np.where(chosen >= 0, late, 0.0)
        return found

    def _power(self) -> Floats:
        servers, watts = self._problem.servers, self._problem.watts
        longest = max((len(each) for each in watts), default=1)
        table = np.array([[*each, *[each[-1]] * (longest - len(each))] for each in watts])
        kinds = np.array([server.kind for server in servers], np.int64)
        found: Floats = table[kinds[:, None], np.minimum(self._used, longest - 1)]
        return found

    def _of_watt(self, seconds: Floats) -> Floats:
        price = self._problem.price
        if len(price.times) == 2:
            found: Floats = seconds * (price.money[1] / price.times[1])
            return found
        times, money = [*price.times, _FAR_S], [*price.money, price.of_watt(_FAR_S)]
        return np.interp(seconds, times, money)
