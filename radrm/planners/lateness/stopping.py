"""Whether stopping a running job for a waiting one pays, and which one."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from radrm.core.records import Attempt, Job
from radrm.core.view import View
from radrm.core.words import ActionKind, CheckpointKind, JobState
from radrm.deadlines import prefix
from radrm.planners.forecast import Forecast
from radrm.planners.lateness.later import Option, options, servers
from radrm.planners.lateness.tardiness import Notes, Terms


class Limits(Struct, frozen=True):
    """When a stop pays (`margin`), what a restart takes, and how long a job must have run."""

    margin: float
    restart_s: float
    min_run_s: float


class Swap(Struct, frozen=True):
    """A running job (`stopped`) that gives way to a waiting one (`started`). Seconds from now.

    Without it the waiting job starts in `start_s`. With it, it starts when the other has saved,
    and that one goes on in its place then, or when it ends.
    """

    terms: Terms
    now_s: float
    started: Job
    started_left_s: float
    start_s: float
    stopped: Job
    stopped_left_s: float
    save_s: float
    restart_s: float
    late_weight: float
    """The weights of the late jobs that wait for each device."""

    @property
    def saved(self) -> float:
        """What the earlier end of the waiting job saves."""
        without_s = self.start_s + self.started_left_s
        then_s = self.save_s + self.started_left_s
        late = self.terms.lateness
        return late(self.started, self.now_s + without_s) - late(self.started, self.now_s + then_s)

    def cost(self, name: str) -> float:
        """Return what the stop costs, on devices of this name."""
        lost_s = self.save_s + self.restart_s
        back_s = max(self.save_s, min(self.start_s, self.save_s + self.started_left_s))
        then_s = back_s + self.restart_s + self.stopped_left_s
        terms, job, late = self.terms, self.stopped, self.terms.lateness
        added = late(job, self.now_s + then_s) - late(job, self.now_s + self.stopped_left_s)
        gpus = max(1, job.spec.gpus)
        delayed = job.spec.weight + self.late_weight * gpus
        energy = terms.energy(name, gpus, self.now_s, lost_s)
        return added + terms.costs.tardiness_cost(delayed, lost_s) + energy


class Stops(Struct, frozen=True):
    """Finds a running job to stop. `late_weight`: that of all late jobs that wait."""

    view: View
    terms: Terms
    limits: Limits
    notes: Notes
    late_weight: float

    def victim_for(self, job: Job, forecast: Forecast | None) -> Job | None:
        """Return the running job whose stop for a waiting one saves most; None if none pays."""
        view, now, terms = self.view, self.view.now, self.terms
        if forecast is None:
            return None
        ready_s = min(forecast.start_s - now.boot_s, terms.unknown_duration_s)
        left_s = terms.left(job, None, now).value_s
        if not terms.lateness(job, now.wall_s + ready_s + left_s):
            return None
        late_weight = self.late_weight / max(1, len(view.devices()))
        names = {device.uuid: device.name for device in view.devices()}
        worth: list[tuple[float, Job, Attempt]] = []
        for other, attempt in view.running():
            if not self._may_stop(other, attempt, job):
                continue
            swap = Swap(
                terms,
                now.wall_s,
                job,
                left_s,
                ready_s,
                other,
                terms.left(other, attempt, now).value_s,
                self.save_s(other),
                self.limits.restart_s,
                late_weight,
            )
            name = names.get(attempt.placement.devices[0], "")
            gain = swap.saved - (1.0 + self.limits.margin) * swap.cost(name)
            if gain > 0:
                worth.append((gain, other, attempt))
        for _, other, attempt in sorted(worth, key=lambda each: (-each[0], each[1].id)):
            if forecast.start_without_s(other.id, attempt.placement.devices) <= now.boot_s:
                return other
        return None

    def _may_stop(self, job: Job, attempt: Attempt, instead: Job) -> bool:
        """Return whether a running job can save, has run long enough and is no more urgent."""
        return prefix(instead) <= prefix(job) and self.can_stop(job, attempt)

    def can_stop(self, job: Job, attempt: Attempt) -> bool:
        """Return whether a running job can save, has run long enough, and may be asked now."""
        ran_s = None if attempt.started is None else self.view.now.since(attempt.started)
        return (
            job.state is JobState.RUNNING
            and job.spec.checkpoint.kind is not CheckpointKind.NONE
            and job.target is None
            and attempt.target is None
            and attempt.stop is None
            and attempt.asked(ActionKind.CHECKPOINT) is None
            and bool(attempt.placement.devices)
            and (ran_s is None or ran_s >= self.limits.min_run_s)
            and not self.notes.is_cooling(job)
        )

    def save_s(self, job: Job) -> float:
        """Return how long a job needs to save: as measured, else as stated, else as to restart."""
        cost_s = job.spec.checkpoint.cost_s if job.save_s is None else job.save_s
        return self.limits.restart_s if cost_s is None else cost_s

    def better(
        self, job: Job, attempt: Attempt, forecast: Forecast, spare: int
    ) -> Iterator[Option]:
        """Yield where a running job would end so much less late that a move pays; the best first.

        Its GPUs must be ready now.
        """
        view, now, terms = self.view, self.view.now, self.terms
        here = next((s for s in servers(view) if attempt.placement.devices[0] in s.uuids), None)
        if here is None or not self.can_stop(job, attempt):
            return
        gpus, lost_s = len(attempt.placement.devices), self.save_s(job) + self.limits.restart_s
        left_s = terms.left(job, attempt, now, here.name, gpus).value_s
        late = terms.lateness(job, now.wall_s + left_s)
        if not late:
            return
        energy = terms.energy(here.name, gpus, now.wall_s, left_s, max(0, here.used - gpus))
        lost = terms.costs.tardiness_cost(job.spec.weight, lost_s)
        lost += terms.energy(here.name, gpus, now.wall_s, lost_s)
        live = attempt, here.name
        found = options(terms, view, job, forecast, live, spare, lost_s)
        for option in sorted(found):
            less = late + energy - option.cost
            if (
                option.at_s <= now.boot_s
                and option.late < late
                and less > self.limits.margin * lost
            ):
                yield option
