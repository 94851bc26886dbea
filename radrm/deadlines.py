"""The price of energy by the local hour, and the cost of a late end.

A site's zone is a list of offsets from UTC, which the host reads once: so a rule, also one in
another process, decides alike wherever it runs. The offsets change in summer.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timezone
from heapq import merge
from math import exp, inf, log
from typing import Any

from msgspec import Struct

from radrm.core.constraints.kinds import is_name_of
from radrm.core.records import Job

TYPE_CHECKING = False
if TYPE_CHECKING:
    from radrm.config import Config

_DAY_S = 86_400.0
_HOUR_S = 3600.0
_J_PER_KWH = 3.6e6
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


class Zone(Struct, frozen=True):
    """The site's offset from UTC: `starts` has epoch seconds, ascending, `offsets` seconds east.

    Before the first start the first offset holds, and after the last one the last.
    """

    starts: tuple[float, ...] = (0.0,)
    offsets: tuple[float, ...] = (0.0,)

    def local_s(self, wall_s: float) -> float:
        """Return the seconds of the local clock at an epoch second."""
        return wall_s + self.offsets[max(0, bisect_right(self.starts, wall_s) - 1)]

    def next_change_s(self, wall_s: float) -> float:
        """Return the epoch second at which the offset changes next; infinity without one."""
        at = bisect_right(self.starts, wall_s)
        return self.starts[at] if at < len(self.starts) else inf

    def clock(self, wall_s: float, now_s: float) -> str:
        """Return a moment as users read it: `14:20`, and `21 Nov 14:20` if that is not today."""
        then, today = (
            datetime.fromtimestamp(self.local_s(each), timezone.utc) for each in (wall_s, now_s)
        )
        day = "" if then.date() == today.date() else f"{then.day} {_MONTHS[then.month - 1]} "
        return f"{day}{then:%H:%M}"


UTC = Zone()


class Costs(Struct, frozen=True):
    """What energy and lateness cost at a site, in `currency`.

    `prices`: from which minute of the local day (ascending, the first is 0) a kWh costs how much.
    `pue`: the energy of the whole site for each part that its servers use. `cost_per_hour`: of a
    late job with weight 1. `node_watts`: for types of GPU, the power of a server with 1, 2, ... of
    its GPUs in use.
    """

    prices: tuple[tuple[int, float], ...] = ((0, 0.25),)
    pue: float = 1.33
    currency: str = "EUR"
    cost_per_hour: float = 1.0
    node_watts: tuple[tuple[str, tuple[float, ...]], ...] = ()
    wait_for_cheap: bool = False
    zone: Zone = UTC

    def price_at(self, wall_s: float) -> float:
        """Return what a kWh costs at an epoch second."""
        return self.prices[self._place(self.zone.local_s(wall_s))][1]

    def price_changes_s(self, wall_s: float) -> float:
        """Return the first epoch second after `wall_s` at which the price may change.

        Infinity if it is the same all day.
        """
        if len(self.prices) == 1:
            return inf
        local_s = self.zone.local_s(wall_s)
        place = self._place(local_s)
        midnight_s = local_s - local_s % _DAY_S
        later = place + 1 < len(self.prices)
        next_s = self.prices[place + 1][0] * 60.0 if later else _DAY_S
        return min(wall_s + midnight_s + next_s - local_s, self.zone.next_change_s(wall_s))

    def energy_cost(self, joules: float, begin_s: float, end_s: float) -> float:
        """Return what energy costs that was used evenly between two epoch seconds."""
        if end_s <= begin_s:
            return self._cost_of(joules, self.price_at(begin_s))
        total, at_s = 0.0, begin_s
        while at_s < end_s:
            until_s = min(end_s, self.price_changes_s(at_s))
            if until_s <= at_s:  # so far from now that a float does not tell the difference
                until_s = end_s
            part_j = joules * (until_s - at_s) / (end_s - begin_s)
            total += self._cost_of(part_j, self.price_at(at_s))
            at_s = until_s
        return total

    def cost_of_watts(self, watts: float, wall_s: float, seconds: float) -> float:
        """Return what this power costs from an epoch second on."""
        return self.energy_cost(watts * seconds, wall_s, wall_s + seconds)

    def node_w(self, gpu: str, in_use: int) -> float | None:
        """Return the power of a server of which so many GPUs of this name are in use.

        0 with none in use; None if the configuration does not say.
        """
        for kind, watts in self.node_watts:
            if is_name_of(gpu, kind):
                return watts[min(in_use, len(watts)) - 1] if in_use > 0 else 0.0
        return None

    def tardiness_cost(self, weight: float, late_s: float) -> float:
        """Return what a late end costs; 0 for one in time."""
        return self.cost_per_hour * weight * max(0.0, late_s) / _HOUR_S

    def _place(self, local_s: float) -> int:
        minute = local_s % _DAY_S / 60.0
        return max(0, bisect_right([start for start, _ in self.prices], minute) - 1)

    def _cost_of(self, joules: float, price: float) -> float:
        return joules / _J_PER_KWH * self.pue * price


def in_order(prices: Sequence[tuple[int, float]]) -> tuple[tuple[int, float], ...]:
    """Return prices by their minute of the day. Raises ValueError, without one from 0:00 on."""
    found = tuple(sorted(prices))
    if not found or found[0][0] != 0:
        raise ValueError("no price holds from 00:00 on")
    return found


def make_costs(config: Config, zone: Zone = UTC) -> Costs:
    """Return what energy and lateness cost."""
    energy, price = config.energy, config.energy.price
    prices = {"00:00": price} if isinstance(price, (int, float)) else price
    clock = [(key.split(":"), each) for key, each in prices.items()]
    return Costs(
        prices=in_order([(int(h) * 60 + int(m), float(each)) for (h, m), each in clock]),
        pue=energy.pue,
        currency=energy.currency,
        cost_per_hour=config.deadlines.cost_per_hour,
        node_watts=tuple((kind, tuple(watts)) for kind, watts in energy.node_watts.items()),
        wait_for_cheap=energy.wait_for_cheap,
        zone=zone,
    )


# ------------------------------------------------------------------
# The waiting jobs with due times, by what a delay of them costs.
#
# Theory of operation
# -------------------
# The rank of a waiting job is its *apparent tardiness cost* (Vepsalainen and Morton, "Priority
# rules for job shops with weighted tardiness costs", Management Science 33, 1987):
#
#     weight / remaining x exp(-max(0, slack) / (2 x mean remaining)), slack = due - now - remaining
#
# While a job has slack, its logarithm grows at the same rate for all jobs, so their order does not
# change; without slack it is constant. So there are three sorted lists, and a job moves from one to
# the next at times that are known: *early* (has slack), *late* (none), *old* (`max_wait_s` after
# its due time; by that time, so that it does not starve). Finding the first jobs costs no more with
# many jobs; a change of a job costs the logarithm of their number.
#
# The mean is that of the waiting jobs with due times. It is kept (`scale_s`) until it is off by
# half, and only then are the early jobs sorted anew: rarely, since as many jobs must have come or
# gone.
#
# What a restart sees: `scale_s`, in the planner's state. The lists are made again from the view.


OLD, DUE, OTHER = 0, 1, 2
"""The classes of waiting jobs of one priority, in the order of service."""

_EARLY = 3
_LEAST_S = 1.0
_LOOK_AHEAD = 2.0
"""The constant k of the rule: slack counts in multiples of it times the mean remaining time."""
_OFF = 1.5
_CLOCK_SET_S = 1.0

Key = tuple[Any, ...]


def prefix(job: Job) -> Key:
    """Return what goes before every rank: the recovery queue, and the priority."""
    return (not job.recovers, -job.spec.priority)


def old_from_s(job: Job, max_wait_s: float) -> float:
    """Return the epoch second from which a job goes before all that are not old."""
    since = job.submitted if job.requeued is None else job.requeued.at
    return max(since.wall_s, job.spec.due_s or 0.0) + max_wait_s


class _Entry(Struct):
    """A ranked job. `size`: the logarithm of weight / remaining; `line`, `key`: where it is."""

    prefix: Key
    size: float
    latest_s: float
    old_s: float
    remaining_s: float
    weight: float
    line: int = DUE
    key: Key = ()
    turn: tuple[float, int] | None = None


class Ranking:
    """The waiting jobs with due times, by what a delay of them costs. Times are epoch seconds."""

    def __init__(self, source: object, max_wait_s: float, scale_s: float) -> None:
        """`source`: what it follows. `scale_s`: the mean remaining time; 0 if unknown."""
        self.source = source
        self.scale_s = scale_s
        self.version = 0
        """Grows with every change of a job or of its class."""
        self._max_wait_s = max_wait_s
        self._jobs: dict[int, _Entry] = {}
        self._lists: dict[int, list[Key]] = {OLD: [], DUE: [], _EARLY: []}
        self._turns: list[tuple[float, int]] = []
        self._total_s = 0.0
        self._now_s = -inf
        self.late_weight = 0.0
        """The weights of the late jobs together."""

    def __len__(self) -> int:
        return len(self._jobs)

    @property
    def next_turn_s(self) -> float:
        """The time at which the next job changes its class; infinity without one."""
        return self._turns[0][0] if self._turns else inf

    def is_ahead(self, now_s: float) -> bool:
        """Return whether the clock was set back since the last update."""
        return now_s < self._now_s - _CLOCK_SET_S

    def update(
        self, touched: Mapping[int, Job | None], left_s: Callable[[Job], float], now_s: float
    ) -> None:
        """Take in the jobs that came, changed or left (None), and the time.

        `left_s` returns a job's remaining time.
        """
        again, self._now_s = self.is_ahead(now_s), now_s
        for job_id, job in sorted(touched.items(), key=lambda each: each[0]):
            self._discard(job_id)
            if job is not None:
                self._add(job, left_s(job))
        if touched:
            self.version += 1
            mean_s = self._total_s / len(self._jobs) if self._jobs else 0.0
            if not self.scale_s / _OFF <= mean_s <= self.scale_s * _OFF:
                self.scale_s, again = mean_s, True
        if again:
            self._sort_again()
        while self._turns and self._turns[0][0] <= now_s:
            job_id = self._turns[0][1]
            self._leave(job_id, self._jobs[job_id])
            self._enter(job_id, self._jobs[job_id])
            self.version += 1

    def first(self, now_s: float) -> Iterator[Key]:
        """Yield a sort key for each job, whose last part is its id; the first job first."""
        shift = now_s / self._unit_s
        lines = [
            _keys(found, OLD if line == OLD else DUE, shift if line == _EARLY else 0.0)
            for line, found in self._lists.items()
            if found
        ]
        return merge(*lines)

    def cost_rate(self, job_id: int, now_s: float) -> float | None:
        """Return a job's apparent tardiness cost (weight per second); None: it is not ranked."""
        entry = self._jobs.get(job_id)
        if entry is None:
            return None
        return exp(entry.size - max(0.0, entry.latest_s - now_s) / self._unit_s)

    def latest_s(self, job_id: int) -> float | None:
        """Return when a job must start to end in time, as expected; None: it is not ranked."""
        entry = self._jobs.get(job_id)
        return None if entry is None else entry.latest_s

    @property
    def _unit_s(self) -> float:
        return _LOOK_AHEAD * max(_LEAST_S, self.scale_s)

    def _add(self, job: Job, left_s: float) -> None:
        left_s, due_s = max(_LEAST_S, left_s), job.spec.due_s
        assert due_s is not None
        size = log(max(1e-9, job.spec.weight) / left_s)
        old_s = old_from_s(job, self._max_wait_s)
        entry = _Entry(prefix(job), size, due_s - left_s, old_s, left_s, job.spec.weight)
        self._jobs[job.id] = entry
        self._total_s += left_s
        self._enter(job.id, entry)

    def _enter(self, job_id: int, entry: _Entry) -> None:
        if entry.old_s <= self._now_s:
            entry.line, entry.key = OLD, (entry.prefix, entry.old_s, job_id)
        elif entry.latest_s <= self._now_s:
            entry.line, entry.key = DUE, (entry.prefix, -entry.size, job_id)
            entry.turn = (entry.old_s, job_id)
            self.late_weight += entry.weight
        else:
            size = entry.latest_s / self._unit_s - entry.size
            entry.line, entry.key = _EARLY, (entry.prefix, size, job_id)
            entry.turn = (min(entry.latest_s, entry.old_s), job_id)
        insort(self._lists[entry.line], entry.key)
        if entry.turn is not None:
            insort(self._turns, entry.turn)

    def _leave(self, job_id: int, entry: _Entry) -> None:
        line = self._lists[entry.line]
        del line[bisect_left(line, entry.key)]
        if entry.line == DUE:
            self.late_weight -= entry.weight if len(line) else self.late_weight
        if entry.turn is not None:
            del self._turns[bisect_left(self._turns, entry.turn)]
            entry.turn = None

    def _discard(self, job_id: int) -> None:
        entry = self._jobs.pop(job_id, None)
        if entry is not None:
            self._leave(job_id, entry)
            self._total_s = self._total_s - entry.remaining_s if self._jobs else 0.0

    def _sort_again(self) -> None:
        for job_id, entry in self._jobs.items():
            self._leave(job_id, entry)
            self._enter(job_id, entry)


def _keys(line: list[Key], kind: int, shift: float) -> Iterator[Key]:
    for before, size, job_id in line:
        yield before, kind, size - shift, job_id
