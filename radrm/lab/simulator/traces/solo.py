"""What jobs would show alone, from readings of devices that they shared.

Theory of operation
-------------------
The daemon records, for each run and device, the mean SM activity of the *device* over the run.
The model gives this mean from the demands of all runs that were there (`total_activity` of each
part of `periods`). So the recorded means are equations for the demands. Runs of the same job
share a demand, and a run alone gives its demand at once.

The equations do not determine every demand: a full device hides how much more its jobs want,
and two jobs that always ran together show only their sum. So the result is several *draws*:
sets of demands that are about as likely as their spread says. Each draw is a least-squares fit
to readings and prior values that are changed by random errors of their own size (randomized
maximum likelihood; Oliver, He and Reynolds 1996). For linear equations with normal errors the
draws have exactly the posterior distribution; here the equations are nearly linear except near
the ceiling, where the prior decides.

The unknowns are the logits of the demands, and their mean over all jobs. A fit is Gauss-Newton;
each step solves the normal equations by conjugate gradients. Iterations and terms are bounded.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import ceil, exp, hypot, log
from random import Random

from msgspec import Struct

from radrm.interference.model import (
    Demand,
    Load,
    activity,
    mixed_speeds,
    running_speeds,
    total_activity,
)

# ------------------------------------------------------------------
# Runs that shared devices, cut into periods in which the same runs were at work.
#
# Theory of operation
# -------------------
# A run loads its devices from `computes_s` until `end_s`. The speed of a run on several devices
# depends on its neighbours on all of them. So a period covers a *component*: devices that such
# runs connect. Each change on a device ends the period of its component, and begins new ones.
#
# The times of all runs are on one clock, in seconds. Nothing here depends on demands, so periods
# are made once, and speeds are computed for many assumed demands.


_BEGINS, _COMPUTES, _ENDS = range(3)


class Run(Struct, frozen=True):
    """A run on one or more devices. It puts no load on them before `computes_s`."""

    devices: tuple[str, ...]
    mps: bool
    begin_s: float
    computes_s: float
    end_s: float


class Part(Struct, frozen=True):
    """One device in a period: the positions of the runs at work on it; `mps`: all are clients.
    `joint`: runs on several devices have neighbours in the period."""

    seconds: float
    runs: tuple[int, ...]
    mps: bool
    joint: bool


class Period(Struct, frozen=True):
    """`parts` are positions in `Periods.parts`, one for each device, and `runs` those at work."""

    seconds: float
    runs: tuple[int, ...]
    parts: tuple[int, ...]


class Periods(Struct, frozen=True):
    """All periods of a history.

    `within` has, for each run and device, the positions in `parts` between the run's begin and
    end there.
    """

    runs: tuple[Run, ...]
    periods: tuple[Period, ...]
    parts: tuple[Part, ...]
    within: dict[tuple[int, str], tuple[int, ...]]


class _Cutter:
    """Goes through all changes in the order of time."""

    def __init__(self, runs: Sequence[Run]) -> None:
        self.runs = runs
        self.here: dict[str, dict[int, None]] = {d: {} for run in runs for d in run.devices}
        self.since: dict[str, float] = dict.fromkeys(self.here, 0.0)
        self.of_device: dict[str, list[int]] = {d: [] for d in self.here}
        self.parts: list[Part] = []
        self.periods: list[Period] = []

    def component(self, devices: Iterable[str]) -> list[str]:
        """Return the devices that runs at work connect with these, these included."""
        found = dict.fromkeys(devices)
        left = list(found)
        while left:
            for at in self.here[left.pop()]:
                more = [d for d in self.runs[at].devices if d not in found]
                found.update(dict.fromkeys(more))
                left += more
        return list(found)

    def close(self, devices: Iterable[str], now_s: float) -> None:
        """End the periods of the components of these devices."""
        left = dict.fromkeys(devices)
        while left:
            component = self.component([next(iter(left))])
            busy = [d for d in component if self.here[d]]
            seconds = now_s - self.since[component[0]]
            if busy and seconds > 0:
                self._add(busy, seconds)
            for device in component:
                self.since[device] = now_s
                left.pop(device, None)

    def _add(self, devices: Sequence[str], seconds: float) -> None:
        first = len(self.parts)
        runs = tuple(dict.fromkeys(at for d in devices for at in self.here[d]))
        joint = len(runs) > 1 and any(len(self.runs[at].devices) > 1 for at in runs)
        for device in devices:
            here = tuple(self.here[device])
            self.of_device[device].append(len(self.parts))
            mps = all(self.runs[at].mps for at in here)
            self.parts.append(Part(seconds, here, mps, joint))
        self.periods.append(Period(seconds, runs, tuple(range(first, len(self.parts)))))


def cut(runs: Sequence[Run]) -> Periods:
    """Return the periods of these runs. Each has `begin_s <= computes_s <= end_s`, and devices
    that differ."""
    changes = sorted(
        change
        for at, run in enumerate(runs)
        for change in (
            (run.begin_s, _BEGINS, at),
            (run.computes_s, _COMPUTES, at),
            (run.end_s, _ENDS, at),
        )
    )
    cutter = _Cutter(runs)
    first: dict[tuple[int, str], int] = {}
    within: dict[tuple[int, str], tuple[int, ...]] = {}
    for now_s, change, at in changes:
        devices = runs[at].devices
        if change == _COMPUTES:
            # The run will connect its devices, so their components change together.
            cutter.close(cutter.component(devices), now_s)
            for device in devices:
                cutter.here[device][at] = None
            continue
        cutter.close(devices, now_s)
        for device in devices:
            if change == _BEGINS:
                first[at, device] = len(cutter.of_device[device])
            else:
                within[at, device] = tuple(cutter.of_device[device][first[at, device] :])
                cutter.here[device].pop(at, None)
    return Periods(tuple(runs), tuple(cutter.periods), tuple(cutter.parts), within)


def period_speeds(periods: Periods, period: Period, demands: Sequence[Demand]) -> list[float]:
    """Return the speed (0..1] of each of the period's runs; `demands` has one for every run."""
    first = periods.parts[period.parts[0]]
    if not first.joint:
        clients = [periods.runs[at].mps for at in period.runs]
        return list(mixed_speeds([demands[at] for at in period.runs], clients))
    loads = {
        at: Load(demands[at], periods.runs[at].devices, periods.runs[at].mps) for at in period.runs
    }
    found = running_speeds(loads)
    return [found[at] for at in period.runs]


