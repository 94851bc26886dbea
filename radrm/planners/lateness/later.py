"""Whether a job that could start now would end cheaper if it waited.

Two things may be worth it: a cheaper hour, and better devices that are expected to be free soon
(of a kind on which it costs less, or without the jobs that would slow it down).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import inf

from radrm.core.planning.assembly import Found
from radrm.core.records import Device, Job, Refusal
from radrm.core.units import show_seconds
from radrm.core.view import View
from radrm.planners.forecast import Forecast
from radrm.planners.lateness.tardiness import Notes, Terms

_MOST_CHEAP = 20
"""The jobs that wait for cheap energy at a time."""
_WORTH = 0.95
"""A job waits for other devices if it costs less than this part there."""

Find = Callable[[Job, Sequence[str]], Found]
ForecastOf = Callable[[Job, bool], "Forecast | None"]


@dataclass(slots=True)
class Later:
    """What waits for later at one call of the planner.

    `find` places a job by the policy on some devices; `forecast` says when it could start, by the
    policy or (True) on idle devices.
    """

    view: View
    terms: Terms
    notes: Notes
    find: Find
    forecast: ForecastOf
    wake_s: float = inf
    """When (boot time) a job need not wait any longer."""
    _cheap: list[tuple[float, float]] = field(default_factory=list)
    """The due time and the longest run of each job that waits for a cheaper hour."""
    _cheap_s: float = -inf

    def price(self, job: Job) -> tuple[float, Refusal] | None:
        """Return when (boot time) a job must start, and until when it waits for cheaper energy.

        None: it does not. All jobs that wait so must end in time one after another, at most.
        """
        costs, now, due_s = self.terms.costs, self.view.now, job.spec.due_s
        if not costs.wait_for_cheap or due_s is None or len(self._cheap) >= _MOST_CHEAP:
            return None
        left = self.terms.left(job, None, now)
        start_s = self.terms.cheapest_start_s(left.value_s, now.wall_s, due_s - left.upper_s)
        all_due = sorted([*self._cheap, (due_s, left.upper_s)])
        if start_s <= now.wall_s or not _in_time(all_due, max(self._cheap_s, start_s)):
            return None
        self._cheap, self._cheap_s = all_due, max(self._cheap_s, start_s)
        self.wake_s = min(self.wake_s, self._boot_s(start_s))
        before, then = costs.price_at(now.wall_s), costs.price_at(start_s)
        price = f"{then:g} in place of {before:g} {costs.currency}"
        if then >= before:
            price = f"as much as possible of its energy is cheap ({costs.currency})"
        why = (
            f"it starts in {show_seconds(start_s - now.wall_s)}, when a kWh costs {price}; it ends "
            f"at least {show_seconds(due_s - start_s - left.upper_s)} before its due time"
        )
        return self._boot_s(due_s - left.upper_s), Refusal("price", why)

    def devices(self, job: Job, found: Found) -> Found | tuple[Refusal, ...]:
        """Return where a job starts: on the kind of GPU where it costs least; or why it waits."""
        assert found.placement is not None
        view, now, terms = self.view, self.view.now, self.terms
        kinds: dict[str, list[Device]] = {}
        for device in view.devices():
            kinds.setdefault(device.name, []).append(device)
        shared = any(view.reservations(uuid) for uuid in found.placement.devices)
        chooses = len(kinds) > 1 and bool(job.profile) and not view.prefers(job)
        if not shared and not chooses:
            return found
        forecast = self.forecast(job, not chooses)
        if forecast is None:
            return found
        options: list[tuple[float, float, str]] = []
        for name, devices in kinds.items():
            left_s = terms.left(job, None, now, devices[0]).value_s
            ready = sorted(forecast.ready_s[device.uuid] for device in devices)
            at_s = ready[job.spec.gpus - 1] if job.spec.gpus <= len(ready) else inf
            if at_s < inf:
                wall_s = now.wall_s + at_s - now.boot_s
                energy = terms.energy(name, job.spec.gpus, wall_s, left_s)
                options.append((terms.lateness(job, wall_s + left_s) + energy, at_s, name))
        cost = self._cost_now(job, found)
        for then, at_s, name in sorted(options):
            if then >= cost * _WORTH:
                return found
            if chooses and at_s <= now.boot_s:
                other = self.find(job, [device.uuid for device in kinds[name]])
                if other.placement is not None:
                    return other
            elif at_s > now.boot_s and self.notes.may_wait(job, at_s):
                self.wake_s = min(self.wake_s, at_s)
                why = (
                    f"it waits for a {name}, expected in {show_seconds(at_s - now.boot_s)}: "
                    f"starting now costs {cost - then:.2g} {self.terms.costs.currency} more"
                )
                return (Refusal("cheaper", why),)
        return found

    def _cost_now(self, job: Job, found: Found) -> float:
        """Return what a job costs that starts now where it was found room."""
        assert found.placement is not None
        now, terms = self.view.now, self.terms
        device = next(d for d in self.view.devices() if d.uuid == found.placement.devices[0])
        left_s = terms.left(job, None, now, device).value_s
        forecast = self.forecast(job, False)
        end_s = now.boot_s + left_s
        if forecast is not None:
            end_s = max(end_s, forecast.end_of(job, found.placement))
        late = terms.lateness(job, now.wall_s + end_s - now.boot_s) if end_s < inf else 0.0
        return late + terms.energy(device.name, job.spec.gpus, now.wall_s, left_s)

    def _boot_s(self, wall_s: float) -> float:
        return self.view.now.boot_s + wall_s - self.view.now.wall_s


def _in_time(jobs: Sequence[tuple[float, float]], start_s: float) -> bool:
    """Return whether jobs, as (due time, run time), are in time one after another from then on."""
    for due_s, run_s in jobs:
        start_s += run_s
        if start_s > due_s:
            return False
    return True
