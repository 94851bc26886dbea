"""What a late end and a run cost, and whether stopping a running job for a waiting one pays."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from radrm.core.constraints.kinds import is_name_of
from radrm.core.records import Attempt, Instant, Job
from radrm.deadlines.costs import Costs
from radrm.deadlines.remaining import TIME_LIMIT, remaining

_LEAST_S = 1.0
_USUAL_W = 300.0
"""The power of a GPU of a kind that `energy.node_watts` does not name. An assumption."""
_MOST_CHANGES = 100
_CHEAPER = 0.99
"""A start is worth waiting for if its energy costs less than this part."""


@dataclass(frozen=True, slots=True)
class Left:
    """Seconds that a job has left to run: expected, and at most (infinity: unbounded)."""

    value_s: float
    upper_s: float


@dataclass(frozen=True, slots=True)
class Terms:
    """The costs of a site, and what is assumed where nothing is known."""

    costs: Costs
    unknown_duration_s: float

    def left(self, job: Job, live: Attempt | None, now: Instant) -> Left:
        """Return the run time that a job has left.

        Of one that only a time limit bounds, and of one that nothing is known of:
        `unknown_duration_s`, or the limit if that is less. A running one is expected to last so
        long from now, whatever it has run.
        """
        found = remaining(job, live, now)
        if found is None:
            return Left(self.unknown_duration_s, inf)
        if found.source == TIME_LIMIT:
            return Left(min(found.value_s, self.unknown_duration_s), found.upper_s)
        return Left(max(_LEAST_S, found.value_s), found.upper_s)

    def on_kind(self, job: Job, left: Left, name: str) -> Left:
        """Return the run time of a waiting job on devices of this name, if its profile has it."""
        done = job.saved.work_done if job.saved is not None else None
        part = 1.0 - min(1.0, max(0.0, done or 0.0))
        for each in job.profile:
            if each.gpus == job.spec.gpus and is_name_of(name, each.kind):
                value_s = max(_LEAST_S, each.duration_s * part)
                return Left(value_s, max(value_s, left.upper_s * value_s / left.value_s))
        return left

    def lateness(self, job: Job, end_wall_s: float) -> float:
        """Return what it costs that a job ends then; 0 in time, or without a due time."""
        due_s = job.spec.due_s
        if due_s is None:
            return 0.0
        return self.costs.tardiness_cost(job.spec.weight, end_wall_s - due_s)

    def time(self, weight: float, seconds: float) -> float:
        """Return what a delay costs of a job that is late anyway."""
        return self.costs.tardiness_cost(weight, seconds)

    def energy(self, name: str, gpus: int, begin_wall_s: float, seconds: float) -> float:
        """Return what the energy of a run costs on so many devices of this name."""
        watts = self.costs.node_w(name, gpus)
        watts = _USUAL_W * gpus if watts is None else watts
        return self.costs.cost_of_watts(watts, begin_wall_s, seconds)

    def cheapest_start_s(self, left: Left, now_s: float, latest_s: float) -> float:
        """Return the epoch second, from now to `latest_s`, from which a run's energy costs least.

        The earliest of equals. Only changes of the price are tried, and starts that end at one.
        """
        if now_s >= latest_s:
            return now_s
        changes, at_s = [], now_s
        while len(changes) < _MOST_CHANGES:
            at_s = self.costs.price_changes_s(at_s)
            if at_s == inf or at_s > latest_s + left.value_s:
                break
            changes.append(at_s)
        starts = sorted({now_s, *changes, *(each - left.value_s for each in changes)})

        def cost(start_s: float) -> float:
            return self.costs.cost_of_watts(_USUAL_W, start_s, left.value_s)

        best_s, least = now_s, cost(now_s)
        for start_s in starts:
            if now_s < start_s <= latest_s and cost(start_s) < least * _CHEAPER:
                best_s, least = start_s, cost(start_s)
        return best_s