def part_activities(periods: Periods, period: Period, demands: Sequence[Demand]) -> list[float]:
    """Return the SM activity of the device of each of the period's parts."""
    speed = dict(zip(period.runs, period_speeds(periods, period, demands), strict=True))
    found = []
    for place in period.parts:
        runs = periods.parts[place].runs
        found.append(activity([demands[at] for at in runs], [speed[at] for at in runs]))
    return found


def solo_seconds(periods: Periods, demands: Sequence[Demand], least_speed: float) -> list[float]:
    """Return for each run the seconds that its work would take alone, its start-up included.

    No speed counts as less than `least_speed`, so that no time becomes zero.
    """
    found = [run.computes_s - run.begin_s for run in periods.runs]
    for period in periods.periods:
        at_speeds = period_speeds(periods, period, demands)
        for at, speed in zip(period.runs, at_speeds, strict=True):
            found[at] += period.seconds * max(least_speed, speed)
    return found


_PRIOR_LOGIT = log(0.45 / 0.55)
_PRIOR_LOGIT_SD = 0.7
"""Where the typical job of a server may lie: 0.18 to 0.76 in 19 of 20 cases."""
_BETWEEN_JOBS_SD = 1.2
"""How the jobs of one server differ: 95 % of the logits lie within 2.4 of the typical one."""
_READING_SD, _MODEL_SD = 0.01, 0.03
"""The error of a mean reading beside the model: an amount, and a part of the reading."""
_MOST_JOINT, _JOINT_SD = 0.5, 0.2
"""A run on several devices may show little because it wants little, or because neighbours of
unknown weight hold it back. So readings that are mostly from such times count as none. In the
others this is the error of that part."""
_START_UP_SD_S = 10.0
"""How well it is known for how long a run puts no load on its devices."""
_MOST_TERMS = 1_000_000
"""Terms (a run in a period of an equation) that a fit takes: some seconds for each draw. Ten
thousand jobs with three on a GPU have a fifth of them."""
_ROUNDS, _ROUNDS_OF_DRAW = 12, 4
_CG_ROUNDS = 30
_CG_EXACT = 1e-3
_LONGEST_STEP = 1.0
_ENOUGH = 0.01
_HALVINGS = 4
_H = 1e-4
_LARGEST_LOGIT = 6.0


