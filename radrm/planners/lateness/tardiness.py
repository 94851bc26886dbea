"""What the planner `deadline` weighs, the places that it keeps, and what it remembers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import inf
from typing import Any

from msgspec import Struct

from radrm.core.constraints.reserve import MOST_AHEAD_S
from radrm.core.proposals import Reserve
from radrm.core.records import (
    Attempt,
    Instant,
    Job,
    Placement,
    Refusal,
    moment,
    plain_moment,
)
from radrm.core.remaining import Remaining, remaining
from radrm.core.units import show_seconds
from radrm.core.view import View
from radrm.core.words import ActionKind
from radrm.deadlines import Costs, prefix
from radrm.planners.durations import sizes
from radrm.planners.forecast import Forecast

USUAL_W = 300.0
"""The power of a GPU of a kind that `energy.node_watts` does not name. An assumption."""
_LEAST_S = 1.0
_HOUR_S = 3600.0
_ROUNDING_S = 0.001
_MOST_NOTES = 1000
_WAIT, _WAIT_MORE_S = 1.5, 60.0
_MOST_CHANGES = 100
_CHEAPER = 0.99
"""A start is worth waiting for if its energy costs less than this part."""


class Terms(Struct, frozen=True):
    """The costs of a site, and the duration to assume of a job of which none is known.

    A time limit bounds that duration.
    """

    costs: Costs
    unknown_duration_s: float

    def left(
        self,
        job: Job,
        live: Attempt | None,
        now: Instant,
        kind: str | None = None,
        gpus: int | None = None,
    ) -> Remaining:
        """Return the run time that a job has left, on these GPUs or as it would run anyway."""
        gpus = job.spec.gpus if gpus is None else gpus
        found = remaining(job, live, now, kind=kind, gpus=gpus, unknown_s=self.unknown_duration_s)
        assert found is not None
        value_s = max(_LEAST_S, found.value_s)
        return Remaining(value_s, max(value_s, found.upper_s), found.source)

    def least_s(self, job: Job, now: Instant) -> float:
        """Return the least run time that a waiting job has left, over the GPUs of its profile."""
        can = sizes(job) or {job.spec.gpus}
        ways = [(each.kind, each.gpus) for each in job.profile if each.gpus in can]
        lefts = [self.left(job, None, now, *way).value_s for way in ways]
        return min(lefts, default=0.0) or self.left(job, None, now).value_s

    def lateness(self, job: Job, end_wall_s: float) -> float:
        """Return what it costs that a job ends then; 0 in time, or without a due time."""
        due_s = job.spec.due_s
        if due_s is None:
            return 0.0
        return self.costs.tardiness_cost(job.spec.weight, end_wall_s - due_s)

    def energy(
        self, name: str, gpus: int, begin_wall_s: float, seconds: float, used: int = 0
    ) -> float:
        """Return what the energy of a run costs on so many devices of this name.

        `used`: those of its server that are in use anyway.
        """
        watts, before = self.costs.node_w(name, used + gpus), self.costs.node_w(name, used)
        more = USUAL_W * gpus if watts is None else watts - (before or 0.0)
        return self.costs.cost_of_watts(more, begin_wall_s, seconds)

    def cheapest_start_s(self, length_s: float, now_s: float, latest_s: float) -> float:
        """Return the epoch second, from now to `latest_s`, from which a run's energy costs least.

        The earliest of equals. Only changes of the price are tried, and starts that end at one.
        """
        changes: list[float] = []
        at_s = now_s
        while now_s < latest_s and len(changes) < _MOST_CHANGES:
            at_s = self.costs.price_changes_s(at_s)
            if at_s > latest_s + length_s:
                break
            changes.append(at_s)
        best_s, least = now_s, self.costs.cost_of_watts(USUAL_W, now_s, length_s)
        for start_s in sorted({*changes, *(each - length_s for each in changes)}):
            if now_s < start_s <= latest_s:
                cost = self.costs.cost_of_watts(USUAL_W, start_s, length_s)
                if cost < least * _CHEAPER:
                    best_s, least = start_s, cost
        return best_s


# ------------------------------------------------------------------ places that are kept

ForecastOf = Callable[[Job], "Forecast | None"]


class Hold(Struct):
    """A waiting job whose start others may not delay beyond `until_s` (boot time).

    None: not at all. `only_lower`: it is late whatever is done, so only jobs of a lower priority
    may not. `cheap`: it could start, and waits for cheap energy.
    """

    job: Job
    until_s: float | None
    only_lower: bool = False
    cheap: bool = False
    is_decided: bool = True
    """False: it has a due time, and `until_s` and `only_lower` are still to be found."""
    _made: bool = False
    _forecast: Forecast | None = None

    def forecast(self, forecast_of: ForecastOf) -> Forecast | None:
        """Return when the job could start. It is kept until `forget`."""
        if not self._made:
            self._made, self._forecast = True, forecast_of(self.job)
        return self._forecast

    def start_s(self, forecast_of: ForecastOf) -> float:
        """Return when the job could start (boot time); infinity: not foreseeable."""
        found = self.forecast(forecast_of)
        return inf if found is None else found.start_s

    def forget(self) -> None:
        """Forget the forecast, after a change of the view."""
        self._made, self._forecast = False, None

    def decide(self, forecast_of: ForecastOf, terms: Terms, now: Instant) -> None:
        """Find until when the job must start, and whether it is late whatever is done."""
        due_s = self.job.spec.due_s
        if self.is_decided or due_s is None:
            return
        self.is_decided = True
        left, in_s = terms.left(self.job, None, now), due_s - now.wall_s
        self.until_s = now.boot_s + in_s - left.upper_s
        start_s = self.start_s(forecast_of)
        self.only_lower = start_s < inf and start_s + left.value_s > now.boot_s + in_s

    def reservation(self, view: View, forecast_of: ForecastOf, terms: Terms) -> Reserve | None:
        """Return the reservation of whole devices for the job; None if none can be made."""
        job, forecast = self.job, self.forecast(forecast_of)
        if forecast is None or forecast.start_s == inf:
            return None
        length_s = job.limit_s or terms.left(job, None, view.now).value_s
        ready = sorted((at_s, uuid) for uuid, at_s in forecast.ready_s.items())[: job.spec.gpus]
        start_s = forecast.start_s
        for _, uuid in ready:
            free_s = view.earliest_s(uuid, None, length_s, job)
            if free_s is None:
                return None
            start_s = max(start_s, free_s)
        end_s = start_s + length_s
        if end_s > view.now.boot_s + MOST_AHEAD_S:
            return None
        devices = tuple((uuid, None) for _, uuid in ready)
        return Reserve(job_id=job.id, devices=devices, start_s=start_s, end_s=end_s)

    def refuse(
        self, view: View, forecast_of: ForecastOf, job: Job, placement: Placement
    ) -> Refusal | None:
        """Return why another job may not start on this placement; None if it may."""
        lower, now_s = prefix(job) > prefix(self.job), view.now.boot_s
        if self.only_lower and not lower:
            return None
        found, before_s = self.forecast(forecast_of), self.start_s(forecast_of)
        after_s = inf
        if found is not None and before_s < inf:
            after_s = found.start_after_s(job, placement)
        most_s = before_s
        if self.until_s is not None and not lower:
            most_s = max(before_s, self.until_s)
        if after_s < inf and after_s <= most_s + _ROUNDING_S:
            return None
        then = "later" if after_s == inf else f"in {show_seconds(after_s - now_s)}"
        must = "first" if before_s == inf else f"in {show_seconds(max(0.0, most_s - now_s))}"
        why = (
            f"with this job, job {self.job.label} could start {then}; it must start {must} "
            f"to be in time"
        )
        return Refusal("backfill", why)


def served_first(job: Job, rate: float | None, terms: Terms, now: Instant) -> Refusal:
    """Return, for the jobs behind it, that a job is served first. `rate`: its rank."""
    why = f"job {job.label} ({job.spec.name}) is served first and cannot start yet"
    due_s = job.spec.due_s
    if due_s is not None and rate is not None:
        left_s = due_s - now.wall_s
        when = f"due in {show_seconds(left_s)}" if left_s > 0 else f"{show_seconds(-left_s)} late"
        late = terms.costs.tardiness_cost(job.spec.weight, _HOUR_S)
        why += f": {when}, an hour's delay costs {late:.2g} {terms.costs.currency}"
    return Refusal("order", why)


# ------------------------------------------------------------------ what is remembered


class Notes(Struct):
    """What the planner remembers of jobs, by id, as plain JSON can hold it.

    `stops`: when a job was asked to give way. `gives`: for which waiting job it does, and its
    attempt. `waits`: until when (date) a job waits for other devices.
    """

    now: Instant
    stops: dict[str, list[Any]]
    gives: dict[str, list[int]]
    waits: dict[str, float]

    @classmethod
    def of(cls, kept: Any, view: View, cooldown_s: float) -> Notes:
        """Return the notes that still count. Jobs that are gone have none."""
        kept, now = kept or {}, view.now
        found = cls(now, {}, {}, {})
        gives = kept.get("gives", {})
        for key, at in kept.get("stops", {}).items():
            job, passed_s = view.job(int(key)), now.since(moment(at))
            passed_s = now.wall_s - at[1] if passed_s is None else passed_s
            if job is None:
                continue
            # One that takes longer than the pause to save has the pause after it.
            over = passed_s >= cooldown_s
            if over and (key not in gives or not _gives_way(view, job, gives[key][1])):
                continue
            found.stops[key] = plain_moment(now) if over or passed_s < 0 else at
        for key, (other_id, serial) in gives.items():
            job, other = view.job(int(key)), view.job(other_id)
            if key not in found.stops or job is None or other is None or not other.state.waiting:
                continue
            if job.state.waiting or _gives_way(view, job, serial):
                found.gives[key] = [other_id, serial]
        for key, until_s in kept.get("waits", {}).items():
            job = view.job(int(key))
            if job is not None and job.state.waiting:
                found.waits[key] = until_s
        return found

    def plain(self) -> dict[str, Any]:
        """Return them as a planner's state can hold them, without what is empty."""
        kept = {"stops": self.stops, "gives": self.gives, "waits": self.waits}
        return {name: notes for name, notes in kept.items() if notes}

    def is_cooling(self, job: Job) -> bool:
        """Return whether a job was asked to give way a short time ago."""
        return str(job.id) in self.stops or len(self.stops) >= _MOST_NOTES

    def stopped(self, view: View, job: Job, other: Job) -> None:
        """Note that a running job was asked to give way to a waiting one."""
        self.stops[str(job.id)] = plain_moment(self.now)
        attempt = next((a for j, a in view.running() if j.id == job.id), None)
        now = view.job(job.id)
        if attempt is not None and now is not None and _gives_way(view, now, attempt.serial):
            self.gives[str(job.id)] = [other.id, attempt.serial]

    def moved(self, job: Job) -> None:
        """Note that a running job was asked to move."""
        self.stops[str(job.id)] = plain_moment(self.now)

    def started(self, job: Job) -> None:
        """Note that a job has started."""
        self.gives = {key: each for key, each in self.gives.items() if each[0] != job.id}
        self.waits.pop(str(job.id), None)

    def is_made_way_for(self, job: Job) -> bool:
        """Return whether another job has been asked to give way to this one."""
        return any(each[0] == job.id for each in self.gives.values())

    def given_to_others(self, job: Job) -> set[int]:
        """Return the jobs that give way to other waiting jobs than this one."""
        return {int(key) for key, each in self.gives.items() if each[0] != job.id}

    def made_way_for(self, view: View) -> Iterator[Job]:
        """Yield the waiting jobs for which another one has been stopped."""
        for key, (other_id, _) in list(self.gives.items()):
            job, other = view.job(int(key)), view.job(other_id)
            if job is None or other is None:
                continue
            if job.state.waiting and other.state.waiting:
                yield other

    def stopping_for(self, view: View, job: Job) -> Job | None:
        """Return the running job that gives way to a waiting one."""
        for key, (other_id, _) in self.gives.items():
            other = view.job(int(key))
            if other_id == job.id and other is not None and not other.state.waiting:
                return other
        return None

    def may_wait(self, job: Job, at_s: float) -> bool:
        """Return whether a job may wait for devices that are expected then (boot time)."""
        key, most_s = str(job.id), _WAIT * (at_s - self.now.boot_s) + _WAIT_MORE_S
        if key not in self.waits and len(self.waits) >= _MOST_NOTES:
            return False
        until_s = min(self.waits.get(key, inf), self.now.wall_s + most_s)
        self.waits[key] = until_s
        return self.now.wall_s < until_s


def _gives_way(view: View, job: Job, serial: int) -> bool:
    """Return whether this attempt of a job is being saved and stopped."""
    attempt = next((a for j, a in view.running() if j.id == job.id), None)
    if attempt is None or attempt.serial != serial:
        return False
    asked = attempt.asked(ActionKind.CHECKPOINT)
    return attempt.stop is not None or (asked is not None and asked.stops)
