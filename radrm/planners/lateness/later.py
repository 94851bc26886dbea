"""Whether a job that could start now would end cheaper if it waited.

Two things may be worth it: a cheaper hour, and better devices that are expected to be free soon
(of a kind on which it costs less, or without the jobs that would slow it down).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import inf

from msgspec import Struct, field

from radrm.core.planning.placing import Found
from radrm.core.records import Attempt, Job, Refusal
from radrm.core.remaining import remaining_on
from radrm.core.units import show_seconds
from radrm.core.view import View
from radrm.planners.durations import sizes
from radrm.planners.forecast import Forecast
from radrm.planners.lateness.tardiness import Notes, Terms
from radrm.structs import replace

# ------------------------------------------------------------------
# Where a job could run: the servers, the number of GPUs, and what that would cost.


class Server(Struct, frozen=True):
    """The GPUs of one kind in a node, and how many of them are in use."""

    name: str
    uuids: tuple[str, ...]
    used: int


class Option(Struct, frozen=True, order=True):
    """A job on so many GPUs of a server, from `at_s` (boot time): what it costs, and its parts."""

    cost: float
    at_s: float
    gpus: int
    left_s: float
    late: float
    name: str
    uuids: tuple[str, ...]


def servers(view: View) -> list[Server]:
    """Return the servers with their GPUs, by kind."""
    found: dict[tuple[str, str], list[str]] = {}
    for device in view.devices():
        found.setdefault((device.node, device.name), []).append(device.uuid)
    return [
        Server(name, tuple(uuids), sum(bool(view.reservations(uuid)) for uuid in uuids))
        for (_, name), uuids in found.items()
    ]


def wide(job: Job, gpus: int) -> Job:
    """Return a job as it is with this number of GPUs, one for each task."""
    if gpus == job.spec.gpus:
        return job
    (role,) = job.spec.roles
    return replace(job, spec=replace(job.spec, roles=(replace(role, count_min=gpus),)))


def options(
    terms: Terms,
    view: View,
    job: Job,
    forecast: Forecast,
    live: tuple[Attempt, str] | None = None,
    most: int = 1,
    begin_s: float = 0.0,
) -> Iterator[Option]:
    """Yield where a job could run. `most`: the GPUs that it may use beyond its least number.

    `live`: its attempt and the kind of its GPUs; then it must save and start again, which takes
    `begin_s`.
    """
    now, least = view.now, job.spec.gpus
    can = [n for n in sizes(job) or {least} if n <= least + most]
    can = [n for n in can if n == least or view.refuse_gpus(job, n) is None]
    here = None if live is None else (live[1], len(live[0].placement.devices))
    for server in servers(view):
        ready = sorted(forecast.ready_s[uuid] for uuid in server.uuids)
        for gpus in can:
            at_s = ready[gpus - 1] if gpus <= len(ready) else inf
            if at_s == inf:
                continue
            if live is None:
                left_s = terms.left(job, None, now, server.name, gpus).value_s
            else:
                left = remaining_on(job, live[0], now, (server.name, gpus), here)
                left_s = inf if left is None else left.value_s
            if gpus != least and not _is_profiled(job, server.name, gpus):
                continue
            wall_s = now.wall_s + at_s - now.boot_s + begin_s
            late = terms.lateness(job, wall_s + left_s)
            used = 0 if at_s > now.boot_s else server.used
            energy = terms.energy(server.name, gpus, wall_s, left_s, used)
            yield Option(late + energy, at_s, gpus, left_s, late, server.name, server.uuids)


def _is_profiled(job: Job, name: str, gpus: int) -> bool:
    return any(each.kind == name and each.gpus == gpus for each in job.profile)


_MOST_CHEAP = 20
"""The jobs that wait for cheap energy at a time."""
_WORTH = 0.95
"""A job waits for other devices if it costs less than this part there."""

Find = Callable[[Job, Sequence[str]], Found]
ForecastOf = Callable[[Job, bool], "Forecast | None"]


class Later(Struct):
    """What waits for later at one call of the planner.

    `find` places a job by the policy on some devices; `forecast` says when it could start, by the
    policy or (True) on idle devices.
    """

    view: View
    terms: Terms
    notes: Notes
    find: Find
    forecast: ForecastOf
    spare: int = 0
    """The GPUs that a job may use beyond its least number: no other job waits for them."""
    wake_s: float = inf
    """When (boot time) a job need not wait any longer."""
    _cheap: list[tuple[float, float]] = field(default_factory=list)
    """The due time and the longest run of each job that waits for a cheaper hour."""
    _cheap_s: float = -inf

    def price(self, job: Job) -> tuple[float, Refusal] | None:
        """Return when (boot time) a job must start, and until when it waits for cheaper energy.

        None: it does not. All jobs that wait so must end in time one after another, in any order.
        """
        costs, now, due_s = self.terms.costs, self.view.now, job.spec.due_s
        if not costs.wait_for_cheap or due_s is None or len(self._cheap) >= _MOST_CHEAP:
            return None
        left = self.terms.left(job, None, now)
        start_s = self.terms.cheapest_start_s(left.value_s, now.wall_s, due_s - left.upper_s)
        all_due = [*self._cheap, (due_s, left.upper_s)]
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
        view, now = self.view, self.view.now
        shared = any(view.reservations(uuid) for uuid in found.placement.devices)
        chooses = bool(job.profile) and not view.prefers(job)
        forecast = self.forecast(job, True) if shared or chooses else None
        if forecast is None:
            return found
        cost = self._cost_now(job, found)
        for option in sorted(options(self.terms, view, job, forecast, most=self.spare)):
            is_now = option.at_s <= now.boot_s
            if option.cost >= cost * (1.0 if is_now else _WORTH):
                return found
            if is_now and chooses:
                other = self.find(wide(job, option.gpus), option.uuids)
                if other.placement is not None:
                    return other
            elif not is_now and self.notes.may_wait(job, option.at_s):
                self.wake_s = min(self.wake_s, option.at_s)
                more = f"{cost - option.cost:.2g} {self.terms.costs.currency} more"
                why = (
                    f"it waits for a {option.name}, expected in "
                    f"{show_seconds(option.at_s - now.boot_s)}: starting now costs {more}"
                )
                return (Refusal("cheaper", why),)
        return found

    def _cost_now(self, job: Job, found: Found) -> float:
        """Return what a job costs that starts now where it was found room."""
        assert found.placement is not None
        now, terms, view = self.view.now, self.terms, self.view
        devices = found.placement.devices
        server = next(each for each in servers(view) if devices[0] in each.uuids)
        left_s = terms.left(job, None, now, server.name, len(devices)).value_s
        forecast, end_s = self.forecast(job, False), now.boot_s + left_s
        if forecast is not None:
            end_s = max(end_s, forecast.end_of(job, found.placement))
        late = terms.lateness(job, now.wall_s + end_s - now.boot_s) if end_s < inf else 0.0
        energy = terms.energy(server.name, len(devices), now.wall_s, left_s, server.used)
        return late + energy

    def _boot_s(self, wall_s: float) -> float:
        return self.view.now.boot_s + wall_s - self.view.now.wall_s


def _in_time(jobs: Sequence[tuple[float, float]], start_s: float) -> bool:
    """Return whether jobs, as (due time, run time), are in time one after another from then on.

    In whatever order: which one is first is decided then.
    """
    last_s = start_s + sum(run_s for _, run_s in jobs)
    return all(last_s <= due_s for due_s, _ in jobs)