class Seen(Struct, frozen=True):
    """A device's mean SM activity (0..1) from the begin to the end of a run on it."""

    run: int
    device: str
    smact: float


class Told(Struct, frozen=True):
    """A figure for a job's demand (0..1) from elsewhere, and its standard error (> 0)."""

    smact: float
    sd: float


class SoloFit:
    """Finds the demands (0..1) of jobs from all readings.

    `job_of` is the job (0, 1, ...) of each run. `told`: what else is known of some jobs. The
    methods take a share weight for each job.
    """

    def __init__(
        self,
        periods: Periods,
        job_of: Sequence[int],
        seen: Sequence[Seen],
        told: Mapping[int, Sequence[Told]],
        jobs: int,
    ) -> None:
        self._equations = _Equations(periods, job_of, seen, told, jobs)
        self.informed = self._equations.jobs_read()
        """The jobs about which the readings say something."""
        self._best = self._equations.start()
        # Runs on several devices hold one another back, which the sum of demands does not show.
        self._corrected = any(part.joint for part in periods.parts)

    def best(self, weights: Sequence[float]) -> tuple[float, ...]:
        """Return the demands that fit best. Draws begin there."""
        exact = _Targets.exact(self._equations)
        self._best = _fitted(self._equations, self._best, exact, _ROUNDS)
        if self._corrected:
            self._equations.correct(self._best, weights)
            self._best = _fitted(self._equations, self._best, exact, _ROUNDS)
        return _demands(self._best)

    def draw(self, weights: Sequence[float], rng: Random) -> tuple[float, ...]:
        """Return demands that are as likely as their spread says."""
        targets = _Targets.changed(self._equations, rng)
        found = self._best
        for _ in range(1 + self._corrected):
            if self._corrected:
                self._equations.correct(found, weights)
            found = _fitted(self._equations, found, targets, _ROUNDS_OF_DRAW)
        return _demands(found)


def _demands(unknowns: Sequence[float]) -> tuple[float, ...]:
    return tuple(_demand(x) for x in unknowns[:-1])


def _demand(logit: float) -> float:
    return 1 / (1 + exp(-logit))


def _logit(demand: float) -> float:
    kept = min(0.99, max(0.01, demand))
    return log(kept / (1 - kept))


# ------------------------------------------------------------------ equations


class _Equation(Struct, frozen=True):
    """The mean over `seconds` of the activity in these parts is `smact`, with this error."""

    parts: tuple[int, ...]
    seconds: float
    smact: float
    sd: float


class _Targets(Struct, frozen=True):
    """The right-hand sides of one fit: of the equations, of what is told, and of the prior."""

    seen: Sequence[float]
    told: Sequence[float]
    offsets: Sequence[float]
    typical: float

    @staticmethod
    def exact(equations: _Equations) -> _Targets:
        return _Targets(
            [each.smact for each in equations.seen],
            [each.smact for _, each in equations.told],
            [0.0] * equations.jobs,
            _PRIOR_LOGIT,
        )

    @staticmethod
    def changed(equations: _Equations, rng: Random) -> _Targets:
        """Return the targets with random errors of their own size."""
        return _Targets(
            [rng.gauss(each.smact, each.sd) for each in equations.seen],
            [rng.gauss(each.smact, each.sd) for _, each in equations.told],
            [rng.gauss(0.0, _BETWEEN_JOBS_SD) for _ in range(equations.jobs)],
            rng.gauss(_PRIOR_LOGIT, _PRIOR_LOGIT_SD),
        )


class _Equations:
    """The recorded means as functions of the unknowns: a logit per job, then the typical one."""

    def __init__(
        self,
        periods: Periods,
        job_of: Sequence[int],
        seen: Sequence[Seen],
        told: Mapping[int, Sequence[Told]],
        jobs: int,
    ) -> None:
        self.jobs = jobs
        self.told = [(job, each) for job, figures in told.items() for each in figures]
        self.seen: list[_Equation] = []
        for each in seen:
            run = periods.runs[each.run]
            parts = periods.within.get((each.run, each.device), ())
            seconds = run.end_s - run.begin_s
            if not parts or seconds <= 0:
                continue
            joint = sum(p.seconds for p in map(periods.parts.__getitem__, parts) if p.joint)
            if joint / seconds <= _MOST_JOINT:
                part = hypot(_MODEL_SD, min(1.0, _START_UP_SD_S / seconds))
                sd = hypot(_READING_SD, part * each.smact, _JOINT_SD * joint / seconds)
                self.seen.append(_Equation(parts, seconds, each.smact, sd))
        self._bound_terms(periods)
        self._periods, self._job_of = periods, job_of
        self._parts = [
            (tuple(job_of[at] for at in part.runs), part.mps, part.seconds)
            for part in periods.parts
        ]
        self._factor = [1.0] * len(self._parts)

    def _bound_terms(self, periods: Periods) -> None:
        """Leave out equations, evenly, if all together have too many terms."""
        sizes = [len(part.runs) for part in periods.parts]
        terms = sum(sum([sizes[at] for at in each.parts]) for each in self.seen)
        self.seen = self.seen[:: max(1, ceil(terms / _MOST_TERMS))]

    def jobs_read(self) -> frozenset[int]:
        places = {place for each in self.seen for place in each.parts}
        return frozenset(job for place in places for job in self._parts[place][0])

    def start(self) -> list[float]:
        """Return unknowns at which no device is full: there every reading has an effect."""
        parts: list[list[float]] = [[] for _ in range(self.jobs)]
        for each in self.seen:
            for place in each.parts:
                jobs = self._parts[place][0]
                for job in jobs:
                    parts[job].append(min(0.9, each.smact) / len(jobs))
        for job, told in self.told:
            parts[job] = [told.smact]
        typical = [_logit(sum(found) / len(found)) if found else _PRIOR_LOGIT for found in parts]
        return [*typical, _PRIOR_LOGIT]

    def correct(self, unknowns: Sequence[float], weights: Sequence[float]) -> None:
        """Compare the sum of demands with the whole model, at these unknowns."""
        solo = _demands(unknowns)
        demands = [Demand(solo[job], weights[job]) for job in self._job_of]
        shown = self._shown(solo, [1.0] * len(self._parts))
        for period in self._periods.periods:
            if not self._periods.parts[period.parts[0]].joint:
                continue
            whole = part_activities(self._periods, period, demands)
            for place, smact in zip(period.parts, whole, strict=True):
                self._factor[place] = smact / max(1e-6, shown[place])

    def _shown(self, solo: Sequence[float], factors: Sequence[float]) -> list[float]:
        return [
            factor * total_activity(sum([solo[j] for j in jobs]), len(jobs), mps=mps)
            for (jobs, mps, _), factor in zip(self._parts, factors, strict=True)
        ]

    def cost(self, unknowns: Sequence[float], targets: _Targets) -> float:
        """Return the sum of the squared errors."""
        solo, typical = _demands(unknowns), unknowns[-1]
        amounts = self._amounts(self._shown(solo, self._factor))
        total = ((typical - targets.typical) / _PRIOR_LOGIT_SD) ** 2
        for equation, target in zip(self.seen, targets.seen, strict=True):
            mean = sum([amounts[at] for at in equation.parts]) / equation.seconds
            total += ((mean - target) / equation.sd) ** 2
        for (job, told), target in zip(self.told, targets.told, strict=True):
            total += ((solo[job] - target) / told.sd) ** 2
        for x, offset in zip(unknowns, targets.offsets, strict=False):
            total += ((x - typical - offset) / _BETWEEN_JOBS_SD) ** 2
        return total

    def _amounts(self, shown: Sequence[float]) -> list[float]:
        return [smact * part[2] for smact, part in zip(shown, self._parts, strict=True)]

    def linear(self, unknowns: Sequence[float], targets: _Targets) -> tuple[list[_Row], _Vector]:
        """Return the rows of the Jacobian that concern single jobs, and the negative gradient of
        half the cost."""
        solo, typical = _demands(unknowns), unknowns[-1]
        shown = self._shown(solo, self._factor)
        beside = self._shown([d + _H for d in solo], self._factor)
        amounts = self._amounts(shown)
        # `beside` moves every job of a part by _H; all have the same effect.
        slopes = [
            (after - before) * part[2] / (_H * len(part[0]))
            for before, after, part in zip(shown, beside, self._parts, strict=True)
        ]
        steep = [max(1e-3, d * (1 - d)) for d in solo]
        rows: list[_Row] = []
        gradient = [0.0] * (self.jobs + 1)

        def add(row: dict[int, float], error: float) -> None:
            rows.append((tuple(row), tuple(row.values())))
            for job, slope in row.items():
                gradient[job] -= slope * error

        for equation, target in zip(self.seen, targets.seen, strict=True):
            scale = 1 / (equation.seconds * equation.sd)
            row: dict[int, float] = {}
            mean = 0.0
            for place in equation.parts:
                mean += amounts[place]
                slope = slopes[place] * scale
                for job in self._parts[place][0]:
                    row[job] = row.get(job, 0.0) + slope * steep[job]
            add(row, mean * scale - target / equation.sd)
        for (job, told), target in zip(self.told, targets.told, strict=True):
            add({job: steep[job] / told.sd}, (solo[job] - target) / told.sd)
        for job in range(self.jobs):
            error = unknowns[job] - typical - targets.offsets[job]
            gradient[job] -= error / _BETWEEN_JOBS_SD**2
            gradient[-1] += error / _BETWEEN_JOBS_SD**2
        gradient[-1] -= (typical - targets.typical) / _PRIOR_LOGIT_SD**2
        return rows, gradient


# ------------------------------------------------------------------ least squares

_Vector = list[float]
_Row = tuple[tuple[int, ...], tuple[float, ...]]
"""A row of the Jacobian: the positions of its values, and the values."""


def _fitted(
    equations: _Equations, start: Sequence[float], targets: _Targets, rounds: int
) -> _Vector:
    """Return the unknowns with nearly the least cost, by at most so many Gauss-Newton steps."""
    found = list(start)
    cost = equations.cost(found, targets)
    for _ in range(rounds):
        rows, gradient = equations.linear(found, targets)
        step = [
            min(_LONGEST_STEP, max(-_LONGEST_STEP, each)) for each in _newton_step(rows, gradient)
        ]
        for _ in range(_HALVINGS):
            tried = [
                min(_LARGEST_LOGIT, max(-_LARGEST_LOGIT, x + dx))
                for x, dx in zip(found, step, strict=True)
            ]
            next_cost = equations.cost(tried, targets)
            if next_cost <= cost:
                found = tried
                break
            step = [dx / 2 for dx in step]
        if next_cost > cost * (1 - _ENOUGH / 10) or max(map(abs, step)) < _ENOUGH:
            break
        cost = next_cost
    return found


def _newton_step(rows: Sequence[_Row], gradient: Sequence[float]) -> _Vector:
    """Return the solution of the normal equations, by preconditioned conjugate gradients."""
    prior, jobs = 1 / _BETWEEN_JOBS_SD**2, len(gradient) - 1
    diagonal = [prior] * jobs + [jobs * prior + 1 / _PRIOR_LOGIT_SD**2]
    for places, values in rows:
        for place, value in zip(places, values, strict=True):
            diagonal[place] += value * value

    def times(v: _Vector) -> _Vector:
        last = v[-1]
        found = [prior * (x - last) for x in v[:-1]]
        found.append(last / _PRIOR_LOGIT_SD**2 - sum(found))
        for places, values in rows:
            if len(places) == 1:
                found[places[0]] += values[0] * values[0] * v[places[0]]
                continue
            along = sum([v[p] * value for p, value in zip(places, values, strict=True)])
            for place, value in zip(places, values, strict=True):
                found[place] += along * value
        return found

    x = [0.0] * len(gradient)
    left = list(gradient)
    scaled = [r / d for r, d in zip(left, diagonal, strict=True)]
    direction = scaled
    size = sum(r * s for r, s in zip(left, scaled, strict=True))
    first = size
    for _ in range(_CG_ROUNDS):
        if size <= first * _CG_EXACT**2:
            break
        image = times(direction)
        length = size / sum(p * q for p, q in zip(direction, image, strict=True))
        x = [a + length * p for a, p in zip(x, direction, strict=True)]
        left = [r - length * q for r, q in zip(left, image, strict=True)]
        scaled = [r / d for r, d in zip(left, diagonal, strict=True)]
        before, size = size, sum(r * s for r, s in zip(left, scaled, strict=True))
        direction = [s + size / before * p for s, p in zip(scaled, direction, strict=True)]
    return x
